//! `weft status`: the login, and the size of the network.

use serde_json::{Map, Value, json};
use weft_contract::Api;

use super::row;
use crate::cli::StatusArgs;
use crate::failure::Result;
use crate::output::{self, printable, table};

/// Asks the controller, and prints the login, the release of the controller, and the numbers of
/// entities.
pub(crate) async fn status(args: StatusArgs) -> Result<()> {
    let (name, login) = args.session.saved()?;
    let client = args.session.client().await?;
    let version = client.version().await?;
    let me = client.current_identity().await?;
    let summary = row(Api::Management, "listSummary")?;
    // A login that may not read the counts is shown everything else.
    let counts: Value = client.call(summary, &[], &[], None).await.unwrap_or_default();
    let mut shown = Map::new();
    shown.insert("login".to_owned(), json!(name));
    shown.insert("controller".to_owned(), json!(login.controller));
    shown.insert("version".to_owned(), json!(version.version));
    shown.insert("revision".to_owned(), json!(version.revision));
    if let Some(until) = version.way_back_until {
        shown.insert("wayBackUntil".to_owned(), json!(until));
    }
    shown.insert("identity".to_owned(), json!(me.name));
    shown.insert("administrator".to_owned(), json!(me.is_admin));
    if let Some(permissions) = me.permissions {
        shown.insert("permissions".to_owned(), json!(permissions));
    }
    if let Some(counts) = counts.as_object().filter(|counts| !counts.is_empty()) {
        shown.insert("entities".to_owned(), Value::Object(counts.clone()));
    }
    let shown = Value::Object(shown);
    output::value(args.output.format(), &shown, || for_people(&shown));
    Ok(())
}

/// The login, and a table of the numbers of entities.
fn for_people(status: &Value) -> String {
    let text = |member: &str| match &status[member] {
        Value::String(text) => text.clone(),
        Value::Bool(truth) => if *truth { "yes" } else { "no" }.to_owned(),
        Value::Array(items) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        _ => String::new(),
    };
    let release = match text("revision").strip_prefix("weft-") {
        Some(own) => format!("weft {own}, compatible with OpenZiti {}", text("version")),
        None => text("version"),
    };
    let rows = [
        ("controller", text("controller")),
        ("release", release),
        ("way back to OpenZiti until", text("wayBackUntil")),
        ("identity", text("identity")),
        ("administrator", text("administrator")),
        ("permissions", text("permissions")),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let rows: Vec<[String; 2]> =
        rows.map(|(what, value)| [what.to_owned(), printable::line(&value)]).collect();
    let shown = table::pairs(["login", &printable::line(&text("login"))], &rows);
    let Some(counts) = status["entities"].as_object() else { return shown };
    let rows: Vec<[String; 2]> = counts
        .iter()
        .map(|(name, count)| [printable::line(&words(name)), count.to_string()])
        .collect();
    format!("{shown}\n{}", table::pairs(["entities", "number"], &rows))
}

/// The entities that a member of the summary counts, in words: `edgeRouterPolicies` are edge router policies.
fn words(member: &str) -> String {
    let known = match member {
        "apiSessionCertificates" => "API session certificates",
        "apiSessions" => "API sessions",
        "cas" => "certificate authorities",
        "externalJwtSigners" => "external JWT signers",
        "mfas" => "second factors",
        "routers.edge" => "routers with edge",
        "sessions" => "service sessions",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let mut words = String::with_capacity(member.len() + 4);
    for character in member.chars() {
        if character.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(character.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_words() {
        let status = json!({
            "login": "prod", "controller": "https://c:1280", "version": "v2.1.0",
            "revision": "weft-1.2", "identity": "alice", "administrator": true,
            "entities": {"edgeRouterPolicies": 2, "cas": 1, "routers.edge": 3, "apiSessions": 4},
        });
        let text = for_people(&status);
        for part in [
            "edge router policies",
            "certificate authorities",
            "routers with edge",
            "API sessions",
            "weft 1.2, compatible with OpenZiti v2.1.0",
            "yes",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        for member in ["edgeRouterPolicies", "cas ", "routers.edge", "revision", "permissions"] {
            assert!(!text.contains(member), "{member}\n{text}");
        }
    }
}
