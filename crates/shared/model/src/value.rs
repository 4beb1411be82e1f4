//! Small values of entities: times, JSON objects, revisions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A point in time in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time of this many seconds since the Unix epoch, the unit of token claims.
    pub fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The time `span` later, at most the latest possible.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This time, or 1 ms after `earlier` if that is later.
    #[must_use]
    pub fn after(self, earlier: Timestamp) -> Self {
        self.max(Self(earlier.0.saturating_add(1)))
    }

    /// The time that has passed since `earlier`; zero if this time is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC with milliseconds, as the APIs write it.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
        else {
            return write!(f, "{}ms", self.0);
        };
        let (h, m, s) = at.to_hms();
        let (year, month, day) = at.to_calendar_date();
        let month = u8::from(month);
        let ms = at.millisecond();
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
    }
}

/// A JSON object, kept unchanged: tags, app data, config data, schemas. Clones are cheap; an empty
/// object takes no allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonMap(Option<Arc<serde_json::Map<String, serde_json::Value>>>);

impl JsonMap {
    /// True if the object is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Value of a member.
    pub fn get(&self, key: &str) -> Option<&serde_json::Value> {
        self.0.as_ref()?.get(key)
    }

    /// All members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &serde_json::Value)> {
        self.0.iter().flat_map(|map| map.iter())
    }

    /// The object as a JSON value, `{}` when empty.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::Value::Object(self.0.as_deref().cloned().unwrap_or_default())
    }

    /// The object as compact JSON text, `{}` when empty.
    pub fn to_text(&self) -> String {
        match &self.0 {
            Some(map) => serde_json::to_string(&**map).unwrap_or_default(),
            None => "{}".into(),
        }
    }

    /// Reads JSON text; `None` if it is not an object.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str::<serde_json::Map<_, _>>(text).ok().map(Self::from)
    }
}

impl From<serde_json::Map<String, serde_json::Value>> for JsonMap {
    fn from(map: serde_json::Map<String, serde_json::Value>) -> Self {
        Self((!map.is_empty()).then(|| Arc::new(map)))
    }
}

impl Serialize for JsonMap {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(map) => map.serialize(serializer),
            None => BTreeMap::<String, ()>::new().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for JsonMap {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde_json::Map::deserialize(deserializer).map(Self::from)
    }
}

/// Number of a change set in the log, counted without gaps; 0 is the empty store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    /// The next revision.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The revision `steps` later.
    pub fn plus(self, steps: u64) -> Self {
        Self(self.0.saturating_add(steps))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The history that revisions belong to; only revisions of one timeline can be compared. A restored
/// backup begins a new one (docs/protocol/edge-control-plane.md 5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timeline(pub Arc<str>);

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_as_rfc3339_and_stay_in_their_range() {
        assert_eq!(Timestamp(1_787_403_600_250).to_string(), "2026-08-22T13:00:00.250Z");
        assert_eq!(Timestamp(i64::MAX).to_string(), format!("{}ms", i64::MAX));
        assert_eq!(Timestamp(i64::MAX).plus(Duration::from_secs(1)), Timestamp(i64::MAX));
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
        assert_eq!(Timestamp(5).after(Timestamp(4)), Timestamp(5));
        assert_eq!(Timestamp(5).after(Timestamp(5)), Timestamp(6));
        assert_eq!(Timestamp(5).after(Timestamp(9)), Timestamp(10));
    }

    #[test]
    fn json_objects_keep_their_order() {
        let map = JsonMap::from_text(r#"{"b":1,"a":{"c":[true,null]}}"#).unwrap();
        assert_eq!(map.to_text(), r#"{"b":1,"a":{"c":[true,null]}}"#);
        assert!(JsonMap::from_text("[]").is_none());
        assert_eq!(JsonMap::from_text("{}").unwrap(), JsonMap::default());
        assert_eq!(JsonMap::default().to_text(), "{}");
    }
}
