//! Members that a patch clears if it does not name them.
//!
//! A patch of a CA without `externalIdClaim` clears the claim; with an empty claim it keeps it. An
//! update of other members therefore sends the member empty, and a separate flag clears it.

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::{Map, Value};
use weft_contract::body::Verb;
use weft_contract::kind::Kind;

use super::flags;

/// These members, each with its kind.
const CLEARED_BY_SILENCE: &[(&str, &str)] = &[("ca", "externalIdClaim")];

fn members(kind: &Kind) -> impl Iterator<Item = &'static str> {
    let name = kind.name;
    CLEARED_BY_SILENCE.iter().filter(move |(of, _)| *of == name).map(|(_, member)| *member)
}

fn id(member: &str) -> String {
    format!("clear/{member}")
}

/// A flag `--clear-MEMBER` for each such member of a kind.
pub(super) fn args(kind: &'static Kind) -> impl Iterator<Item = Arg> {
    members(kind).map(move |member| {
        Arg::new(id(member))
            .long(format!("clear-{}", flags::kebab(member)))
            .action(ArgAction::SetTrue)
            .conflicts_with_all(flags::ids_of(kind, member))
            .help(format!("Remove the value of {member}"))
    })
}

/// Sets the members to null in a body whose flags say that they are cleared.
pub(super) fn read(kind: &'static Kind, matches: &ArgMatches, body: &mut Map<String, Value>) {
    for member in members(kind).filter(|member| matches.get_flag(&id(member))) {
        body.insert(member.to_owned(), Value::Null);
    }
}

/// Turns a body into the patch that was meant: a member that is null is left out, and a member that
/// was not named is sent empty.
pub(super) fn settle(kind: &'static Kind, verb: Verb, body: &mut Map<String, Value>) {
    for member in members(kind) {
        match body.get(member) {
            Some(Value::Null) => _ = body.remove(member),
            Some(_) => {}
            None if verb == Verb::Replace => {}
            None => _ = body.insert(member.to_owned(), Value::Object(Map::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_of_a_ca_keeps_its_claim_unless_told_otherwise() {
        let ca = weft_contract::resource::kind("ca").unwrap();
        let settled = |body: Value| {
            let Value::Object(mut body) = body else { panic!("not an object") };
            settle(ca, Verb::Patch, &mut body);
            Value::Object(body)
        };
        assert_eq!(settled(json!({"name": "a"})), json!({"name": "a", "externalIdClaim": {}}));
        let claim = json!({"externalIdClaim": {"index": 1}});
        assert_eq!(settled(claim.clone()), claim);
        assert_eq!(settled(json!({"externalIdClaim": null})), json!({}));
    }
}
