//! Commands that answer a question, or do one thing that is not about a kind of entity.
//!
//! - [`why`]: why an identity can, or cannot, reach a service; [`why_path`]: over which path;
//! - [`status`]: who is logged in where, and how large the network is;
//! - [`jwt`]: enrollment tokens; [`ca`]: proof of a certificate authority;
//! - [`password`]: passwords of others and one's own; [`overrides`]: configs of one identity alone;
//! - [`database`]: snapshots and the integrity check; [`inspect`]: what controllers and routers say
//!   of themselves; [`trace`]: messages that they wrote down; [`call`]: any operation of any API.

pub(crate) mod ca;
pub(crate) mod call;
pub(crate) mod database;
pub(crate) mod inspect;
pub(crate) mod jwt;
pub(crate) mod overrides;
pub(crate) mod password;
pub(crate) mod status;
pub(crate) mod trace;
pub(crate) mod why;
pub(crate) mod why_path;

use weft_contract::{Api, Operation, kind::Kind, resource};

use crate::failure::Failure;

/// An operation by its id.
fn row(api: Api, id: &str) -> Result<&'static Operation, Failure> {
    resource::operation(api, id)
        .ok_or_else(|| Failure::new(format!("this release of weft does not know {id} of {api}")))
}

/// A word as a shell takes it for one.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_word = !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_plain);
    if is_word { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A kind by its name.
fn kind(name: &str) -> Result<&'static Kind, Failure> {
    resource::kind(name).ok_or_else(|| {
        let names: Vec<&str> = resource::KINDS.iter().map(|kind| kind.name).collect();
        Failure::usage(format!("there is no kind `{name}`; there is {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_any_name_for_one_word() {
        assert_eq!(quoted("web-1.example"), "web-1.example");
        for (name, shown) in [
            ("my laptop", "'my laptop'"),
            ("@web", "'@web'"),
            ("", "''"),
            ("-o", "'-o'"),
            ("it's $(x)", r"'it'\''s $(x)'"),
        ] {
            assert_eq!(quoted(name), shown);
        }
    }
}
