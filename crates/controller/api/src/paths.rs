//! Request paths and queries in the forms that clients send.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use weft_controller::QueryParameters;

/// Query parameters that are read; more are ignored.
const MAX_PARAMETERS: usize = 256;

/// A path without doubled or trailing slashes (docs/protocol/operations.md 0, 9.6).
pub(crate) fn normal(path: &str) -> Cow<'_, str> {
    if !path.contains("//") && (path.len() == 1 || !path.ends_with('/')) && path.starts_with('/') {
        return Cow::Borrowed(path);
    }
    let mut plain = String::with_capacity(path.len() + 1);
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        plain.push('/');
        plain.push_str(segment);
    }
    if plain.is_empty() {
        plain.push('/');
    }
    Cow::Owned(plain)
}

/// A path segment with its escapes decoded; none if the result is no UTF-8.
pub(crate) fn unescape(segment: &str) -> Option<String> {
    percent_decode_str(segment).decode_utf8().ok().map(Cow::into_owned)
}

/// The parameters of a query, in their order.
pub(crate) fn query(text: Option<&str>) -> QueryParameters {
    let pairs = url::form_urlencoded::parse(text.unwrap_or_default().as_bytes());
    let owned = pairs.map(|(name, value)| (name.into_owned(), value.into_owned()));
    QueryParameters(owned.take(MAX_PARAMETERS).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slashes_are_made_plain() {
        for (given, plain) in [
            ("/", "/"),
            ("//", "/"),
            ("/version", "/version"),
            ("/version/", "/version"),
            (
                "/edge/management/v1//identities/x/disable",
                "/edge/management/v1/identities/x/disable",
            ),
            ("/identities/x//", "/identities/x"),
            ("*", "/*"),
        ] {
            assert_eq!(normal(given), plain, "{given}");
        }
    }

    #[test]
    fn segments_lose_their_escapes() {
        assert_eq!(unescape(".a-b").as_deref(), Some(".a-b"));
        assert_eq!(unescape("x%2Fy%20%c3%bc%").as_deref(), Some("x/y ü%"));
        assert_eq!(unescape("%zz%4").as_deref(), Some("%zz%4"));
        assert_eq!(unescape("%ff"), None);
    }

    #[test]
    fn queries_keep_order_and_repetition() {
        let query = query(Some("roleFilter=%23a&roleFilter=@b&filter=name+%3D+%22x%22&limit"));
        assert_eq!(query.all("roleFilter").collect::<Vec<_>>(), ["#a", "@b"]);
        assert_eq!(query.get("filter"), Some("name = \"x\""));
        assert_eq!(query.get("limit"), Some(""));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,100}") {
            let _ = (normal(&text), unescape(&text), query(Some(&text)));
        }
    }
}
