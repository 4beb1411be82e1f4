//! Printing of a [`Query`] as text that parses to the same query.
//!
//! Parentheses are written where the tree needs them, and at every change between `and` and `or`,
//! where readers would expect a precedence. The printed text never nests deeper than the original.

use std::fmt::{self, Display, Formatter, Write};

use time::format_description::well_known::Rfc3339;

use super::ast::{
    Check, Direction, Expr, LimitClause, Literal, Name, Op, Operand, Query, SetExpr, SortField,
    Test,
};
use super::lexer::Keyword;

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        if let Some(condition) = &self.condition {
            condition.fmt(f)?;
            gap = " ";
        }
        for (index, field) in self.sort.iter().enumerate() {
            if index == 0 {
                write!(f, "{gap}sort by {field}")?;
                gap = " ";
            } else {
                write!(f, ", {field}")?;
            }
        }
        if let Some(skip) = self.skip {
            write!(f, "{gap}skip {skip}")?;
            gap = " ";
        }
        match self.limit {
            Some(LimitClause::None) => write!(f, "{gap}limit none"),
            Some(LimitClause::Count(count)) => write!(f, "{gap}limit {count}"),
            None => Ok(()),
        }
    }
}

impl Display for SortField {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        match self.direction {
            Direction::Ascending => Ok(()),
            Direction::Descending => f.write_str(" desc"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => value.fmt(f),
            Self::Symbol(name) => name.fmt(f),
            Self::Test(test) => test.fmt(f),
            Self::Empty(set) => write!(f, "isEmpty({set})"),
            Self::Not(inner) => write!(f, "not {inner}"),
            Self::And(operands) => chain(f, operands, " and "),
            Self::Or(operands) => chain(f, operands, " or "),
        }
    }
}

fn chain(f: &mut Formatter<'_>, operands: &[Expr], joint: &str) -> fmt::Result {
    for (index, operand) in operands.iter().enumerate() {
        if index > 0 {
            f.write_str(joint)?;
        }
        let last = index + 1 == operands.len();
        match operand {
            Expr::And(_) | Expr::Or(_) => write!(f, "({operand})")?,
            Expr::Not(_) if !last => write!(f, "({operand})")?,
            _ => operand.fmt(f)?,
        }
    }
    Ok(())
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.left, self.check)
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol(name) => name.fmt(f),
            Self::AnyOf(name) => write!(f, "anyOf({name})"),
            Self::AllOf(name) => write!(f, "allOf({name})"),
            Self::Count(set) => write!(f, "count({set})"),
        }
    }
}

impl Display for SetExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol(name) => name.fmt(f),
            Self::From(name, query) => write!(f, "from {name} where {query}"),
        }
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let not = |negated: &bool| if *negated { "not " } else { "" };
        match self {
            Self::Compare(op, literal) => write!(f, "{op} {literal}"),
            Self::Null { negated: false } => f.write_str("= null"),
            Self::Null { negated: true } => f.write_str("!= null"),
            Self::In { negated, values } => {
                write!(f, "{}in [", not(negated))?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_char(']')
            }
            Self::Between { negated, low, high } => {
                write!(f, "{}between {low} and {high}", not(negated))
            }
            Self::Contains { negated, fold, needle } => {
                let word = if *fold { "icontains" } else { "contains" };
                write!(f, "{}{word} {needle}", not(negated))
            }
        }
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match Keyword::of(&self.text) {
            Some(_) => write!(f, "'{}'", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => quote(f, text),
            Self::Int(value) => value.fmt(f),
            // The debug form has a fraction or an exponent, so that it parses as a float.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Bool(value) => value.fmt(f),
            Self::Time(time) => {
                let text = time.format(&Rfc3339).map_err(|_| fmt::Error)?;
                write!(f, "datetime({text})")
            }
        }
    }
}

fn quote(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\u{c}' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            _ => f.write_char(c)?,
        }
    }
    f.write_char('"')
}
