//! Texts of strangers: no reader panics, and what is accepted is harmless.

use proptest::prelude::*;

use super::*;
use crate::device::UserCode;
use crate::host::HttpHost;
use crate::login_form::{LoginForm, ResponseFormat};
use crate::token_request::TokenRequest;
use crate::uris::{Uri, UriPattern};

/// Texts near those that are accepted.
fn near() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "http",
        "https",
        "openziti",
        "javascript",
        ":",
        "/",
        "//",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "a.example",
        "x.a.example",
        "evil.example",
        "@",
        "\\",
        "?",
        "#",
        "*",
        "%2f",
        "%2e",
        "..",
        ".",
        ":80",
        ":0",
        "auth",
        "callback",
        "/auth/callback",
        "\t",
        " ",
        "ä",
        "\u{0}",
        "&",
        ";",
        "0x7f000001",
        "x",
        "%00",
        "?x=1",
        "-",
    ]);
    prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A login ends at no host that the patterns do not name, by the reading of a browser, too.
    #[test]
    fn no_login_ends_elsewhere(text in near(), head in 0usize..3) {
        let heads = ["", "http://localhost", "https://x.a.example"];
        let text = format!("{}{text}", heads[head]);
        let configured = ["openziti://auth/callback", "http://localhost:*/auth/*", "https://*.a.example/*/callback?x=*"];
        let configured = configured.map(str::to_owned);
        let (uris, refused) = Uris::of_logins(&UriSources { configured: &configured, ..UriSources::default() });
        prop_assert!(refused.is_empty());
        if let Some(uri) = uris.find(&text) {
            let url = url::Url::parse(uri.as_str()).unwrap();
            let host = url.host_str().unwrap_or_default();
            let is_known = match url.scheme() {
                "openziti" => host == "auth",
                "http" => host == "localhost",
                "https" => host.ends_with(".a.example"),
                _ => false,
            };
            prop_assert!(is_known, "{}", text);
            prop_assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
            let parsed = url::Url::parse(&uri.with(&[("error", "x")])).unwrap();
            prop_assert_eq!(parsed.host_str().unwrap_or_default(), host);
        }
    }

    /// Readers give an answer for any text.
    #[test]
    fn no_reader_panics(text in prop_oneof![near(), any::<String>()], bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        _ = Uri::parse(&text);
        _ = UriPattern::parse(&text);
        if let Some(host) = HttpHost::parse(&text) {
            prop_assert_eq!(HttpHost::parse(&host.to_string()), Some(host));
        }
        if let Some(code) = UserCode::read(&text) {
            prop_assert_eq!(UserCode::read(&code.shown()), Some(code));
        }
        _ = ResponseFormat::wanted(Some(&text));
        for kind in ["application/json", "application/x-www-form-urlencoded", text.as_str()] {
            _ = LoginForm::read(Some(kind), &bytes, &text);
            _ = LoginForm::read(Some(kind), text.as_bytes(), "");
            _ = TokenRequest::read(Some(kind), text.as_bytes(), Some(&text));
        }
        let basic = format!("Basic {text}");
        _ = TokenRequest::read(Some("application/x-www-form-urlencoded"), b"grant_type=refresh_token", Some(&basic));
        let query = format!("client_id=openziti&redirect_uri={REDIRECT}&{text}");
        let (uris, _) = Uris::of_logins(&UriSources::default());
        if let Ok(params) = Params::read(&query, "") {
            _ = AuthorizeRequest::read(&params, ISSUER, &uris);
        }
    }
}
