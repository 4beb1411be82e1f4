//! Versions: the text in the hello and how two are compared (docs/protocol/channel.md 9.3).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The build of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VersionInfo {
    /// The release, for example `v2.1.0`. Peers compare releases, so that weft names the release
    /// that it is compatible with.
    pub version: String,
    /// Revision of the sources.
    pub revision: String,
    /// The time of the build.
    pub build_date: String,
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
}

impl Default for VersionInfo {
    fn default() -> Self {
        let empty = String::new;
        Self {
            version: empty(),
            revision: empty(),
            build_date: empty(),
            os: empty(),
            arch: empty(),
        }
    }
}

impl VersionInfo {
    /// Reads the form of control channels: five fields between bars.
    pub fn from_header(text: &str) -> Option<Self> {
        let mut fields = text.split('|').map(told);
        let info = Self {
            version: fields.next()?,
            revision: fields.next()?,
            build_date: fields.next()?,
            os: fields.next()?,
            arch: fields.next()?,
        };
        fields.next().is_none().then_some(info)
    }

    /// The form of control channels: five fields between bars.
    pub fn to_header(&self) -> String {
        let Self { version, revision, build_date, os, arch } = self;
        format!("{version}|{revision}|{build_date}|{os}|{arch}")
    }

    /// The form of SDK connections: JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the form of SDK connections.
    pub fn from_json(text: &str) -> Option<Self> {
        let info: Self = serde_json::from_str(text).ok()?;
        let Self { version, revision, build_date, os, arch } = &info;
        let [version, revision, build_date, os, arch] =
            [version, revision, build_date, os, arch].map(|text| told(text));
        Some(Self { version, revision, build_date, os, arch })
    }

    /// The release, if it can be compared.
    pub fn release(&self) -> Option<Version> {
        self.version.parse().ok()
    }
}

/// Longest field of a build that is kept, in characters.
const MAX_FIELD: usize = 255;

/// What a program says of itself, as it is kept: not too long, and without control characters.
fn told(text: &str) -> String {
    text.chars().take(MAX_FIELD).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A release number that can be compared: optional `v`, numbers between dots, optional
/// pre-release. `0.0.0` is a development build and newer than everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    numbers: Vec<u64>,
    pre: Option<String>,
}

/// Longest version text that is read, in bytes.
const MAX_TEXT: usize = 128;

/// The text is not a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a version: expected numbers between dots, such as v2.1.0 or 2.1.0-pre2")]
pub struct VersionError;

impl Version {
    /// A release without suffix.
    pub fn release(major: u64, minor: u64, patch: u64) -> Self {
        Self { numbers: vec![major, minor, patch], pre: None }
    }

    /// True for `0.0.0`, whatever its suffix.
    pub fn is_development(&self) -> bool {
        self.numbers.iter().all(|number| *number == 0)
    }

    /// True if this is at least release `major.minor.patch`.
    pub fn at_least(&self, major: u64, minor: u64, patch: u64) -> bool {
        *self >= Self::release(major, minor, patch)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        if text.len() > MAX_TEXT {
            return Err(VersionError);
        }
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split('+').next().unwrap_or(text);
        let (numbers, pre) = match text.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre.to_owned())),
            None => (text, None),
        };
        let numbers = numbers
            .split('.')
            .map(|number| number.parse().map_err(|_| VersionError))
            .collect::<Result<Vec<u64>, _>>()?;
        Ok(Self { numbers, pre })
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_development(), other.is_development()) {
            (true, true) => return self.to_string().cmp(&other.to_string()),
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        let length = self.numbers.len().max(other.numbers.len());
        let padded = |version: &Self| -> Vec<u64> {
            version.numbers.iter().copied().chain(std::iter::repeat(0)).take(length).collect()
        };
        padded(self)
            .cmp(&padded(other))
            .then_with(|| match (&self.pre, &other.pre) {
                (None, None) => Ordering::Equal,
                (None, Some(_)) => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (Some(a), Some(b)) => compare_pre(a, b),
            })
            .then_with(|| self.numbers.len().cmp(&other.numbers.len()))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Pre-releases of one kind compare by number (`pre2` before `pre10`), others as text.
fn compare_pre(a: &str, b: &str) -> Ordering {
    let split = |text: &str| {
        let at = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
        let (kind, number) = text.split_at(at);
        (kind.to_owned(), number.parse::<u64>().ok())
    };
    let ((kind_a, number_a), (kind_b, number_b)) = (split(a), split(b));
    kind_a.cmp(&kind_b).then_with(|| number_a.cmp(&number_b)).then_with(|| a.cmp(b))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, number) in self.numbers.iter().enumerate() {
            write!(f, "{}{number}", if place == 0 { "v" } else { "." })?;
        }
        match &self.pre {
            Some(pre) => write!(f, "-{pre}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn order() {
        let sorted = [
            "v0.30.0",
            "1.6.6-pre1",
            "1.6.6",
            "v2.0.0-alpha1",
            "2.0.0-pre2",
            "2.0.0-pre10",
            "2.0.0-rc1",
            "2.0",
            "v2.1.0-pre2+4",
            "2.1.0",
            "0.0.0",
        ];
        for pair in sorted.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{} < {}", pair[0], pair[1]);
        }
        assert!(version("v2.1.0").at_least(2, 1, 0));
        assert!(!version("v2.1.0-pre2").at_least(2, 1, 0));
        assert!(version("v0.0.0").at_least(99, 0, 0));
    }

    #[test]
    fn texts_that_are_no_version() {
        for text in ["", "v", "1.x.0", "latest", "1..2", &"1.".repeat(100)] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn header_form_has_exactly_five_fields() {
        let info = VersionInfo::from_header("v2.0.3|abc|2026-01-01|linux|amd64").unwrap();
        assert_eq!(info.to_header(), "v2.0.3|abc|2026-01-01|linux|amd64");
        assert_eq!(info.release(), Some(version("2.0.3")));
        assert_eq!(VersionInfo::from_header("v2.0.3|abc|2026|linux"), None);
        assert_eq!(VersionInfo::from_header("v2.0.3|abc|2026|linux|amd64|x"), None);
        assert_eq!(
            info.to_json(),
            r#"{"version":"v2.0.3","revision":"abc","buildDate":"2026-01-01","os":"linux","arch":"amd64"}"#
        );
        assert_eq!(VersionInfo::from_json(&info.to_json()), Some(info.clone()));
        // Whatever a program says, what is kept has a length and moves no cursor.
        let long = VersionInfo { revision: format!("\u{1b}[2J{}", "x".repeat(1000)), ..info };
        let told = format!(" [2J{}", "x".repeat(MAX_FIELD - 4));
        for read in
            [VersionInfo::from_json(&long.to_json()), VersionInfo::from_header(&long.to_header())]
        {
            assert_eq!(read.unwrap().revision, told);
        }
    }

    proptest! {
        #[test]
        fn any_text_never_panics(a in ".{0,30}", b in "v?[0-9.]{1,8}(-[a-z]{0,3}[0-9]{0,3})?") {
            let _ = a.parse::<Version>();
            let _ = VersionInfo::from_header(&a);
            let _ = VersionInfo::from_json(&a);
            if let (Ok(x), Ok(y)) = (b.parse::<Version>(), version("1.2.3").to_string().parse::<Version>()) {
                prop_assert_eq!(x.cmp(&y), y.cmp(&x).reverse());
            }
        }
    }
}
