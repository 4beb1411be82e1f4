//! The cookie that binds the pages of a login to the browser that began it.
//!
//! A browser keeps one secret for ten minutes, for all logins that it begins meanwhile. The name begins with `__Host-`, so
//! that no other host, no page over HTTP and no subdomain can set it. The cookie opens no API: the pages of a login are all
//! that asks for it.

use crate::login::Visitor;
use crate::secret::{Hash, RandomBytes, is_well_formed, text};

/// The name of the cookie.
pub const COOKIE: &str = "__Host-weft-login";

/// Seconds that a browser keeps the cookie: as long as a login lasts.
const MAX_AGE: u32 = 600;

/// The secret of a browser in its headers `Cookie`; none if there is none, or more than one.
#[must_use]
pub fn secret_of<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let pairs = headers.into_iter().flat_map(|header| header.split(';'));
    let mut found = pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value);
    let secret = found.next().filter(|secret| is_well_formed(secret))?;
    found.next().is_none().then_some(secret)
}

/// The secret for a login that begins: that of the browser, or a new one.
#[must_use]
pub fn secret_for(shown: Option<&str>, random: &RandomBytes) -> String {
    shown.filter(|shown| is_well_formed(shown)).map_or_else(|| text(random), str::to_owned)
}

/// The header `Set-Cookie` that gives a browser its secret.
#[must_use]
pub fn set_cookie(secret: &str) -> String {
    format!("{COOKIE}={secret}; Path=/; Max-Age={MAX_AGE}; Secure; HttpOnly; SameSite=Lax")
}

/// The visitor that a request on a page is, by the secret of its cookie.
#[must_use]
pub fn visitor(secret: Option<&str>) -> Visitor {
    Visitor::Page(secret.map(Hash::of))
}

/// True if a page of another site sent a request. Such a request must give no factor that the browser shows by itself: its
/// certificate. Else whoever began a login by JSON could have it finished by anybody who looks at a page of his.
///
/// `origin` and `fetch_site` are the headers `Origin` and `Sec-Fetch-Site`, which programs do not send; `own` is the origin
/// of the issuer, `allowed` the exact entries of `allowedOrigins`.
#[must_use]
pub fn is_foreign(
    origin: Option<&str>,
    fetch_site: Option<&str>,
    own: &str,
    allowed: &[String],
) -> bool {
    let is_same = |one: &str, other: &str| {
        one.trim_end_matches('/').eq_ignore_ascii_case(other.trim_end_matches('/'))
    };
    let is_known = |origin: &str| {
        is_same(origin, own) || allowed.iter().any(|one| one != "*" && is_same(origin, one))
    };
    match (fetch_site, origin) {
        (Some("same-origin" | "none"), _) => false,
        (_, Some(origin)) => !is_known(origin),
        (fetch_site, None) => fetch_site.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_sites_use_no_certificate() {
        let allowed = ["*".to_owned(), "https://console.example/".to_owned()];
        let own = "https://ctrl.example:1280";
        for (origin, site, wanted) in [
            (None, None, false),
            (Some(own), None, false),
            (Some("https://CTRL.example:1280"), Some("same-site"), false),
            (Some("null"), Some("same-origin"), false),
            (None, Some("none"), false),
            (Some("https://console.example"), Some("cross-site"), false),
            (Some("https://evil.example"), Some("cross-site"), true),
            (Some("https://evil.example"), None, true),
            (Some("https://ctrl.example"), Some("same-site"), true),
            (Some("null"), Some("cross-site"), true),
            (Some("null"), None, true),
            (Some("*"), None, true),
            (None, Some("cross-site"), true),
        ] {
            assert_eq!(is_foreign(origin, site, own, &allowed), wanted, "{origin:?} {site:?}");
        }
    }

    #[test]
    fn a_browser_shows_its_secret() {
        let secret = text(&[7; 32]);
        let header = format!("a=b; {COOKIE}={secret};c=d");
        assert_eq!(secret_of([header.as_str()]), Some(secret.as_str()));
        assert_eq!(secret_of(["a=b", &header]), Some(secret.as_str()));
        assert_eq!(secret_of([header.as_str(), &header]), None, "two of them");
        for header in ["", "a=b", "__Host-weft-login=short", "weft-login=x"] {
            assert_eq!(secret_of([header]), None);
        }
        assert_eq!(secret_for(Some(&secret), &[1; 32]), secret);
        assert_eq!(secret_for(Some("short"), &[1; 32]), text(&[1; 32]));
        assert_eq!(
            set_cookie("x"),
            "__Host-weft-login=x; Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax"
        );
    }
}
