//! Values that are not shown.

/// What is shown in the place of a secret.
pub(crate) const HIDDEN: &str = "(not shown)";

/// Whether a value is nobody's to read: a password, a secret, or PEM text in the file itself.
pub(crate) fn is_secret(path: &str, value: &str) -> bool {
    let key = path.rsplit('.').next().unwrap_or(path).to_ascii_lowercase();
    let secret_key = ["password", "secret", "connectionstring"].contains(&key.as_str());
    let has_credentials = value.contains("://") && value.contains('@');
    (secret_key && !value.is_empty()) || has_credentials || is_pem(value)
}

/// Whether a line of a file holds such a value.
pub(crate) fn is_secret_line(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    ["password", "secret", "connectionstring", "private key", "-----begin", "pem:"]
        .iter()
        .any(|word| lower.contains(word))
}

fn is_pem(value: &str) -> bool {
    value.starts_with("pem:") || value.trim_start().starts_with("-----BEGIN")
}
