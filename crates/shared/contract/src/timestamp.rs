//! Points in time in the form of the APIs: RFC 3339, UTC, milliseconds.
//!
//! `2026-01-02T03:04:05.678Z` (docs/protocol/management-api.md 1.2). "No time" is the first day of
//! year 1 (docs/protocol/auth.md 1.3), the value of [`Timestamp::default`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Milliseconds since 1970-01-01T00:00:00Z; negative before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Why a text is not a point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an RFC 3339 date and time such as 2026-01-02T03:04:05.678Z")]
pub struct NotATimestamp(String);

impl Timestamp {
    /// `0001-01-01T00:00:00.000Z`, how the APIs write "never".
    pub const ZERO: Self = Self(-62_135_596_800_000);

    /// The last moment that can be written: the end of year 9999.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// From milliseconds since 1970; outside the years 1 to 9999 the nearest of these is taken.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(Self::ZERO.0, Self::MAX.0))
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// True for [`Timestamp::ZERO`], which stands for "never".
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == Self::ZERO.0
    }
}

impl Default for Timestamp {
    fn default() -> Self {
        Self::ZERO
    }
}

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || NotATimestamp(text.chars().take(64).collect());
        if text.len() > 64 {
            return Err(refuse());
        }
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| refuse())?;
        let millis = at.unix_timestamp_nanos().div_euclid(1_000_000);
        i64::try_from(millis).map(Self::from_millis).map_err(|_| refuse())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .map_err(|_| fmt::Error)?;
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            at.year(),
            u8::from(at.month()),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            at.millisecond()
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 date and time")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn writes_milliseconds_and_z() {
        assert_eq!(
            Timestamp::from_millis(1_767_323_045_678).to_string(),
            "2026-01-02T03:04:05.678Z"
        );
        assert_eq!(Timestamp::default().to_string(), "0001-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn reads_any_fraction_and_offset() {
        let at: Timestamp = "2026-01-02T05:04:05.678912345+02:00".parse().unwrap();
        assert_eq!(at.to_string(), "2026-01-02T03:04:05.678Z");
        assert!("2026-01-02".parse::<Timestamp>().is_err());
        assert!("x".repeat(1000).parse::<Timestamp>().is_err());
    }

    proptest! {
        #[test]
        fn round_trips(millis in Timestamp::ZERO.0..=Timestamp::MAX.0) {
            let at = Timestamp::from_millis(millis);
            prop_assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
        }

        #[test]
        fn never_panics(text in ".{0,80}") {
            let _ = text.parse::<Timestamp>();
        }
    }
}
