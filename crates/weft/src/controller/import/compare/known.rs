//! Differences that are meant, and members that say nothing about what was imported.

use serde_json::Value;
use time::Duration;

/// Members that follow what happens in a network, and are other from one moment to the next.
const LIVE: [&str; 22] = [
    "cachedLastActivityAt",
    "connected",
    "connectedVersions",
    "disconnectedAt",
    "edgeRouterConnectionStatus",
    "envInfo",
    "hasApiSession",
    "hasEdgeRouterConnection",
    "hostname",
    "interfaces",
    "isOnline",
    "lastActivityAt",
    "lastAuthResolvedToRoot",
    "listenerAddresses",
    "modifiedTimestamp",
    "postureQueries",
    "sdkInfo",
    "supportedProtocols",
    "syncStatus",
    "ctrlChanListeners",
    "updatedAt",
    "versionInfo",
];

/// Members of entities that the original leaves out of its answers if they are false or empty.
pub(super) const LEFT_OUT_IF_EMPTY: [&str; 4] =
    ["enrollToCertEnabled", "enrollToTokenEnabled", "disabledAt", "disabledUntil"];

/// How the times begin that controllers answer where they know none.
const NO_TIMES: [&str; 2] = ["0001-01-01T00:00:00", "1970-01-01T00:00:00"];

/// Members that users write, whatever they mean by them.
pub(super) const OF_USERS: [&str; 3] = ["appData", "data", "tags"];

/// Claims of a ticket that tell which controllers can be asked.
pub(super) const OF_THE_SENDER: [&str; 2] = ["ctrls", "iss"];

/// How far the clocks of two members of a cluster may be apart.
pub(super) const CLOCKS: Duration = Duration::minutes(1);

/// Members of kinds with differences that are meant: the kind, the member, and the subject of the row of
/// docs/differences.md.
const KNOWN: [(&str, &str, &str); 8] = [
    ("transit-router", "isVerified", "`isVerified` of an edge router among transit routers"),
    ("identity", "type", "types of identities"),
    ("identity", "typeId", "types of identities"),
    ("enrollment", "jwt", "tickets (`jwt`, `token`)"),
    ("enrollment", "token", "tickets (`jwt`, `token`)"),
    ("enrollment", "username", "`ca`, `username` of an enrollment"),
    ("enrollment", "ca", "`ca`, `username` of an enrollment"),
    ("posture-check", "typeId", "type of a posture check"),
];

/// Members whose values are not printed.
const SECRET: [&str; 6] =
    ["enrollmentJwt", "enrollmentToken", "jwt", "password", "token", "verificationToken"];
/// Longest value that is printed, in characters.
const LONGEST: usize = 1000;

/// True if a member follows what happens.
pub(super) fn is_live(member: &str) -> bool {
    LIVE.contains(&member)
}

/// True for what controllers answer where they know no time.
pub(super) fn is_no_time(text: &str) -> bool {
    NO_TIMES.iter().any(|time| text.starts_with(time))
}

/// True if an entity comes and goes by itself: each login revokes the tokens that it replaces.
pub(super) fn is_passing(kind: &str, entity: &Value) -> bool {
    kind == "revocation" && entity.get("type").and_then(Value::as_str) == Some("JTI")
}

/// True if the original has no entities of a kind.
pub(super) fn is_of_weft(kind: &str) -> bool {
    kind == "controller-setting"
}

/// The subject in docs/differences.md of a difference that is meant: weft's answer leaves something out, or has another
/// word for it.
pub(super) fn subject(
    kind: &str,
    member: &str,
    original: &Value,
    weft: &Value,
) -> Option<&'static str> {
    let row = KNOWN.iter().find(|(of, known, _)| *of == kind && *known == member)?;
    // A ticket that weft shows is the same.
    let is_hidden = row.1 != "jwt" && row.1 != "token" || weft.is_null() || weft == "";
    (is_hidden && original != weft).then_some(row.2)
}

/// A value as it is printed.
pub(super) fn shown(member: &str, value: Value) -> Value {
    if value.is_null() {
        return value;
    }
    let last = member.rsplit('.').next().unwrap_or(member);
    if SECRET.contains(&last) {
        return "(not shown)".into();
    }
    let value = without_secrets(value);
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
        None => value,
    }
}

/// A value without the secrets in its members.
fn without_secrets(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let shown = members.into_iter().map(|(member, value)| {
                let is_shown = value.is_null() || !SECRET.contains(&member.as_str());
                let value = if is_shown { without_secrets(value) } else { "(not shown)".into() };
                (member, value)
            });
            Value::Object(shown.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_secrets).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_known_difference_is_a_row_of_the_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/differences.md");
        let page = std::fs::read_to_string(page).unwrap();
        for (_, _, subject) in KNOWN {
            assert!(page.contains(&format!("\n| {subject} |")), "{subject}");
        }
    }

    #[test]
    fn tickets_and_long_values_are_not_printed() {
        assert_eq!(shown("jwt", "ey".into()), "(not shown)");
        assert_eq!(shown("ottca.token", "x".into()), "(not shown)");
        assert_eq!(shown("name", "x".into()), "x");
        assert_eq!(shown("enrollmentJwt", "ey".into()), "(not shown)");
        let whole = json!({"ottca": {"jwt": "ey", "method": "ottca"}, "list": [{"token": "t"}]});
        let hidden = json!({"ottca": {"jwt": "(not shown)", "method": "ottca"}, "list": [{"token": "(not shown)"}]});
        assert_eq!(shown("enrollment", whole), hidden);
        assert!(shown("data", "x".repeat(5000).into()).as_str().unwrap().len() < 1100);
    }
}
