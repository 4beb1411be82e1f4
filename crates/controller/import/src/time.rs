//! Times as Go writes them in binary: a version, seconds since the year 1, nanoseconds, minutes from UTC.

use weft_model::Timestamp;

/// Seconds from the beginning of the year 1 to that of 1970.
const TO_1970: i64 = 62_135_596_800;

/// The time; `None` if the bytes are none, or if the time is the first second of the year 1, which stands for none.
pub(crate) fn parse(bytes: &[u8]) -> Option<Timestamp> {
    let size = match bytes.first()? {
        1 => 15,
        // With the seconds of the offset from UTC, which does not change the time.
        2 => 16,
        _ => return None,
    };
    if bytes.len() != size {
        return None;
    }
    let seconds = i64::from_be_bytes(*bytes.get(1..)?.first_chunk()?);
    let nanos = i32::from_be_bytes(*bytes.get(9..)?.first_chunk()?);
    if seconds == 0 || !(0..1_000_000_000).contains(&nanos) {
        return None;
    }
    let millis = seconds.checked_sub(TO_1970)?.checked_mul(1_000)?;
    Some(Timestamp(millis.checked_add(i64::from(nanos) / 1_000_000)?))
}

#[cfg(test)]
mod tests {
    use super::{TO_1970, parse};

    fn bytes(version: u8, seconds: i64, nanos: i32, rest: &[u8]) -> Vec<u8> {
        let numbers = [seconds.to_be_bytes().as_slice(), &nanos.to_be_bytes()].concat();
        [&[version], numbers.as_slice(), rest].concat()
    }

    #[test]
    fn times_of_both_versions_are_read() {
        let at = TO_1970 + 1_787_403_600;
        for (version, rest) in [(1, &[0xFF, 0xFF][..]), (2, &[0, 1, 2])] {
            let time = parse(&bytes(version, at, 250_999_999, rest)).unwrap();
            assert_eq!(time.to_string(), "2026-08-22T13:00:00.250Z");
        }
    }

    #[test]
    fn other_bytes_are_no_times() {
        for wrong in [
            Vec::new(),
            vec![1],
            bytes(3, TO_1970, 0, &[0, 0]),
            bytes(1, TO_1970, 0, &[0]),
            bytes(1, TO_1970, -1, &[0, 0]),
            bytes(1, TO_1970, 1_000_000_000, &[0, 0]),
            bytes(1, i64::MIN, 0, &[0, 0]),
            bytes(1, i64::MAX, 0, &[0, 0]),
            bytes(1, 0, 0, &[0, 0]),
        ] {
            assert_eq!(parse(&wrong), None, "{wrong:?}");
        }
    }
}
