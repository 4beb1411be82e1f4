//! Explanations of plans: which part an index answers, which part is tested, in which order.

use std::fmt::{self, Display, Formatter, Write};
use std::ops::Bound;

use super::access::{Access, Ask, Lookup};
use super::ast::{LimitClause, Literal};
use super::order::Order;
use super::plan::{Check, Condition, Members, Plan, Quantifier};
use super::select::Selection;

impl Plan {
    /// The steps of the plan, one line each.
    pub fn explain(&self) -> String {
        let mut out = self.explain_condition();
        let _ = writeln!(out, "order: {}", self.order);
        if let Some(skip) = self.skip {
            let _ = writeln!(out, "skip: {skip}");
        }
        match self.limit {
            Some(LimitClause::Count(count)) => _ = writeln!(out, "limit: {count}"),
            Some(LimitClause::None) => out.push_str("limit: none\n"),
            None => {}
        }
        out
    }

    fn explain_condition(&self) -> String {
        let mut out = format!("list {}\ncandidates: {}\ntest each:\n", self.kind, self.access());
        condition(&mut out, &self.condition, 1);
        out
    }
}

impl Selection {
    /// The steps of the request, one line each.
    pub fn explain(&self) -> String {
        let mut out = self.plan().explain_condition();
        let page = self.page();
        let _ = writeln!(out, "order: {}", self.order());
        let _ = writeln!(out, "skip: {}", page.offset);
        match page.limit {
            Some(limit) => _ = writeln!(out, "limit: {limit}"),
            None => out.push_str("limit: none\n"),
        }
        out
    }
}

fn line(out: &mut String, depth: usize, text: impl Display) {
    let _ = writeln!(out, "{:width$}{text}", "", width = depth * 2);
}

impl Display for Access<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let join = |f: &mut Formatter<'_>, parts: &[Access<'_>], word: &str| {
            for (place, part) in parts.iter().enumerate() {
                let before = if place > 0 { word } else { "" };
                match part {
                    Access::All { .. } | Access::Any(_) => write!(f, "{before}({part})")?,
                    _ => write!(f, "{before}{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Scan => f.write_str("scan"),
            Self::Always => f.write_str("everything"),
            Self::Never => f.write_str("nothing"),
            Self::Lookup(lookup) => lookup.fmt(f),
            Self::All { parts, whole } => {
                join(f, parts, " and ")?;
                if *whole { Ok(()) } else { f.write_str(", then test") }
            }
            Self::Any(parts) => join(f, parts, " or "),
            Self::Except(part) => match &**part {
                Access::All { .. } | Access::Any(_) => write!(f, "not ({part})"),
                part => write!(f, "not {part}"),
            },
        }
    }
}

impl Display for Lookup<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match &self.ask {
            Ask::Equal(values) => write!(f, "index {name} = {}", List(values)),
            Ask::Elements(Quantifier::AnyOf, check) => write!(f, "index anyOf({name}) {check}"),
            Ask::Elements(Quantifier::AllOf, check) => write!(f, "index allOf({name}) {check}"),
            Ask::Empty => write!(f, "index isEmpty({name})"),
            Ask::Range(low, high) => {
                write!(f, "index {name}")?;
                match low {
                    Bound::Included(low) => write!(f, " >= {low}")?,
                    Bound::Excluded(low) => write!(f, " > {low}")?,
                    Bound::Unbounded => {}
                }
                match high {
                    Bound::Included(high) => write!(f, " <= {high}"),
                    Bound::Excluded(high) => write!(f, " < {high}"),
                    Bound::Unbounded => Ok(()),
                }
            }
        }
    }
}

/// Most values of a list that are shown.
const SHOWN: usize = 5;

struct List<'a>(&'a [Literal]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let [single] = self.0 {
            return single.fmt(f);
        }
        f.write_char('[')?;
        for (index, value) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
        }
        if self.0.len() > SHOWN {
            write!(f, ", {} more", self.0.len() - SHOWN)?;
        }
        f.write_char(']')
    }
}

fn condition(out: &mut String, it: &Condition, depth: usize) {
    match it {
        Condition::Constant(true) => line(out, depth, "always"),
        Condition::Constant(false) => line(out, depth, "never"),
        Condition::All(parts) => group(out, "all of", parts, depth),
        Condition::Any(parts) => group(out, "any of", parts, depth),
        Condition::Not(inner) => {
            line(out, depth, "not");
            condition(out, inner, depth + 1);
        }
        Condition::Value(path, check) => line(out, depth, format_args!("{} {check}", path.name)),
        Condition::Elements(path, quantifier, check) => {
            let function = match quantifier {
                Quantifier::AnyOf => "anyOf",
                Quantifier::AllOf => "allOf",
            };
            line(out, depth, format_args!("{function}({}) {check}", path.name));
        }
        Condition::Count(set, check) => {
            line(out, depth, format_args!("count of {} {check}", set.path.name));
            members(out, set, depth + 1);
        }
        Condition::Empty(set) => {
            line(out, depth, format_args!("{} is empty", set.path.name));
            members(out, set, depth + 1);
        }
    }
}

fn group(out: &mut String, title: &str, parts: &[Condition], depth: usize) {
    line(out, depth, title);
    for part in parts {
        condition(out, part, depth + 1);
    }
}

fn members(out: &mut String, set: &Members, depth: usize) {
    let Some(sub_query) = &set.sub_query else { return };
    line(out, depth, format_args!("among {} where", sub_query.kind));
    condition(out, &sub_query.condition, depth + 1);
    if sub_query.skip > 0 {
        line(out, depth + 1, format_args!("skip {}", sub_query.skip));
    }
    if let Some(limit) = sub_query.limit {
        line(out, depth + 1, format_args!("limit {limit}"));
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let not = |negated: &bool| if *negated { "not " } else { "" };
        match self {
            Self::Null => f.write_str("= null"),
            Self::NotNull => f.write_str("!= null"),
            Self::True => f.write_str("= true"),
            Self::Compare(op, literal) => write!(f, "{op} {literal}"),
            Self::In(values) => write!(f, "in {}", List(&values.0)),
            Self::Between(low, high) => write!(f, "between {low} and {high}"),
            Self::Contains { negated, needle } => {
                write!(f, "{}contains {needle:?}", not(negated))
            }
            Self::ContainsFolded { negated, needle } => {
                write!(f, "{}icontains {needle:?}", not(negated))
            }
        }
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for key in self.keys() {
            write!(f, "{}{}, ", key.name, if key.descending { " desc" } else { "" })?;
        }
        f.write_str("id")
    }
}
