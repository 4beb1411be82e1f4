//! Descriptions of operations, made from path and method.

use crate::operation::{Access, Method, Operation, Response};
use crate::permission::{ADMIN_READ_ONLY, Action};
use crate::resource::KINDS;

/// A line about an operation.
pub(super) fn summary(row: &Operation) -> String {
    let segments: Vec<_> = row.path.split('/').filter(|segment| !segment.is_empty()).collect();
    let text = match (row.method, segments.as_slice(), row.response) {
        (Method::Get, [all], Response::List(_)) => format!("List {}", plain(all)),
        (Method::Get, [one], Response::Detail(_)) => format!("Read the {}", plain(one)),
        (Method::Get, [all, "{id}"], _) => format!("Read {}", one_of(all)),
        (Method::Get, [all, "{id}", sub], Response::List(_)) => {
            format!("List the {} of {}", plain(sub), one_of(all))
        }
        (Method::Get, [all, "{id}", sub], Response::Detail(_)) if !sub.starts_with('{') => {
            format!("Read the {} of {}", plain(sub), one_of(all))
        }
        (Method::Post, [all], Response::Created) => format!("Create {}", one_of(all)),
        (Method::Put, [all, "{id}"], _) => format!("Replace all members of {}", one_of(all)),
        (Method::Patch, [all, "{id}"], _) => format!("Change some members of {}", one_of(all)),
        (Method::Delete, [all, "{id}"], _) => format!("Delete {}", one_of(all)),
        _ => of_id(row.id),
    };
    debug_assert!(!text.is_empty());
    text
}

/// The callers that may run an operation, as a sentence.
pub(super) fn access(access: Access) -> String {
    match access {
        Access::Public => "Open to everybody.".into(),
        Access::Partial => "Needs an API session, which may lack further factors.".into(),
        Access::Authenticated => "Needs an API session that lacks no factor.".into(),
        Access::Admin => "Needs an administrator.".into(),
        Access::AdminOrReadOnly => {
            format!("Needs an administrator or the permission `{ADMIN_READ_ONLY}`.")
        }
        Access::Permission(subject, action) | Access::Granted(subject, action) => {
            let read_all = match access {
                Access::Permission(_, Action::Read) => format!(", `{ADMIN_READ_ONLY}`"),
                _ => String::new(),
            };
            format!(
                "Needs an administrator or one of the permissions `{subject}`, \
                 `{subject}.{action}`{read_all}."
            )
        }
    }
}

/// The callers that may run an operation, as one word for programs.
pub(super) fn access_word(access: Access) -> String {
    match access {
        Access::Public => "public".into(),
        Access::Partial => "partial".into(),
        Access::Authenticated => "authenticated".into(),
        Access::Admin => "admin".into(),
        Access::AdminOrReadOnly => ADMIN_READ_ONLY.into(),
        Access::Permission(subject, action) | Access::Granted(subject, action) => {
            format!("{subject}.{action}")
        }
    }
}

/// The heading of an operation: the first word of its path, or `controller`.
pub(super) fn tag(row: &Operation) -> &'static str {
    match row.path.split('/').find(|segment| !segment.is_empty()) {
        None | Some("version" | ".well-known" | "protocols" | "summary") => "controller",
        Some(segment) => segment,
    }
}

/// The description of a heading.
pub(super) fn about_tag(tag: &str) -> String {
    match KINDS.iter().find(|kind| kind.plural == tag) {
        Some(kind) => format!("{}: {}.", capital(&one_of(tag)), kind.about),
        None if tag == "controller" => "The controller: version, addresses, certificates.".into(),
        None => format!("{}.", capital(&plain(tag))),
    }
}

/// A word of a path for people: `ca-certs` is `CA certs`.
fn plain(segment: &str) -> String {
    segment.split('-').map(word).collect::<Vec<_>>().join(" ")
}

/// `an identity` of `identities`.
fn one_of(collection: &str) -> String {
    let name = match KINDS.iter().find(|kind| kind.plural == collection) {
        Some(kind) => kind.name.to_owned(),
        None => singular(collection),
    };
    let article = if name.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {}", plain(&name))
}

fn singular(plural: &str) -> String {
    match plural.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => plural.strip_suffix('s').unwrap_or(plural).to_owned(),
    }
}

/// Abbreviations as they are written.
fn word(word: &str) -> String {
    match word {
        "ca" | "jwt" | "mfa" | "api" | "totp" | "qr" | "csr" | "id" => word.to_uppercase(),
        "cas" => "CAs".into(),
        "jwts" => "JWTs".into(),
        "jwks" => "JWKS".into(),
        "identitys" => "identity's".into(),
        "ott" | "ottca" | "erott" | "updb" => format!("`{word}`"),
        _ => word.to_owned(),
    }
}

/// `disableIdentity` as `Disable identity`.
fn of_id(id: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut was_upper = true;
    for letter in id.chars() {
        let is_upper = letter.is_uppercase();
        match words.last_mut() {
            Some(last) if !is_upper || was_upper => last.push(letter),
            _ => words.push(letter.to_string()),
        }
        was_upper = is_upper;
    }
    let words: Vec<_> = words.iter().map(|it| word(&it.to_lowercase())).collect();
    capital(&words.join(" "))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Api;
    use crate::resource::operation;

    #[test]
    fn operations_read_like_english() {
        for (id, text) in [
            ("listIdentities", "List identities"),
            ("detailIdentity", "Read an identity"),
            ("createEdgeRouterPolicy", "Create an edge router policy"),
            ("patchService", "Change some members of a service"),
            ("listServiceTerminators", "List the terminators of a service"),
            ("getIdentityPolicyAdvice", "Get identity policy advice"),
            ("disableIdentity", "Disable identity"),
            ("listNetworkJWTs", "List network JWTs"),
            ("listSummary", "Read the summary"),
        ] {
            assert_eq!(summary(operation(Api::Management, id).unwrap()), text, "{id}");
        }
        assert_eq!(summary(operation(Api::Weft, "explainPath").unwrap()), "Explain path");
    }
}
