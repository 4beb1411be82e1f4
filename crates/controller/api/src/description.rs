//! The descriptions of an API, which need no login, and a page that shows them.
//!
//! Existing tools read `swagger.json` (docs/protocol/management-api.md 1); `openapi.json` is the
//! same in the newer format, and `docs` is the page. The page loads nothing from other servers.

use bytes::Bytes;
use hyper::Method;
use weft_contract::openapi::{Format, Spec};
use weft_contract::paths::{BROWSE, DESCRIPTION, DESCRIPTION_3};
use weft_contract::{Api, headers};
use weft_controller::Reply;

const PAGE: &str = include_str!("browse/page.html");
const STYLE: &str = include_str!("browse/browse.css");
const SCRIPT: &str = include_str!("browse/browse.js");

/// The page may load and show only files of the controller.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The answer to a request for a description or the page; none for other requests.
pub(crate) fn find(api: Api, method: &Method, path: &str) -> Option<Reply> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let json = |format| Some(Reply::raw(headers::JSON, Spec::of(api, format)?.json()));
    match path {
        DESCRIPTION => return json(Format::Swagger),
        DESCRIPTION_3 => return json(Format::OpenApi),
        _ => {}
    }
    let (media, body): (_, Bytes) = match path.strip_prefix(BROWSE)? {
        "" => ("text/html; charset=utf-8", page(api)?.into()),
        "/browse.css" => ("text/css; charset=utf-8", STYLE.into()),
        "/browse.js" => ("text/javascript; charset=utf-8", SCRIPT.into()),
        _ => return None,
    };
    let reply = Reply::raw(media, body)
        .with_header("content-security-policy", POLICY)
        .with_header("x-content-type-options", "nosniff")
        .with_header("referrer-policy", "no-referrer");
    Some(reply)
}

fn page(api: Api) -> Option<String> {
    let title = match api {
        Api::Management => "weft: edge management API",
        Api::Client => "weft: edge client API",
        Api::Fabric => "weft: fabric API",
        Api::Weft => "weft: networks as documents, paths explained",
        _ => return None,
    };
    let older = match Spec::of(api, Format::Swagger) {
        Some(_) => {
            format!(" ·\n    <a href=\"{}/swagger.json\" download>Swagger 2.0</a>", api.base())
        }
        None => String::new(),
    };
    let page = PAGE.replace("{base}", api.base()).replace("{title}", title);
    Some(page.replace("{older}", &older))
}

#[cfg(test)]
mod tests {
    use weft_controller::Content;

    use super::*;

    fn get(api: Api, path: &str) -> Option<(&'static str, String)> {
        match find(api, &Method::GET, path)?.content {
            Content::Raw { media, body } => {
                Some((media, String::from_utf8(body.to_vec()).unwrap()))
            }
            Content::Data { .. } => None,
        }
    }

    #[test]
    fn descriptions_and_page_are_found() {
        for api in [Api::Management, Api::Client, Api::Fabric, Api::Weft] {
            // weft's own API has no description in the older format.
            match get(api, "/swagger.json") {
                None => assert_eq!(api, Api::Weft),
                Some((media, text)) => {
                    assert_eq!(media, "application/json");
                    assert!(text.starts_with("{\"swagger\":\"2.0\""));
                }
            }
            let (_, text) = get(api, "/openapi.json").unwrap();
            assert!(text.starts_with("{\"openapi\":\"3.1.0\""));
            let (media, text) = get(api, "/docs").unwrap();
            assert!(media.starts_with("text/html"));
            assert!(text.contains(&format!("src=\"{}/docs/browse.js\"", api.base())));
            assert!(!text.contains('{') && !text.contains("http"), "nothing from elsewhere");
            assert!(get(api, "/docs/browse.css").is_some() && get(api, "/docs/x").is_none());
        }
        assert!(get(Api::Oidc, "/swagger.json").is_none());
        assert!(find(Api::Client, &Method::POST, "/docs").is_none());
        assert!(get(Api::Client, "/docsx").is_none());
    }
}
