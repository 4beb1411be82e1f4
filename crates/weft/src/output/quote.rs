//! Words of command lines that are shown.

/// A word, quoted for a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_word = !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_plain);
    if is_word { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
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
