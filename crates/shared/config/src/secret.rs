//! Values that must not be shown.

/// The text in place of a secret.
pub(crate) const HIDDEN: &str = "(not shown)";

/// True if a value must not be shown: a password, a secret, or PEM text in the file itself.
pub(crate) fn is_secret(path: &str, value: &str) -> bool {
    let key = path.rsplit('.').next().unwrap_or(path).to_ascii_lowercase();
    let secret_key = ["password", "secret", "connectionstring"].contains(&key.as_str());
    (secret_key && !value.is_empty()) || has_credentials(value) || is_pem(value)
}

/// True if a text has a user with a password before a host.
fn has_credentials(text: &str) -> bool {
    text.split_once('@').is_some_and(|(front, _)| front.contains(':'))
}

/// A message about a value, without the value and its parts if it must not be shown.
pub(crate) fn without(path: &str, value: &str, message: String) -> String {
    if value.is_empty() || !is_secret(path, value) {
        return message;
    }
    let behind_type = value.split_once(':').map_or("", |(_, rest)| rest);
    let mut parts = vec![value, behind_type, behind_type.trim_start_matches('/')];
    // Shorter parts occur in every sentence.
    parts.retain(|part| part.len() > 3);
    parts.iter().fold(message, |message, part| message.replace(part, HIDDEN))
}

/// True if a line of a file may have a value that must not be shown.
pub(crate) fn is_secret_line(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    if lower.split_once("://").is_some_and(|(_, rest)| rest.contains('@')) {
        return true;
    }
    let ends_word = |c: char| c.is_whitespace() || "'\"{}[],".contains(c);
    if lower.split(ends_word).any(has_credentials) {
        return true;
    }
    ["password", "secret", "connectionstring", "private key", "-----begin", "pem:"]
        .iter()
        .any(|word| lower.contains(word))
}

fn is_pem(value: &str) -> bool {
    value.starts_with("pem:") || value.trim_start().starts_with("-----BEGIN")
}
