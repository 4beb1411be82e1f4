//! The media types that a client accepts (`Accept`).

use hyper::header::{ACCEPT, AsHeaderName, HeaderMap};
use weft_controller::Failure;

/// Most media ranges that a refusal repeats.
const SHOWN: usize = 10;

/// The media type that API clients accept by habit, whatever the operation answers with.
const HABIT: &str = "application/json";

/// Refuses with 406 a request that accepts none of the offered media types. A request for JSON is
/// served in any case, even where the answer has another type (certificates, PKCS #7).
pub(crate) fn check(headers: &HeaderMap, offered: &[&str]) -> Result<(), Failure> {
    let ranges: Vec<_> = items(headers, ACCEPT).collect();
    let is_taken = |media: &&str| {
        // Of the ranges that include the type, the narrowest decides.
        let fitting = ranges
            .iter()
            .filter_map(|(range, weight)| Some((narrowness(range, media)?, weight.unwrap_or(1.0))));
        fitting.max_by_key(|(narrowness, _)| *narrowness).is_some_and(|(_, weight)| weight > 0.0)
    };
    if ranges.is_empty() || offered.iter().chain([&HABIT]).any(is_taken) {
        return Ok(());
    }
    let value = ranges.iter().map(|(range, _)| range.as_str()).take(SHOWN).collect::<Vec<_>>();
    let value = value.join(", ");
    let reason = format!("the answer can be had as {} only", offered.join(" or "));
    Err(Failure::field("Accept", reason, value).with_status(406))
}

/// The narrowness of a media range: 0 for all types, 1 for a group of types, 2 for one type. `None` if
/// the range does not include the media type.
fn narrowness(range: &str, media: &str) -> Option<u8> {
    match range {
        // Some clients and consoles leave out the second half.
        "*/*" | "*" => Some(0),
        _ if range == media => Some(2),
        _ => {
            let kind = range.strip_suffix("/*")?;
            media.split('/').next().is_some_and(|own| own == kind).then_some(1)
        }
    }
}

/// The items of a header with weights, in lower case, without other parameters. The weight is
/// missing if it cannot be read.
pub(crate) fn items(
    headers: &HeaderMap,
    name: impl AsHeaderName,
) -> impl Iterator<Item = (String, Option<f32>)> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let weight = match weight {
            None => Some(1.0),
            Some(text) => text.parse().ok().filter(|weight| (0.0..=1.0).contains(weight)),
        };
        Some((name, weight))
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn with(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut own = HeaderMap::new();
        for value in values {
            own.append(name, HeaderValue::from_static(value));
        }
        own
    }

    #[test]
    fn media_ranges_are_met_or_refused() {
        const JSON: &str = "application/json";
        let met = |values: &[&'static str], offered: &[&str]| {
            check(&with("accept", values), offered).is_ok()
        };
        for values in [
            &[][..],
            &[""],
            &["*/*"],
            &["*"],
            &["application/*"],
            &["Application/JSON"],
            &["application/json; charset=utf-8"],
            &["text/html, application/xml;q=0.9, */*;q=0.8"],
            &["text/html", "application/json"],
            &["application/json;q=nonsense"],
        ] {
            assert!(met(values, &[JSON]), "{values:?}");
        }
        for values in [
            &["text/html"][..],
            &["text/*, image/png"],
            &["application/json;q=0"],
            &["application/json;q=0, */*"],
            &["json"],
            &["applic*/json"],
        ] {
            assert!(!met(values, &[JSON]), "{values:?}");
        }
        assert!(met(&["text/yaml"], &["text/yaml", JSON]));
        assert!(met(&[JSON], &["application/pkcs7-mime"]));
        let failure = check(&with("accept", &["text/html", "image/*"]), &[JSON]).unwrap_err();
        assert_eq!((failure.status(), failure.field_name()), (406, Some("Accept")));
        assert_eq!(failure.cause().unwrap().value.as_ref().unwrap(), "text/html, image/*");
    }
}
