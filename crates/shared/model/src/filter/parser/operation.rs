//! Parsing of operations: a left side, an operator, a right side; and `isEmpty`.

use std::mem::discriminant;

use super::Parser;
use crate::filter::MAX_SUB_QUERIES;
use crate::filter::ast::{Check, Expr, Literal, Op, Operand, Position, SetExpr, Test};
use crate::filter::error::FilterError;
use crate::filter::lexer::{Keyword, Kind};

const CONDITION: &str = "a condition: a name, 'not', 'true', 'false', '(' or a set function";
const OPERATOR: &str = "an operator: = != < <= > >= in between contains icontains";
const VALUE: &str = "a value: \"text\", a number, true, false, null or datetime(...)";

impl Parser<'_> {
    /// An operation, `isEmpty(...)` or a bare symbol.
    pub(super) fn operation(&mut self, depth: usize) -> Result<Expr, FilterError> {
        let left = match self.current.kind {
            Kind::Name(_) => {
                let name = self.name(CONDITION)?;
                if !self.at_operator() {
                    return Ok(Expr::Symbol(name));
                }
                Operand::Symbol(name)
            }
            Kind::Keyword(Keyword::IsEmpty) => return self.set_expr(depth).map(Expr::Empty),
            Kind::Keyword(Keyword::Count) => Operand::Count(self.set_expr(depth)?),
            Kind::Keyword(word @ (Keyword::AnyOf | Keyword::AllOf)) => {
                self.open_function()?;
                let name = self.name("the name of a set")?;
                self.close()?;
                if word == Keyword::AnyOf { Operand::AnyOf(name) } else { Operand::AllOf(name) }
            }
            _ => return Err(self.unexpected(CONDITION)),
        };
        let (check, at) = self.check()?;
        Ok(Expr::Test(Test { left, check, at }))
    }

    fn at_operator(&self) -> bool {
        matches!(
            self.current.kind,
            Kind::Operator(_)
                | Kind::Keyword(
                    Keyword::Not
                        | Keyword::In
                        | Keyword::Between
                        | Keyword::Contains
                        | Keyword::IContains
                )
        )
    }

    /// Takes the word of a set function and its parenthesis, with nothing between them.
    fn open_function(&mut self) -> Result<(), FilterError> {
        self.advance()?;
        if self.current.kind != Kind::Open || self.current.gap != 0 {
            return Err(self.unexpected("'(' directly after the set function"));
        }
        self.advance().map(drop)
    }

    /// `function( name )` or `function( from name where query )`, from the function's word on.
    fn set_expr(&mut self, depth: usize) -> Result<SetExpr, FilterError> {
        self.open_function()?;
        if self.current.kind != Kind::Keyword(Keyword::From) {
            let name = self.name("the name of a set, or 'from'")?;
            self.close()?;
            return Ok(SetExpr::Symbol(name));
        }
        if self.sub_queries >= MAX_SUB_QUERIES {
            return Err(self.too_many("levels of sub-queries", MAX_SUB_QUERIES));
        }
        let inner_depth = self.deeper(depth)?;
        self.sub_queries += 1;
        self.advance()?;
        self.need_space("a space and the name of a link")?;
        let name = self.name("the name of a link")?;
        self.need_space("a space and 'where'")?;
        self.keyword(Keyword::Where, "'where'")?;
        self.need_space("a space and a query")?;
        let query = self.query(inner_depth)?;
        self.close()?;
        self.sub_queries -= 1;
        Ok(SetExpr::From(name, Box::new(query)))
    }

    /// Parses operator and right side; returns them with the position of the right side.
    fn check(&mut self) -> Result<(Check, Position), FilterError> {
        if let Kind::Operator(op) = self.current.kind {
            self.advance()?;
            let at = Position(self.current.at);
            return Ok((self.comparison(op)?, at));
        }
        if !self.at_operator() {
            return Err(self.unexpected(OPERATOR));
        }
        let spaced = self.current.gap > 0;
        let negated = self.current.kind == Kind::Keyword(Keyword::Not);
        if negated {
            self.advance()?;
            self.need_space("a space after 'not'")?;
        }
        let Kind::Keyword(word) = self.current.kind else {
            return Err(self.unexpected("'in', 'between', 'contains' or 'icontains' after 'not'"));
        };
        if matches!(word, Keyword::In | Keyword::Between) && !spaced {
            return Err(self.unexpected("a space before the operator"));
        }
        if word == Keyword::In && negated && self.current.gap != 1 {
            return Err(self.unexpected("exactly one space between 'not' and 'in'"));
        }
        if !matches!(word, Keyword::In | Keyword::Between | Keyword::Contains | Keyword::IContains)
        {
            return Err(self.unexpected("'in', 'between', 'contains' or 'icontains' after 'not'"));
        }
        self.advance()?;
        self.need_space("a space after the operator")?;
        let at = Position(self.current.at);
        let check = match word {
            Keyword::In => Check::In { negated, values: self.list()? },
            Keyword::Between => self.between(negated)?,
            _ => self.contains(negated, word == Keyword::IContains)?,
        };
        Ok((check, at))
    }

    fn comparison(&mut self, op: Op) -> Result<Check, FilterError> {
        let equality = matches!(op, Op::Equal | Op::NotEqual);
        let expected =
            if equality { VALUE } else { "a value: \"text\", a number or datetime(...)" };
        let literal = match self.current.kind {
            Kind::Keyword(Keyword::Null) if equality => {
                self.advance()?;
                return Ok(Check::Null { negated: op == Op::NotEqual });
            }
            Kind::Keyword(word @ (Keyword::True | Keyword::False)) if equality => {
                self.advance()?;
                Literal::Bool(word == Keyword::True)
            }
            _ => self.literal(expected)?,
        };
        Ok(Check::Compare(op, literal))
    }

    /// A text, number or time.
    fn literal(&mut self, expected: &'static str) -> Result<Literal, FilterError> {
        if !matches!(self.current.kind, Kind::Literal(_)) {
            return Err(self.unexpected(expected));
        }
        match self.advance()?.kind {
            Kind::Literal(literal) => Ok(literal),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn list(&mut self) -> Result<Vec<Literal>, FilterError> {
        const ELEMENT: &str = "a list element: \"text\", a number or datetime(...)";
        if self.current.kind != Kind::ListOpen {
            return Err(self.unexpected("'[' and a list of values"));
        }
        self.advance()?;
        let mut values: Vec<Literal> = Vec::new();
        loop {
            if let (Some(first), Kind::Literal(next)) = (values.first(), &self.current.kind)
                && !same_kind(first, next)
            {
                return Err(self.unexpected("an element of the same type as the first"));
            }
            values.push(self.literal(ELEMENT)?);
            match self.current.kind {
                Kind::Comma => self.advance()?,
                Kind::ListClose => break,
                _ => return Err(self.unexpected("',' or ']'")),
            };
        }
        self.advance()?;
        Ok(values)
    }

    fn between(&mut self, negated: bool) -> Result<Check, FilterError> {
        const BOUND: &str = "a number or datetime(...)";
        let low = self.bound(BOUND)?;
        self.need_space("a space and 'and'")?;
        self.keyword(Keyword::And, "'and'")?;
        self.need_space("a space and the upper bound")?;
        if let Kind::Literal(next) = &self.current.kind
            && !same_kind(&low, next)
        {
            return Err(self.unexpected("an upper bound of the same type as the lower"));
        }
        let high = self.bound(BOUND)?;
        Ok(Check::Between { negated, low, high })
    }

    fn bound(&mut self, expected: &'static str) -> Result<Literal, FilterError> {
        if matches!(self.current.kind, Kind::Literal(Literal::Text(_))) {
            return Err(self.unexpected(expected));
        }
        self.literal(expected)
    }

    fn contains(&mut self, negated: bool, fold: bool) -> Result<Check, FilterError> {
        let expected = if fold { "a \"text\"" } else { "a \"text\" or a number" };
        let fits = match &self.current.kind {
            Kind::Literal(Literal::Text(_)) => true,
            Kind::Literal(Literal::Int(_) | Literal::Float(_)) => !fold,
            _ => false,
        };
        if !fits {
            return Err(self.unexpected(expected));
        }
        Ok(Check::Contains { negated, fold, needle: self.literal(expected)? })
    }
}

/// True if two values may be in one list or range: integers and fractions mix.
fn same_kind(a: &Literal, b: &Literal) -> bool {
    let number = |it: &Literal| matches!(it, Literal::Int(_) | Literal::Float(_));
    discriminant(a) == discriminant(b) || (number(a) && number(b))
}
