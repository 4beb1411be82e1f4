//! Translates the path of a request to a path below a location.

use std::path::PathBuf;

use weft_controller::Failure;

use crate::paths::unescape;

/// Hidden files are not served, with this exception (RFC 8615).
const WELL_KNOWN: &str = ".well-known";

/// The path below a location that a request means; none if no file can be there.
///
/// A path that could lead elsewhere is refused and not corrected: no browser sends one.
pub(super) fn of<'p>(segments: impl Iterator<Item = &'p str>) -> Result<Option<PathBuf>, Failure> {
    let (mut place, mut is_hidden) = (PathBuf::new(), false);
    for segment in segments {
        let name = unescape(segment).ok_or_else(|| refused(segment, "is not UTF-8"))?;
        match name.as_str() {
            "" | "." => continue,
            ".." => return Err(refused(segment, "leads upwards")),
            _ => {}
        }
        if name.contains(['/', '\\']) {
            return Err(refused(segment, "holds a separator"));
        }
        if name.contains(char::is_control) {
            return Err(refused(segment, "holds a control character"));
        }
        is_hidden |= name.starts_with('.') && name != WELL_KNOWN;
        place.push(name);
    }
    Ok((!is_hidden).then_some(place))
}

fn refused(segment: &str, reason: &str) -> Failure {
    Failure::field("path", format!("a segment of the path {reason}"), segment)
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    fn place(path: &str) -> Result<Option<PathBuf>, u16> {
        of(path.split('/')).map_err(|failure| failure.status())
    }

    #[test]
    fn plain_paths_are_places() {
        for (path, wanted) in [
            ("", ""),
            ("main.js", "main.js"),
            ("/assets//icons/./a%20b.svg", "assets/icons/a b.svg"),
            ("a/", "a"),
            ("...", "..."),
            (".well-known/x", ".well-known/x"),
            ("%252e%252e", "%2e%2e"),
        ] {
            let hidden = wanted.starts_with("..");
            let wanted = (!hidden).then(|| PathBuf::from(wanted));
            assert_eq!(place(path), Ok(wanted), "{path}");
        }
        for path in [".git/config", "a/.env", "%2eenv"] {
            assert_eq!(place(path), Ok(None), "{path}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for path in [
            "..", "a/../b", "%2e%2e/x", "%2E./x", "a%2fb", "..%2fx", "..%5cx", "a\\b", "a%00.js",
            "a%0a", "%ff",
        ] {
            assert_eq!(place(path), Err(400), "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_place_is_always_below(path in "([a./\\\\%]|%2e|%2f|%5c|%00){0,20}") {
            if let Ok(Some(place)) = place(&path) {
                let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
                prop_assert!(place.components().all(is_plain), "{path} {place:?}");
                prop_assert!(!place.starts_with(Path::new("/")));
            }
        }
    }
}
