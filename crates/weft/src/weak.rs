//! Warnings of passwords that are easily guessed. Controllers accept passwords of 5 characters or more.

use crate::output::{self, counted};

/// Shortest password that is not weak, in characters.
const LEAST: usize = 8;

/// Why a password is weak, if it is.
fn reason(username: &str, password: &str) -> Option<String> {
    if password.to_lowercase() == username.to_lowercase() {
        return Some("it is the name".to_owned());
    }
    let length = password.chars().count();
    (length < LEAST).then(|| {
        let length = counted(length, "character", "characters");
        format!("it has {length}, use {LEAST} or more")
    })
}

/// Warns if a password is weak.
pub(crate) fn warn(username: &str, password: &str) {
    if let Some(reason) = reason(username, password) {
        let name = username.escape_debug();
        output::note(format_args!("weft: the password of {name} is easily guessed: {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_passwords_and_names_are_weak() {
        for (password, is_weak) in [
            ("secret7", true),
            ("secret78", false),
            ("Administrator", true),
            ("administrator2", false),
            ("äöüäöüä", true),
            ("äöüäöüäö", false),
        ] {
            assert_eq!(reason("administrator", password).is_some(), is_weak, "{password}");
        }
    }
}
