//! Documents of `ziti ops export` as weft's. Lines stay, so that every mistake has its place.

use std::fmt;

use serde_json::Value as Json;

use super::entity;
use super::form::{SECTIONS, roles_of};
use crate::yaml::{DocumentMember, Node, Value};

/// A document that enters.
#[derive(Debug, Default)]
pub(in crate::change) struct Entered {
    /// The sections, by their names in weft's documents.
    pub(in crate::change) sections: Vec<DocumentMember>,
    /// What is not kept, in the order of the document.
    pub(in crate::change) remarks: Vec<EntryRemark>,
    /// The name of the default administrator of the exported network.
    pub(in crate::change) admin: Option<String>,
}

/// What an entry of a document says and weft's document does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::change) struct EntryRemark {
    /// Line, from 1.
    pub(in crate::change) line: usize,
    /// Section, by its name in weft's documents.
    pub(in crate::change) section: &'static str,
    /// The names of the entities.
    pub(in crate::change) names: Vec<String>,
    /// The member; empty for the whole entity.
    pub(in crate::change) member: String,
    /// The reason, as a sentence.
    pub(in crate::change) reason: String,
    /// Whether only those need to know who make the entity: it says nothing of one that is there.
    pub(in crate::change) is_of_new: bool,
}

impl fmt::Display for EntryRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Most names of one remark.
        const NAMES: usize = 5;
        write!(f, "{} ", self.section)?;
        for (at, name) in self.names.iter().take(NAMES).enumerate() {
            write!(f, "{}`{name}`", if at == 0 { "" } else { ", " })?;
        }
        if let Some(more @ 1..) = self.names.len().checked_sub(NAMES) {
            write!(f, " and {more} more")?;
        }
        if !self.member.is_empty() {
            write!(f, ", {}", self.member)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// True if sections are those of `ziti ops export`: one has a name that weft's documents do not know, or
/// an entry refers to another one in the way of such exports.
pub(in crate::change) fn is_openziti(sections: &[DocumentMember]) -> bool {
    let own =
        |key: &str| SECTIONS.iter().any(|(original, weft)| *original == key && original != weft);
    sections.iter().any(|section| own(&section.key))
        || sections.iter().any(|section| match section.key.as_str() {
            "configs" => has_reference(&section.node, "configType"),
            "identities" => has_reference(&section.node, "authPolicy"),
            "services" => has_reference(&section.node, "configs"),
            _ => false,
        })
}

/// True if an entry has a name with `@` as this member, or in it.
fn has_reference(section: &Node, member: &str) -> bool {
    let is_name = |node: &Node| node.text().is_some_and(|text| text.starts_with('@'));
    let Value::List(entries) = &section.value else { return false };
    let found = entries.iter().filter_map(|entry| entry.member(member));
    found.into_iter().any(|node| match &node.value {
        Value::List(items) => items.iter().any(is_name),
        _ => is_name(node),
    })
}

/// Converts the sections of an export.
///
/// # Errors
/// The line of a section that such exports do not have, and the sections that they have.
pub(in crate::change) fn enter(sections: Vec<DocumentMember>) -> Result<Entered, (usize, String)> {
    let mut entered = Entered::default();
    let has_checks = sections.iter().find(|it| it.key == "postureChecks").map(|it| count(&it.node));
    for DocumentMember { key, line, node } in sections {
        let Some((_, section)) = SECTIONS.into_iter().find(|(original, _)| *original == key) else {
            let known: Vec<&str> = SECTIONS.iter().map(|(original, _)| *original).collect();
            return Err((line, unknown(&key, &known)));
        };
        let node = match node.value {
            Value::List(items) => {
                let mut kept = Vec::new();
                for item in items {
                    kept.extend(entity::convert(section, item, &mut entered));
                }
                if section == "service-policies" && has_checks != Some(0) {
                    entered.remarks.extend(without_checks(line, &kept));
                }
                Node { line: node.line, value: Value::List(kept) }
            }
            value => Node { line: node.line, value },
        };
        entered.sections.push(DocumentMember { key: section.to_owned(), line, node });
    }
    Ok(entered)
}

fn unknown(key: &str, known: &[&str]) -> String {
    let first = format!("`{key}` is no section of what `ziti ops export` writes");
    match weft_config::nearest(key, known.iter().copied()) {
        Some(near) => format!("{first}; did you mean `{near}`?"),
        None => format!("{first}: there is {}", known.join(", ")),
    }
}

fn count(section: &Node) -> usize {
    match &section.value {
        Value::List(items) => items.len(),
        _ => 0,
    }
}

/// Exports of the original have no posture checks in policies, whatever the network has. Where one policy
/// has some, somebody else wrote them.
fn without_checks(line: usize, policies: &[Node]) -> Option<EntryRemark> {
    let member = roles_of("service-policies").get(1).map_or("", |(member, _)| member);
    if policies.iter().filter_map(|policy| policy.member(member)).any(|it| count(it) > 0) {
        return None;
    }
    let names = policies.iter();
    let names: Vec<String> =
        names.filter_map(|it| it.member("name")?.text().map(str::to_owned)).collect();
    (!names.is_empty()).then(|| EntryRemark {
        line,
        section: "service-policies",
        names,
        member: member.to_owned(),
        reason:
            "`ziti ops export` leaves out which posture checks a policy demands, so that a new one \
                 demands none: name them in the file before you apply it"
                .to_owned(),
        is_of_new: true,
    })
}

/// Whole numbers that YAML of the original has with an exponent (`1e+06`) become whole again.
pub(super) fn make_whole(node: &mut Node) {
    /// Beyond this, not every whole number is a number with a fraction.
    const MOST: f64 = 9_007_199_254_740_992.0;
    match &mut node.value {
        Value::Scalar(value) => {
            let number = value.as_f64().filter(|_| value.is_f64());
            if let Some(number) = number.filter(|it| it.fract() == 0.0 && it.abs() <= MOST) {
                // Within these bounds the text of the number is that of a whole one.
                if let Ok(whole) = format!("{number:.0}").parse::<i64>() {
                    *value = Json::from(whole);
                }
            }
        }
        Value::List(items) => items.iter_mut().for_each(make_whole),
        Value::Map(entries) => entries.iter_mut().for_each(|entry| make_whole(&mut entry.node)),
    }
}
