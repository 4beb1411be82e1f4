//! Versions and version ranges of operating systems: comparators separated by spaces must all hold,
//! `||` separates alternatives, `x` matches any number (docs/protocol/edge-control-plane.md 12.3).

use std::cmp::Ordering;

/// Longest range or version that is read, in bytes.
const MAX_LEN: usize = 256;

/// A version: numbers, and the parts of a pre-release.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version<'a> {
    numbers: [u64; 3],
    pre: Vec<&'a str>,
}

impl<'a> Version<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.split_once('+').map_or(text, |(version, _build)| version);
        let (numbers, pre) = match text.split_once('-') {
            Some((numbers, pre)) => (numbers, pre.split('.').collect()),
            None => (text, Vec::new()),
        };
        if pre.iter().any(|part| part.is_empty()) {
            return None;
        }
        let mut parts = numbers.split('.').map(number);
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(Self { numbers, pre })
    }

    fn of(numbers: [u64; 3]) -> Self {
        Self { numbers, pre: Vec::new() }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare_pre(&self.pre, &other.pre),
        };
        self.numbers.cmp(&other.numbers).then_with(pre)
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Order of pre-releases: numbers before texts, fewer parts before more.
fn compare_pre(a: &[&str], b: &[&str]) -> Ordering {
    let parts = a.iter().zip(b).map(|(a, b)| match (number(a), number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    });
    parts.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
}

/// True if a version is in a range; false if either cannot be read.
pub(super) fn is_in_range(version: &str, range: &str) -> bool {
    if version.len() > MAX_LEN {
        return false;
    }
    Version::parse(version).is_some_and(|version| evaluate(range, &version) == Some(true))
}

/// True if the text is a range.
pub(super) fn is_range(range: &str) -> bool {
    evaluate(range, &Version::of([0, 0, 0])).is_some()
}

/// True if the version is in the range; `None` if the range cannot be read.
fn evaluate(range: &str, version: &Version<'_>) -> Option<bool> {
    if range.len() > MAX_LEN {
        return None;
    }
    let mut any = false;
    for alternative in range.split("||") {
        let mut all = true;
        let mut comparators = alternative.split_ascii_whitespace().peekable();
        comparators.peek()?;
        let mut operator = "";
        for word in comparators {
            // A space may separate an operator from its version.
            let split = word.find(|c: char| !matches!(c, '<' | '>' | '=' | '!'));
            let (found, text) = word.split_at(split.unwrap_or(word.len()));
            if text.is_empty() {
                if !operator.is_empty() {
                    return None;
                }
                operator = found;
                continue;
            }
            if !operator.is_empty() && !found.is_empty() {
                return None;
            }
            let used = if found.is_empty() { operator } else { found };
            all &= compare(used, text, version)?;
            operator = "";
        }
        if !operator.is_empty() {
            return None;
        }
        any |= all;
    }
    Some(any)
}

/// Evaluates one comparator. A wildcard means all versions from its lowest to before `next`.
fn compare(operator: &str, text: &str, version: &Version<'_>) -> Option<bool> {
    let (low, next) = match wildcard(text)? {
        Some(bounds) => bounds,
        None => {
            let exact = Version::parse(text)?;
            let order = version.compare(&exact);
            return match operator {
                "" | "=" | "==" => Some(order.is_eq()),
                "!" | "!=" => Some(order.is_ne()),
                ">" => Some(order.is_gt()),
                ">=" => Some(order.is_ge()),
                "<" => Some(order.is_lt()),
                "<=" => Some(order.is_le()),
                _ => None,
            };
        }
    };
    let from_low = version.compare(&low).is_ge();
    let before_next = next.is_none_or(|next| version.compare(&next).is_lt());
    match operator {
        "" | "=" | "==" => Some(from_low && before_next),
        "!" | "!=" => Some(!(from_low && before_next)),
        ">" => Some(!before_next),
        ">=" => Some(from_low),
        "<" => Some(!from_low),
        "<=" => Some(before_next),
        _ => None,
    }
}

type Bounds = (Version<'static>, Option<Version<'static>>);

/// The bounds of `x`, `1.x` or `1.2.x`; `Some(None)` if there is no wildcard.
fn wildcard(text: &str) -> Option<Option<Bounds>> {
    let is_wild = |part: &str| matches!(part, "x" | "X" | "*");
    let parts: Vec<_> = text.split('.').collect();
    let Some(at) = parts.iter().position(|part| is_wild(part)) else { return Some(None) };
    if parts.len() > 3 || !parts[at..].iter().all(|part| is_wild(part)) {
        return None;
    }
    let mut low = [0; 3];
    for (place, part) in low.iter_mut().zip(&parts[..at]) {
        *place = number(part)?;
    }
    let next = match at {
        0 => None,
        1 => Some(Version::of([low[0].checked_add(1)?, 0, 0])),
        _ => Some(Version::of([low[0], low[1].checked_add(1)?, 0])),
    };
    Some(Some((Version::of(low), next)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_hold_as_documented() {
        let holds = [
            ("10.0.5", ">=10.0.0 <11.0.0"),
            ("1.2.3", "1.2.3"),
            ("1.2.3", "=1.2.3"),
            ("1.2.4", "!=1.2.3"),
            ("0.4.0", ">1.0.0 || <0.5.0"),
            ("1.2.9", "1.2.x"),
            ("1.9.9", "1.x"),
            ("9.9.9", "*"),
            ("1.3.0", ">1.2.x"),
            ("1.2.9", "<=1.2.x"),
            ("1.3.0", "!1.2.x"),
            ("5.4.0-42-generic", "<5.4.0"),
            ("5.4.0-42", "<5.4.0-43"),
            ("1.0.0-a", ">1.0.0-1"),
            ("1.0.0+build", "1.0.0"),
            ("2.0.0", ">= 1.0.0"),
        ];
        for (version, range) in holds {
            assert!(is_in_range(version, range), "{version} in {range}");
        }
        let fails = [
            ("11.0.0", ">=10.0.0 <11.0.0"),
            ("1.2.9", ">1.2.x"),
            ("1.3.0", "<=1.2.x"),
            ("1.2.0", "<1.2.x"),
            ("0.7.0", ">1.0.0 || <0.5.0"),
            ("1.2", "*"),
            ("1.2.3.4", "*"),
            ("1.2.3", ""),
            ("1.2.3", "1.2"),
            ("1.2.3", "=>1.2.3"),
            ("1.2.3", ">= >= 1.0.0"),
            ("1.2.3", "1.x.3"),
            ("1.2.3", ">"),
        ];
        for (version, range) in fails {
            assert!(!is_in_range(version, range), "{version} in {range}");
        }
        assert!(is_range(">=10.0.0 || 9.x"));
        assert!(!is_range("ten"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(version in ".{0,40}", range in "[0-9x.<>=!| a-]{0,40}") {
            is_in_range(&version, &range);
            is_range(&range);
        }
    }
}
