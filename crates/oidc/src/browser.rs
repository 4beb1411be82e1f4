//! The cookie that binds the pages of a login to the browser that began it.
//!
//! A browser keeps one secret for ten minutes, for all logins that it begins meanwhile. The name begins with `__Host-`, so
//! that no other host, no page over HTTP and no subdomain can set it. The cookie opens no API: the pages of a login are all
//! that asks for it.

use crate::login::Visitor;
use crate::secret::{Hash, Random, is_well_formed, text};

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
pub fn secret_for(shown: Option<&str>, random: &Random) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
