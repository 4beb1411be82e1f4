//! How results are printed: tables for people, JSON for scripts.

use serde_json::Value;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A table for people.
    Table,
    /// JSON for scripts: stable names, nothing else on standard output.
    Json,
}

/// Prints JSON, indented.
pub(crate) fn json(value: &Value) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("weft: {error}"),
    }
}

/// A number of bytes with a unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if count >= *size {
            return format!("{:.1} {unit}", count as f64 / *size as f64);
        }
    }
    format!("{count} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_carry_the_largest_unit_that_fits() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }
}
