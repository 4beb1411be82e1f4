//! Conditions and ranges in requests for files (RFC 9110 13, 14).

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use http_range_header::parse_range_header;
use hyper::header::{
    AsHeaderName, HeaderMap, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE,
};

/// The validators of a version of a file.
#[derive(Debug, Clone)]
pub(super) struct Validators {
    /// The entity tag, with its quotes.
    pub(super) tag: String,
    pub(super) modified: Option<SystemTime>,
}

/// The result of the conditions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The file is sent.
    Send,
    /// The client has this version of the file: 304.
    Unchanged,
    /// The file is not the version that the client requires: 412.
    Failed,
}

impl Validators {
    /// Judges the conditions of a request.
    pub(super) fn judge(&self, headers: &HeaderMap) -> Verdict {
        let is_since = |name| {
            let (modified, time) = (self.modified?, time(headers, name)?);
            Some(whole_seconds(modified) > time)
        };
        let holds = match self.lists_tag(headers, IF_MATCH) {
            Some(listed) => listed,
            None => is_since(IF_UNMODIFIED_SINCE) != Some(true),
        };
        let is_known = match self.lists_tag(headers, IF_NONE_MATCH) {
            Some(listed) => listed,
            None => is_since(IF_MODIFIED_SINCE) == Some(false),
        };
        match (holds, is_known) {
            (false, _) => Verdict::Failed,
            (true, true) => Verdict::Unchanged,
            (true, false) => Verdict::Send,
        }
    }

    /// Whether a header lists the tag; none without the header.
    fn lists_tag(&self, headers: &HeaderMap, name: impl AsHeaderName) -> Option<bool> {
        let mut values = headers.get_all(name).iter().peekable();
        values.peek()?;
        let tags = values.filter_map(|value| value.to_str().ok());
        let mut tags = tags.flat_map(|value| value.split(',')).map(str::trim);
        Some(tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag))
    }

    /// Whether the requested range is of this version.
    fn is_part_of_this(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(IF_RANGE) else { return true };
        let is_tag = value.to_str().is_ok_and(|text| text.trim() == self.tag);
        let modified = self.modified.map(whole_seconds);
        is_tag || modified.is_some_and(|modified| time(headers, IF_RANGE) == Some(modified))
    }

    /// The range of a file that a request asks for; none means the whole file, also for a request
    /// of several ranges. An error if the file has no such range: 416.
    pub(super) fn part(
        &self,
        headers: &HeaderMap,
        length: u64,
    ) -> Result<Option<RangeInclusive<u64>>, NoSuchPart> {
        let text = headers.get(RANGE).and_then(|value| value.to_str().ok());
        let Some(ranges) = text.and_then(|text| parse_range_header(text).ok()) else {
            return Ok(None);
        };
        if ranges.ranges.len() != 1 || !self.is_part_of_this(headers) {
            return Ok(None);
        }
        if length == 0 {
            return Err(NoSuchPart);
        }
        let ranges = ranges.validate(length).map_err(|_| NoSuchPart)?;
        Ok(ranges.into_iter().next())
    }
}

/// The file has no such range.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoSuchPart;

fn time(headers: &HeaderMap, name: impl AsHeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// HTTP dates have no fractions of seconds.
fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const BEFORE: &str = "Fri, 13 Feb 2009 23:31:29 GMT";
    const THEN: &str = "Fri, 13 Feb 2009 23:31:30 GMT";

    fn validators() -> Validators {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567_890_500);
        Validators { tag: "\"a\"".into(), modified: Some(modified) }
    }

    fn with(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut own = HeaderMap::new();
        for (name, value) in pairs {
            own.append(*name, HeaderValue::from_static(value));
        }
        own
    }

    #[test]
    fn conditions() {
        let judge = |pairs: &[(&'static str, &'static str)]| validators().judge(&with(pairs));
        assert_eq!(judge(&[]), Verdict::Send);
        for known in ["\"a\"", "W/\"a\"", "\"x\", \"a\"", "*"] {
            assert_eq!(judge(&[("if-none-match", known)]), Verdict::Unchanged, "{known}");
        }
        assert_eq!(judge(&[("if-none-match", "\"x\"")]), Verdict::Send);
        assert_eq!(
            judge(&[("if-none-match", "\"x\""), ("if-none-match", "\"a\"")]),
            Verdict::Unchanged
        );
        assert_eq!(judge(&[("if-modified-since", THEN)]), Verdict::Unchanged);
        assert_eq!(judge(&[("if-modified-since", BEFORE)]), Verdict::Send);
        assert_eq!(judge(&[("if-modified-since", "nonsense")]), Verdict::Send);
        // The tag has priority over the time.
        let both = [("if-none-match", "\"x\""), ("if-modified-since", THEN)];
        assert_eq!(judge(&both), Verdict::Send);
        assert_eq!(judge(&[("if-match", "\"x\"")]), Verdict::Failed);
        assert_eq!(judge(&[("if-match", "\"a\"")]), Verdict::Send);
        assert_eq!(judge(&[("if-unmodified-since", BEFORE)]), Verdict::Failed);
        assert_eq!(judge(&[("if-unmodified-since", THEN)]), Verdict::Send);
        let timeless = Validators { modified: None, ..validators() };
        assert_eq!(timeless.judge(&with(&[("if-modified-since", THEN)])), Verdict::Send);
    }

    #[test]
    fn parts() {
        let part = |pairs: &[(&'static str, &'static str)]| validators().part(&with(pairs), 10);
        let range = |text| part(&[("range", text)]);
        assert_eq!(range("bytes=0-3"), Ok(Some(0..=3)));
        assert_eq!(range("bytes=8-"), Ok(Some(8..=9)));
        assert_eq!(range("bytes=-3"), Ok(Some(7..=9)));
        assert_eq!(range("bytes=5-500"), Ok(Some(5..=9)));
        assert_eq!(range("bytes=10-"), Err(NoSuchPart));
        assert_eq!(range("bytes=3-1"), Err(NoSuchPart));
        for ignored in ["bytes=0-1,3-4", "bytes=x", "lines=0-1"] {
            assert_eq!(range(ignored), Ok(None), "{ignored}");
        }
        assert_eq!(part(&[]), Ok(None));
        let whole = |condition| part(&[("range", "bytes=0-3"), ("if-range", condition)]);
        for (condition, is_part) in
            [("\"a\"", true), ("\"x\"", false), ("W/\"a\"", false), (THEN, true), (BEFORE, false)]
        {
            assert_eq!(whole(condition).unwrap().is_some(), is_part, "{condition}");
        }
        assert_eq!(validators().part(&with(&[("range", "bytes=0-0")]), 0), Err(NoSuchPart));
    }
}
