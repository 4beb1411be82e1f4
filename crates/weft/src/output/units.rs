//! Numbers with units, as commands show latencies, bytes and rates.

/// Shown in place of an unknown value.
pub(crate) const UNKNOWN: &str = "?";

/// A time in nanoseconds, with a fitting unit.
fn nanoseconds(count: u64) -> String {
    let millis = count as f64 / 1e6;
    match millis {
        0.0 => "0 ms".to_owned(),
        ..10.0 => format!("{millis:.2} ms"),
        ..1000.0 => format!("{millis:.1} ms"),
        _ => format!("{:.1} s", millis / 1000.0),
    }
}

/// Latency in nanoseconds that a router reports before it has measured a link.
const NOT_MEASURED: u64 = 65_000_000_000;

/// A latency in nanoseconds that a router reported, with a unit.
pub(crate) fn latency(count: u64) -> String {
    match count {
        NOT_MEASURED => "not measured".to_owned(),
        count => nanoseconds(count),
    }
}

/// The latencies that both routers of a link measured, that of the dialing router first. The cost of
/// the link contains both.
pub(crate) fn latencies(one: u64, other: u64) -> String {
    format!("{} + {}", latency(one), latency(other))
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

/// Bytes per second with a unit, or a mark that they are unknown.
pub(crate) fn rate(count: Option<u64>) -> String {
    count.map_or_else(|| UNKNOWN.to_owned(), |count| format!("{}/s", bytes(count)))
}

/// The rates in both directions of a link.
pub(crate) fn rates(one: Option<u64>, other: Option<u64>) -> String {
    format!("{} + {}", rate(one), rate(other))
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

    #[test]
    fn an_unknown_rate_is_no_rate_of_zero() {
        assert_eq!(rates(Some(0), None), "0 B/s + ?");
        assert_eq!(rate(Some(1536)), "1.5 KiB/s");
    }

    #[test]
    fn times_have_as_many_digits_as_are_of_use() {
        assert_eq!(nanoseconds(0), "0 ms");
        assert_eq!(nanoseconds(214_000), "0.21 ms");
        assert_eq!(nanoseconds(21_349_000), "21.3 ms");
        assert_eq!(nanoseconds(65_000_000_000), "65.0 s");
    }

    #[test]
    fn what_was_not_measured_is_no_latency() {
        assert_eq!(latencies(2_000_000, 65_000_000_000), "2.00 ms + not measured");
        assert_eq!(latency(64_999_000_000), "65.0 s");
    }
}
