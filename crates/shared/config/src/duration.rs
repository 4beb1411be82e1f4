//! Durations as text: `1h30m`, `250ms`, `1.5h` (docs/protocol/config.md 1.3).

use std::time::Duration;

const UNITS: [(&str, f64, u64); 8] = [
    ("ns", 1.0, 1),
    ("us", 1e3, 1_000),
    ("µs", 1e3, 1_000),
    ("μs", 1e3, 1_000),
    ("ms", 1e6, 1_000_000),
    ("s", 1e9, 1_000_000_000),
    ("m", 6e10, 60_000_000_000),
    ("h", 3.6e12, 3_600_000_000_000),
];

/// A duration, possibly below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedDuration {
    /// True if it is below zero.
    pub negative: bool,
    /// Its length.
    pub length: Duration,
}

/// Reads a duration: an optional sign, then numbers with units `ns us ms s m h`; `0` needs none.
///
/// # Errors
/// The error says what is missing.
pub fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration { negative: false, length: Duration::ZERO });
    }
    if rest.is_empty() || rest.len() > 200 {
        return Err(invalid());
    }
    let mut nanos: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        if number.is_empty() || number == "." || number.matches('.').count() > 1 {
            return Err(invalid());
        }
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let (_, factor, whole_factor) = UNITS
            .into_iter()
            .find(|(name, ..)| *name == unit)
            .ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        let fraction: f64 =
            if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().unwrap_or(0.0) };
        let part = whole.checked_mul(whole_factor).ok_or_else(invalid)?;
        let part = part.checked_add((fraction * factor).round() as u64).ok_or_else(invalid)?;
        nanos = nanos.checked_add(part).ok_or_else(invalid)?;
        rest = tail;
    }
    if nanos > i64::MAX as u64 {
        return Err(invalid());
    }
    Ok(SignedDuration { negative: negative && nanos > 0, length: Duration::from_nanos(nanos) })
}

/// Writes a duration so that [`parse_duration`] reads it again, in the largest unit that is whole.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    for (unit, _, size) in UNITS.into_iter().rev().filter(|(unit, ..)| unit.is_ascii()) {
        if nanos > 0 && nanos.is_multiple_of(u128::from(size)) {
            return format!("{}{unit}", nanos / u128::from(size));
        }
    }
    "0s".to_owned()
}
