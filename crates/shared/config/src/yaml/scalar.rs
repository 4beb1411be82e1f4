//! The value of a plain scalar, by the rules of YAML 1.1.

use super::tree::YamlValue;

/// Resolves an unquoted scalar.
pub(super) fn resolve(text: &str) -> YamlValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return YamlValue::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return YamlValue::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return YamlValue::Bool(false);
        }
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return YamlValue::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return YamlValue::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return YamlValue::Float(f64::NAN),
        _ => {}
    }
    if let Some(number) = integer(text) {
        return YamlValue::Int(number);
    }
    match float(text) {
        Some(number) => YamlValue::Float(number),
        None => YamlValue::text(text),
    }
}

/// An integer: decimal, `0x`, `0o`, `0b` or a leading zero for octal, with `_` between digits.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit()) || digits.len() > 80 {
        return None;
    }
    let digits = digits.replace('_', "");
    let (radix, digits) = if let Some(hex) = digits.strip_prefix("0x") {
        (16, hex)
    } else if let Some(octal) = digits.strip_prefix("0o") {
        (8, octal)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        (2, binary)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, digits.get(1..)?)
    } else {
        (10, digits.as_str())
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -number } else { number }).ok()
}

/// A number with a fraction or exponent.
pub(crate) fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let shape = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.contains(|c: char| c.is_ascii_digit())
        && unsigned
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-' | '_'));
    if shape && text.len() <= 80 { text.replace('_', "").parse().ok() } else { None }
}
