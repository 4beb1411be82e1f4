//! Parser: tokens to a [`Query`], by recursive descent with one token of lookahead.
//!
//! `and` and `or` have the same precedence: both take everything to their right, and so does `not`
//! (docs/protocol/management-api.md 2.5, precedence). A run of the same word becomes one flat node;
//! each change between the two words is one level deeper and counts against [`super::MAX_DEPTH`].

mod operation;

use super::ast::{Direction, Expr, LimitClause, Literal, Name, Position, Query, Sort, SortField};
use super::error::{Code, FilterError, Reason};
use super::lexer::{Keyword, Kind, Lexer, Token};
use super::limits::{MAX_DEPTH, MAX_SORT_FIELDS, MAX_TESTS, MAX_TEXT};

/// Parses a filter. White space alone matches everything.
pub fn parse(text: &str) -> Result<Query, FilterError> {
    let mut parser = Parser::new(text, Code::Filter)?;
    let mut query = Query::default();
    if parser.current.kind != Kind::End {
        query = parser.query(0)?;
    }
    if parser.current.kind != Kind::End {
        return Err(parser.unexpected("'and', 'or', 'sort by', 'skip', 'limit' or the end"));
    }
    query.source = text.into();
    Ok(query)
}

/// Parses a `sort` parameter: `field [asc|desc] {, field [asc|desc]}`, or nothing.
pub fn parse_sort(text: &str) -> Result<Sort, FilterError> {
    let mut parser = Parser::new(text, Code::Sort)?;
    let mut fields = Vec::new();
    if parser.current.kind != Kind::End {
        fields = parser.sort_fields()?;
    }
    if parser.current.kind != Kind::End {
        return Err(parser.unexpected("'asc', 'desc', ',' or the end"));
    }
    Ok(Sort { fields, source: text.into() })
}

/// The word between two conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    And,
    Or,
}

/// Position of the parser in the text.
struct Parser<'a> {
    source: &'a str,
    code: Code,
    lexer: Lexer<'a>,
    current: Token<'a>,
    tests: usize,
    sub_queries: usize,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str, code: Code) -> Result<Self, FilterError> {
        if source.len() > MAX_TEXT {
            let reason = Reason::TooLong { length: source.len() };
            return Err(FilterError::new(code, "", 0, reason));
        }
        let mut lexer = Lexer::new(source, code);
        let current = lexer.next()?;
        Ok(Self { source, code, lexer, current, tests: 0, sub_queries: 0 })
    }

    /// Parses a condition and clauses, at least one of them. Stops at a token that belongs to
    /// neither.
    fn query(&mut self, depth: usize) -> Result<Query, FilterError> {
        let mut query = Query::default();
        let mut spaced = true;
        if !self.at_clause() {
            query.condition = Some(self.boolean(depth)?);
            spaced = false;
        }
        if self.clause(Keyword::Sort, &mut spaced)? {
            self.need_space("a space before 'by'")?;
            self.keyword(Keyword::By, "'by'")?;
            self.need_space("a space and a sort field")?;
            query.sort = self.sort_fields()?;
        }
        if self.clause(Keyword::Skip, &mut spaced)? {
            self.need_space("a space and a number")?;
            query.skip = Some(self.whole_number("a whole number")?);
        }
        if self.clause(Keyword::Limit, &mut spaced)? {
            self.need_space("a space and a number or 'none'")?;
            query.limit = Some(self.limit()?);
        }
        Ok(query)
    }

    fn at_clause(&self) -> bool {
        matches!(self.current.kind, Kind::Keyword(Keyword::Sort | Keyword::Skip | Keyword::Limit))
    }

    /// Takes the word of a clause if it is next. Only the first part of a query needs no space in
    /// front.
    fn clause(&mut self, word: Keyword, spaced: &mut bool) -> Result<bool, FilterError> {
        if self.current.kind != Kind::Keyword(word) {
            return Ok(false);
        }
        if !*spaced {
            self.need_space("a space before the clause")?;
        }
        *spaced = false;
        self.advance()?;
        Ok(true)
    }

    fn sort_fields(&mut self) -> Result<Vec<SortField>, FilterError> {
        let mut fields = Vec::new();
        loop {
            let name = self.name("a sort field")?;
            let mut direction = Direction::Ascending;
            if let Kind::Keyword(word @ (Keyword::Asc | Keyword::Desc)) = self.current.kind {
                self.need_space("a space before the direction")?;
                if word == Keyword::Desc {
                    direction = Direction::Descending;
                }
                self.advance()?;
            }
            if fields.len() < MAX_SORT_FIELDS {
                fields.push(SortField { name, direction });
            }
            if self.current.kind != Kind::Comma {
                return Ok(fields);
            }
            self.advance()?;
        }
    }

    fn limit(&mut self) -> Result<LimitClause, FilterError> {
        if self.current.kind == Kind::Keyword(Keyword::None) {
            self.advance()?;
            return Ok(LimitClause::None);
        }
        self.whole_number("a whole number or 'none'").map(LimitClause::Count)
    }

    fn whole_number(&mut self, expected: &'static str) -> Result<i64, FilterError> {
        let Kind::Literal(Literal::Int(number)) = self.current.kind else {
            return Err(self.unexpected(expected));
        };
        self.advance()?;
        Ok(number)
    }

    /// Parses conditions joined by `and` and `or`.
    fn boolean(&mut self, depth: usize) -> Result<Expr, FilterError> {
        let mut depth = depth;
        let mut operands = Vec::new();
        let mut joints: Vec<Joint> = Vec::new();
        loop {
            operands.push(self.primary(depth)?);
            let joint = match self.current.kind {
                Kind::Keyword(Keyword::And) => Joint::And,
                Kind::Keyword(Keyword::Or) => Joint::Or,
                _ => return fold(operands, joints).ok_or_else(|| self.unexpected("a condition")),
            };
            self.need_space("a space before 'and' or 'or'")?;
            if joints.last().is_some_and(|last| *last != joint) {
                depth = self.deeper(depth)?;
            }
            joints.push(joint);
            self.advance()?;
            self.need_space("a space and a condition")?;
        }
    }

    fn primary(&mut self, depth: usize) -> Result<Expr, FilterError> {
        match self.current.kind {
            Kind::Open => {
                let inner_depth = self.deeper(depth)?;
                self.advance()?;
                let inner = self.boolean(inner_depth)?;
                self.close()?;
                Ok(inner)
            }
            Kind::Keyword(word @ (Keyword::True | Keyword::False)) => {
                self.count_test()?;
                self.advance()?;
                Ok(Expr::Constant(word == Keyword::True))
            }
            Kind::Keyword(Keyword::Not) => {
                let inner_depth = self.deeper(depth)?;
                self.advance()?;
                self.need_space("a space after 'not'")?;
                self.boolean(inner_depth).map(|inner| Expr::Not(Box::new(inner)))
            }
            _ => {
                self.count_test()?;
                self.operation(depth)
            }
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, FilterError> {
        if depth >= MAX_DEPTH {
            return Err(self.too_many("levels of nesting", MAX_DEPTH));
        }
        Ok(depth + 1)
    }

    fn count_test(&mut self) -> Result<(), FilterError> {
        if self.tests >= MAX_TESTS {
            return Err(self.too_many("tests", MAX_TESTS));
        }
        self.tests += 1;
        Ok(())
    }

    fn name(&mut self, expected: &'static str) -> Result<Name, FilterError> {
        let Kind::Name(text) = self.current.kind else { return Err(self.unexpected(expected)) };
        let name = Name { text: text.to_owned(), at: Position(self.current.at) };
        self.advance()?;
        Ok(name)
    }

    fn keyword(&mut self, word: Keyword, expected: &'static str) -> Result<(), FilterError> {
        if self.current.kind != Kind::Keyword(word) {
            return Err(self.unexpected(expected));
        }
        self.advance().map(drop)
    }

    fn close(&mut self) -> Result<(), FilterError> {
        if self.current.kind != Kind::Close {
            return Err(self.unexpected("')'"));
        }
        self.advance().map(drop)
    }

    /// Moves to the next token and returns the present one.
    fn advance(&mut self) -> Result<Token<'a>, FilterError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.current, next))
    }

    fn need_space(&self, expected: &'static str) -> Result<(), FilterError> {
        if self.current.gap == 0 {
            return Err(self.unexpected(expected));
        }
        Ok(())
    }

    fn unexpected(&self, expected: &'static str) -> FilterError {
        let Token { at, end, .. } = self.current;
        let found = match self.current.kind {
            Kind::End => "<EOF>".to_owned(),
            _ => self.source.get(at..end).unwrap_or("").chars().take(60).collect(),
        };
        self.error(Reason::Unexpected { found, expected })
    }

    fn too_many(&self, what: &'static str, limit: usize) -> FilterError {
        self.error(Reason::TooMany { what, limit })
    }

    fn error(&self, reason: Reason) -> FilterError {
        FilterError::new(self.code, self.source, self.current.at, reason)
    }
}

/// Joins conditions from the right; a run of one joint is one node. `None` if there are no
/// conditions.
fn fold(mut operands: Vec<Expr>, mut joints: Vec<Joint>) -> Option<Expr> {
    let mut run = vec![operands.pop()?];
    let mut run_joint = None;
    while let (Some(joint), Some(left)) = (joints.pop(), operands.pop()) {
        if run_joint.is_some_and(|current| current != joint) {
            run = vec![join(run_joint, run)];
        }
        run_joint = Some(joint);
        run.push(left);
    }
    Some(join(run_joint, run))
}

/// The node of a run that was collected from right to left.
fn join(joint: Option<Joint>, mut run: Vec<Expr>) -> Expr {
    run.reverse();
    match joint {
        Some(Joint::And) => Expr::And(run),
        Some(Joint::Or) => Expr::Or(run),
        None => run.pop().unwrap_or(Expr::Constant(true)),
    }
}
