//! Binding: a [`Query`] and a [`Schema`] make a [`Plan`].
//!
//! Unknown names, types that do not fit and sets in the wrong place are reported here, with their
//! position. A bound plan cannot fail and looks up no names.

use super::SortField;
use super::ast::{
    self, Direction, Expr, LimitClause, Literal, Name, Operand, Query, SetExpr, Sort,
};
use super::error::{Code, FilterError, Reason};
use super::limits::MAX_HOPS;
use super::order::{Order, SortKey};
use super::plan::{Check, Condition, Leaf, Members, Path, Plan, Quantifier, SubQuery, Values};
use super::schema::{Schema, Shape, Symbol, Visibility};
use super::value::{Type, upper_case};

/// Author of a filter.
#[derive(Clone, Copy)]
pub enum Audience<'a> {
    /// A client, which may use public symbols only; other symbols are reported to it as unknown. The function
    /// tells which kinds the client may read: links to other kinds are refused.
    Caller(&'a dyn Fn(&str) -> bool),
    /// The server, which may use every symbol and link.
    Server,
}

impl std::fmt::Debug for Audience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Caller(_) => "Caller",
            Self::Server => "Server",
        })
    }
}

/// Resolves the names of a query.
pub fn bind(
    query: &Query,
    schema: &dyn Schema,
    audience: Audience<'_>,
) -> Result<Plan, FilterError> {
    let binder = Binder { source: &query.source, code: Code::Filter, audience };
    let condition = match &query.condition {
        Some(expr) => binder.condition(schema, expr)?,
        None => Condition::Constant(true),
    };
    let order = Binder { code: Code::Sort, ..binder }.order(schema, &query.sort)?;
    let kind = schema.kind().into();
    Ok(Plan { kind, condition, order, skip: query.skip, limit: query.limit })
}

/// Resolves the names of a sort parameter.
pub fn bind_sort(
    sort: &Sort,
    schema: &dyn Schema,
    audience: Audience<'_>,
) -> Result<Order, FilterError> {
    Binder { source: &sort.source, code: Code::Sort, audience }.order(schema, &sort.fields)
}

#[derive(Clone, Copy)]
struct Binder<'q> {
    source: &'q str,
    code: Code,
    audience: Audience<'q>,
}

/// A resolved name.
struct Found<'s> {
    path: Path,
    ty: Type,
    /// True if the name stands for a set: the symbol, or a link that leads to it, is one.
    many: bool,
    /// The last symbol and its schema; `None` for a key of a map.
    last: Option<(&'s dyn Schema, Symbol)>,
}

impl Found<'_> {
    /// The test with the texts that its numbers stand for.
    fn in_texts(&self, test: &ast::Test) -> ast::Test {
        let numbers = self.last.as_ref().map_or(&[] as &[_], |(_, symbol)| symbol.numbers);
        let text = |literal: &mut Literal| {
            let text = numbers.iter().find(|(number, _)| *literal == Literal::Int(*number));
            if let Some((_, text)) = text {
                *literal = Literal::Text((*text).to_owned());
            }
        };
        let mut test = test.clone();
        match &mut test.check {
            ast::Check::Compare(_, literal) => text(literal),
            ast::Check::In { values, .. } => values.iter_mut().for_each(text),
            _ => {}
        }
        test
    }
}

impl Binder<'_> {
    fn condition(&self, schema: &dyn Schema, expr: &Expr) -> Result<Condition, FilterError> {
        let each = |parts: &[Expr]| {
            parts.iter().map(|part| self.condition(schema, part)).collect::<Result<Vec<_>, _>>()
        };
        match expr {
            Expr::Constant(value) => Ok(Condition::Constant(*value)),
            Expr::And(parts) => each(parts).map(Condition::all),
            Expr::Or(parts) => each(parts).map(Condition::any),
            Expr::Not(inner) => self.condition(schema, inner).map(Condition::negate),
            Expr::Empty(set) => self.members(schema, set).map(Condition::Empty),
            Expr::Symbol(name) => self.bare(schema, name),
            Expr::Test(test) => self.test(schema, test),
        }
    }

    fn bare(&self, schema: &dyn Schema, name: &Name) -> Result<Condition, FilterError> {
        let found = self.one(schema, name)?;
        if !matches!(found.ty, Type::Bool | Type::Any) {
            let reason = Reason::NotBoolean { name: name.text.clone(), ty: found.ty };
            return Err(self.error(name, reason));
        }
        Ok(Condition::Value(found.path, Check::True))
    }

    fn test(&self, schema: &dyn Schema, test: &ast::Test) -> Result<Condition, FilterError> {
        let condition = match &test.left {
            Operand::Symbol(name) => {
                let found = self.one(schema, name)?;
                let check = self.check(&found.path.name, found.ty, &found.in_texts(test))?;
                Condition::Value(found.path, check)
            }
            Operand::AnyOf(name) => self.elements(schema, name, Quantifier::AnyOf, test)?,
            Operand::AllOf(name) => self.elements(schema, name, Quantifier::AllOf, test)?,
            Operand::Count(set) => {
                if matches!(test.check, ast::Check::Null { .. }) {
                    return Err(self.error_at(test.at.0, Reason::NullCount));
                }
                let members = self.members(schema, set)?;
                let check =
                    self.check(&format!("count({})", members.path.name), Type::Int, test)?;
                Condition::Count(members, check)
            }
        };
        Ok(if test.check.negates_whole() { condition.negate() } else { condition })
    }

    fn elements(
        &self,
        schema: &dyn Schema,
        name: &Name,
        quantifier: Quantifier,
        test: &ast::Test,
    ) -> Result<Condition, FilterError> {
        let found = self.many(schema, name)?;
        let check = self.check(&found.path.name, found.ty, &found.in_texts(test))?;
        Ok(Condition::Elements(found.path, quantifier, check))
    }

    /// The check of a test, its literals as the left side is compared with them.
    fn check(&self, left: &str, ty: Type, test: &ast::Test) -> Result<Check, FilterError> {
        let misfit = |operator: &str, literal: &ast::Literal| {
            let right = format!("{operator} {}", literal.type_name());
            let reason = Reason::Operands { name: left.to_owned(), left: ty, right };
            self.error_at(test.at.0, reason)
        };
        match &test.check {
            ast::Check::Null { negated: false } => Ok(Check::Null),
            ast::Check::Null { negated: true } => Ok(Check::NotNull),
            ast::Check::Compare(op, literal) => match ty.compared_with(literal) {
                Some(literal) => Ok(Check::Compare(*op, literal)),
                None => Err(misfit(&op.to_string(), literal)),
            },
            ast::Check::In { values, .. } => {
                let listed = |it| ty.listed_with(it).ok_or_else(|| misfit("in", it));
                let values = values.iter().map(listed).collect::<Result<_, _>>()?;
                Ok(Check::In(Values::new(values)))
            }
            ast::Check::Between { low, high, .. } => {
                let bound = |it| {
                    let bound = ty.compared_with(it).filter(|_| ty.has_ranges());
                    bound.ok_or_else(|| misfit("between", it))
                };
                Ok(Check::Between(bound(low)?, bound(high)?))
            }
            ast::Check::Contains { negated, fold, needle } => {
                if !ty.has_text() {
                    return Err(misfit(if *fold { "icontains" } else { "contains" }, needle));
                }
                let text = needle.to_text();
                Ok(match fold {
                    false => Check::Contains { negated: *negated, needle: text },
                    true => Check::ContainsFolded { negated: *negated, needle: upper_case(&text) },
                })
            }
        }
    }

    fn members(&self, schema: &dyn Schema, set: &SetExpr) -> Result<Members, FilterError> {
        let (name, query) = match set {
            SetExpr::Symbol(name) => {
                return Ok(Members { path: self.many(schema, name)?.path, sub_query: None });
            }
            SetExpr::From(name, query) => (name, query),
        };
        let found = self.many(schema, name)?;
        let linked = found
            .last
            .filter(|(_, symbol)| self.may_follow(symbol))
            .and_then(|(owner, symbol)| owner.linked(symbol.id));
        let Some(linked) = linked else {
            return Err(self.error(name, Reason::NotALink { name: name.text.clone() }));
        };
        self.may_read(linked, name)?;
        let condition = match &query.condition {
            Some(expr) => self.condition(linked, expr)?,
            None => Condition::Constant(true),
        };
        // The order does not change how many entities match, but its names are checked.
        Binder { code: Code::Sort, ..*self }.order(linked, &query.sort)?;
        let skip = query.skip.and_then(|skip| u64::try_from(skip).ok()).unwrap_or(0);
        let limit = match query.limit {
            Some(LimitClause::Count(count)) => u64::try_from(count).ok(),
            Some(LimitClause::None) | None => None,
        };
        let kind = linked.kind().into();
        let sub_query = Some(Box::new(SubQuery { kind, condition, skip, limit }));
        Ok(Members { path: found.path, sub_query })
    }

    /// Resolves a name that must be a single value.
    fn one<'s>(&self, schema: &'s dyn Schema, name: &Name) -> Result<Found<'s>, FilterError> {
        let found = self.find(schema, name)?;
        if found.many {
            return Err(self.error(name, Reason::SetAsValue { name: name.text.clone() }));
        }
        Ok(found)
    }

    /// Resolves a name that must be a set.
    fn many<'s>(&self, schema: &'s dyn Schema, name: &Name) -> Result<Found<'s>, FilterError> {
        let found = self.find(schema, name)?;
        if !found.many {
            return Err(self.error(name, Reason::ValueAsSet { name: name.text.clone() }));
        }
        Ok(found)
    }

    /// Resolves a name: a symbol of the kind, a key of a map, or a symbol behind links.
    fn find<'s>(&self, schema: &'s dyn Schema, name: &Name) -> Result<Found<'s>, FilterError> {
        let unknown = || self.error(name, Reason::UnknownSymbol { name: name.text.clone() });
        let mut schema = schema;
        let mut rest = name.text.as_str();
        let mut hops = Vec::new();
        let mut many = false;
        loop {
            let path = |hops: Vec<_>, leaf, index, is_link| {
                let is_wide = is_link || !hops.is_empty();
                Path { hops, leaf, index, is_wide, name: name.text.as_str().into() }
            };
            let exact = self.visible(schema, rest).filter(|it| it.shape != Shape::Map);
            if let Some(symbol) = exact {
                let set = symbol.shape == Shape::Set;
                let leaf = if set { Leaf::Set(symbol.id) } else { Leaf::One(symbol.id) };
                let linked = schema.linked(symbol.id);
                // A single link is a value that the entity shows; of a set, roles may be all that it shows.
                if let Some(linked) = linked.filter(|_| set) {
                    self.may_read(linked, name)?;
                }
                return Ok(Found {
                    path: path(hops, leaf, symbol.index, linked.is_some()),
                    ty: symbol.ty,
                    many: many || set,
                    last: Some((schema, symbol)),
                });
            }
            let step = rest.rmatch_indices('.').find_map(|(dot, _)| {
                let (head, tail) = (rest.get(..dot)?, rest.get(dot + 1..)?);
                let symbol = self.visible(schema, head)?;
                let map = symbol.shape == Shape::Map;
                let next = schema.linked(symbol.id).filter(|_| self.may_follow(&symbol));
                (map || next.is_some()).then_some((symbol, next, tail))
            });
            match step {
                Some((symbol, _, key)) if symbol.shape == Shape::Map => {
                    let leaf = Leaf::Key(symbol.id, key.into());
                    let path = path(hops, leaf, symbol.index, false);
                    return Ok(Found { path, ty: symbol.ty, many, last: None });
                }
                Some((symbol, Some(next), tail)) if hops.len() < MAX_HOPS => {
                    self.may_read(next, name)?;
                    hops.push(symbol.id);
                    many |= symbol.shape == Shape::Set;
                    schema = next;
                    rest = tail;
                }
                Some(_) => {
                    let reason = Reason::TooMany { what: "links in one name", limit: MAX_HOPS };
                    return Err(self.error(name, reason));
                }
                None => return Err(unknown()),
            }
        }
    }

    fn visible(&self, schema: &dyn Schema, name: &str) -> Option<Symbol> {
        schema.symbol(name).filter(|symbol| {
            matches!(self.audience, Audience::Server) || symbol.visibility != Visibility::Internal
        })
    }

    fn may_follow(&self, symbol: &Symbol) -> bool {
        matches!(self.audience, Audience::Server) || symbol.visibility == Visibility::PublicLink
    }

    /// Refuses a link to a kind that the author may not read: tests would tell ids, numbers and values of its entities.
    fn may_read(&self, linked: &dyn Schema, name: &Name) -> Result<(), FilterError> {
        match self.audience {
            Audience::Caller(reads) if !reads(linked.kind()) => {
                let (name_text, kind) = (name.text.clone(), linked.kind().to_owned());
                Err(self.error(name, Reason::NotReadable { name: name_text, kind }))
            }
            Audience::Caller(_) | Audience::Server => Ok(()),
        }
    }

    fn order(&self, schema: &dyn Schema, fields: &[SortField]) -> Result<Order, FilterError> {
        let mut order = Order::default();
        for SortField { name, direction } in fields {
            let reason = match self.visible(schema, &name.text) {
                Some(symbol) if symbol.shape == Shape::One && symbol.ty != Type::Any => {
                    order.push(SortKey {
                        symbol: symbol.id,
                        index: symbol.index,
                        descending: *direction == Direction::Descending,
                        name: name.text.as_str().into(),
                    });
                    continue;
                }
                None if !name.text.contains('.') => {
                    Reason::UnknownSymbol { name: name.text.clone() }
                }
                _ => Reason::NotSortable { name: name.text.clone() },
            };
            return Err(self.error(name, reason));
        }
        Ok(order)
    }

    fn error(&self, name: &Name, reason: Reason) -> FilterError {
        self.error_at(name.at.0, reason)
    }

    fn error_at(&self, offset: usize, reason: Reason) -> FilterError {
        FilterError::new(self.code, self.source, offset, reason)
    }
}
