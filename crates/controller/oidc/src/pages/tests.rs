use std::net::IpAddr;

use super::*;
use crate::device::{DeviceRequest, UserCode};
use crate::scopes::Scopes;

const EVIL: &str = "\"><script>alert('&')</script>";
const ASKING: PageContext<'_> = PageContext {
    id: EVIL,
    controller: EVIL,
    client: EVIL,
    origin: Some("https://console.example"),
};

/// Every page, with hostile texts wherever somebody else writes one.
fn all() -> Vec<(&'static str, HtmlPage)> {
    let address: IpAddr = [192, 0, 2, 1].into();
    let device = DeviceRequest {
        client: crate::client::Client::Native,
        scopes: Scopes::default(),
        program: EVIL.to_owned(),
        address,
    };
    let signers = [
        Signer { name: EVIL, url: Some("https://idp.example/?a=\"><script>") },
        Signer { name: "b", url: Some("javascript:alert(1)") },
        Signer { name: "c", url: None },
    ];
    let enrollment = TotpEnrollment { url: EVIL, secret: EVIL, qr: EVIL };
    let said = Some(EVIL);
    vec![
        ("password", password(ASKING, said)),
        ("certificate", certificate(ASKING, Some(EVIL), said)),
        ("no certificate", certificate(ASKING, None, None)),
        ("external", external_token(ASKING, &signers, false, said)),
        ("second external", external_token(ASKING, &signers[..1], true, None)),
        ("no signers", external_token(ASKING, &[], false, None)),
        ("totp", totp(ASKING, said)),
        ("start", start_enrollment(ASKING, said)),
        ("enroll", enroll(ASKING, enrollment, said)),
        ("recovery", recovery_codes(ASKING, &[EVIL.to_owned()], EVIL)),
        ("code", device_code(EVIL, UserCode::read("BCDF-GHJK").as_ref(), said)),
        ("consent", consent(ASKING, &device, EVIL, address)),
        ("agreed", device_done(EVIL, true)),
        ("refused", device_done(EVIL, false)),
        ("question", end_question(EVIL, EVIL, &[("state", EVIL)], EVIL, Some("app:"))),
        ("logged out", logged_out(EVIL, true)),
        ("elsewhere", elsewhere(EVIL)),
        ("problem", problem(EVIL, EVIL)),
    ]
}

/// The tags of a page with their attributes.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag).collect()
}

/// The value of an attribute of a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[test]
fn nothing_of_others_is_markup() {
    for (name, page) in all() {
        let html = page.body();
        for tag in tags(html) {
            assert!(!tag.starts_with("script") && !tag.contains(" on"), "{name}: {tag}");
            assert_eq!(tag.matches('"').count() % 2, 0, "{name}: {tag}");
            for link in [attribute(tag, "href"), attribute(tag, "src"), attribute(tag, "action")] {
                let is_fine = |link: &str| {
                    link.is_empty()
                        || link.starts_with("/oidc/")
                        || link.starts_with("https://idp.example/")
                };
                assert!(link.is_none_or(is_fine), "{name}: {tag}");
            }
        }
        assert!(!html.contains("<script") && !html.contains("alert('"), "{name}");
    }
}

#[test]
fn every_page_is_whole_and_can_be_read_to_people() {
    for (name, page) in all() {
        let html = page.body();
        assert!(html.starts_with("<!doctype html><html lang=\"en\">"), "{name}");
        let mut open = Vec::new();
        for tag in tags(html) {
            let word = tag.split([' ', '/']).next().unwrap_or_default();
            match tag.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed), "{name}"),
                None if ["!doctype", "meta", "input", "img"].contains(&word) => {}
                None => open.push(word),
            }
        }
        assert!(open.is_empty(), "{name}: {open:?} are open");
        assert_eq!(html.matches("<h1>").count(), 1, "{name}");
        assert_eq!(html.matches("<style>").count(), 1, "{name}");
        let of = |word: &str| {
            tags(html).into_iter().filter(move |tag| tag.starts_with(word)).collect::<Vec<_>>()
        };
        let fields = of("input").into_iter().chain(of("textarea"));
        for field in fields.filter(|field| attribute(field, "type") != Some("hidden")) {
            let id = attribute(field, "id").unwrap();
            assert!(html.contains(&format!("<label for=\"{id}\">")), "{name}: {field}");
            assert!(attribute(field, "autocomplete").is_some(), "{name}: {field}");
            for described in attribute(field, "aria-describedby").unwrap_or_default().split(' ') {
                assert!(
                    described.is_empty() || html.contains(&format!(" id=\"{described}\"")),
                    "{name}"
                );
            }
        }
        let ids: Vec<&str> =
            tags(html).into_iter().filter_map(|tag| attribute(tag, "id")).collect();
        let different: std::collections::HashSet<&&str> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{name}: an id is there twice");
        assert!(of("img").iter().all(|img| attribute(img, "alt").is_some()), "{name}");
    }
}

#[test]
fn the_headers_are_exact() {
    let policy = |page: &HtmlPage| {
        let headers = page.headers();
        assert_eq!(headers[0].1, "text/html; charset=utf-8");
        let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
        let wanted = [
            "content-type",
            "content-security-policy",
            "cache-control",
            "referrer-policy",
            "x-content-type-options",
            "x-frame-options",
        ];
        assert_eq!(names, wanted);
        let values: Vec<_> = headers[2..].iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["no-store", "no-referrer", "nosniff", "DENY"]);
        let (before, rest) = headers[1].1.split_once("'sha256-").unwrap();
        let (hash, after) = rest.split_once('\'').unwrap();
        let of_page =
            page.body().split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert_eq!(hash, STANDARD.encode(Sha256::digest(of_page)));
        format!("{before}{after}")
    };
    let with = |target: &str| {
        format!(
            "default-src 'none'; style-src ; img-src data:; form-action 'self'{target}; frame-ancestors 'none'; \
             base-uri 'none'"
        )
    };
    let to = |origin| policy(&totp(PageContext { origin: Some(origin), ..ASKING }, None));
    assert_eq!(to("https://console.example"), with(" https://console.example"));
    assert_eq!(to("http://127.0.0.1:8080"), with(" http://127.0.0.1:8080"));
    assert_eq!(to("http://[::1]:8080"), with(" http:"));
    assert_eq!(to("openziti:"), with(" openziti:"));
    assert_eq!(to("https://a; script-src *"), with(""));
    assert_eq!(policy(&device_done("c", true)), with(""));
}

#[test]
fn pages_lead_where_their_step_is() {
    let asking =
        PageContext { id: "ID", controller: "ctrl.example", client: "openziti", origin: None };
    let page = password(asking, None);
    assert!(page.body().contains("<form method=\"post\" action=\"/oidc/login/username\"><input type=\"hidden\" name=\"id\" value=\"ID\">"));
    assert!(page.body().contains("href=\"/oidc/login/cert?authRequestID=ID\""));
    assert!(page.body().contains("For <b>openziti</b> on another device"));
    assert!(!page.body().contains("role=\"alert\""));
    let enrollment = TotpEnrollment {
        url: "otpauth://totp/a:b?secret=S&issuer=a",
        secret: "S",
        qr: "data:image/png;base64,AAAA",
    };
    let page = enroll(asking, enrollment, Some("wrong"));
    assert!(page.body().contains("href=\"otpauth://totp/a:b?secret=S&amp;issuer=a\""));
    assert!(page.body().contains("src=\"data:image/png;base64,AAAA\""));
    assert!(page.body().contains("action=\"/oidc/login/totp/enroll/verify\""));
    assert!(page.body().contains("aria-invalid=\"true\""));
    let page = recovery_codes(asking, &["ABC".to_owned()], "/oidc/authorize/callback?id=ID");
    assert!(
        page.body().contains("<li>ABC</li>")
            && page.body().contains("href=\"/oidc/authorize/callback?id=ID\"")
    );
}
