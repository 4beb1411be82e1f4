//! The reasons why an application was not reached.

use std::borrow::Cow;
use std::io;

/// Most characters of a dialer's text in a refusal.
const MOST_SHOWN: usize = 100;

/// The cause of a refusal; routers send it to controllers as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusalCause {
    /// A cause without a name of its own.
    #[default]
    Other,
    /// The application did not answer in time.
    TimedOut,
    /// No program listens at the address.
    Refused,
    /// The name does not resolve.
    Unresolved,
    /// The port is not among those that the service allows.
    PortNotAllowed,
    /// No file descriptors or buffers are left.
    Exhausted,
}

/// Why an application was not reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The cause.
    pub cause: RefusalCause,
    /// The text.
    pub message: String,
}

impl Refusal {
    /// A refusal with this cause.
    pub fn new(cause: RefusalCause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into() }
    }

    /// An error of the operating system (docs/protocol/control-plane.md 13.1), and what it kept from
    /// being done.
    #[must_use]
    pub fn of_system(what: &str, error: &io::Error) -> Self {
        // EMFILE, ENFILE and ENOBUFS have no kind of their own.
        const EXHAUSTED: [i32; 3] = [24, 23, 105];
        let cause = match error.kind() {
            io::ErrorKind::ConnectionRefused => RefusalCause::Refused,
            io::ErrorKind::TimedOut => RefusalCause::TimedOut,
            _ if error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code)) => {
                RefusalCause::Exhausted
            }
            _ => RefusalCause::Other,
        };
        Self::new(cause, format!("{what}: {error}"))
    }

    /// A refusal with a cause that has no name.
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(RefusalCause::Other, message)
    }
}

/// The beginning of a text that a dialer has sent, for a refusal.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    match text.chars().nth(MOST_SHOWN) {
        None => Cow::Borrowed(text),
        Some(_) => text.chars().take(MOST_SHOWN).chain(['…']).collect(),
    }
}

/// The beginning of a text that a dialer has sent, as one line without control characters.
#[must_use]
pub fn shown(text: &str) -> String {
    cut(text).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AddressRule, AppData};

    #[test]
    fn a_refusal_repeats_few_characters_of_a_text() {
        assert_eq!(shown("a\nb"), "a\\nb");
        assert_eq!(cut(&"é".repeat(MOST_SHOWN)), "é".repeat(MOST_SHOWN));
        assert_eq!(cut(&"é".repeat(MOST_SHOWN + 1)), "é".repeat(MOST_SHOWN) + "…");
        let long = "x".repeat(8_000);
        let refusals = [
            AppData::parse(format!("\"{long}\"").as_bytes()).unwrap_err(),
            {
                let data = format!(r#"{{"dst_hostname":"{long}.test"}}"#);
                let rules = [AddressRule::parse("*.test").unwrap()];
                AppData::parse(data.as_bytes()).unwrap().host(&rules, &[]).unwrap_err()
            },
            {
                let data = format!(r#"{{"dst_ip":"{long}"}}"#);
                AppData::parse(data.as_bytes()).unwrap().host(&[], &[]).unwrap_err()
            },
        ];
        for refusal in refusals {
            assert!(refusal.message.contains("xxx…"), "{refusal}");
            assert!(refusal.message.len() < 300, "{refusal}");
        }
    }
}
