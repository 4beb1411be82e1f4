//! The pages of logins: plain HTML that works without scripts, in the browser's light or dark colours.
//!
//! A page is written by `Markup`, which escapes every text that is not a literal here. Its headers let no script run, no
//! other page frame it, nothing be kept or told to other sites, and its forms lead to this controller and to the redirect
//! URI of the login only.

mod device;
mod ends;
mod enrollment;
mod factors;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
pub use device::{consent, device_code, device_done};
pub use ends::{elsewhere, end_question, logged_out, problem};
pub use enrollment::{TotpEnrollment, enroll, recovery_codes, start_enrollment};
pub use factors::{Signer, certificate, external_token, password, totp};
use sha2::{Digest as _, Sha256};

use crate::login::{Login, Purpose};
use crate::markup::Markup;

/// The one style of all pages.
const STYLE: &str = include_str!("pages/style.css");

/// A page with its headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtmlPage {
    html: String,
    /// Where the answer to its form may lead beside this controller.
    target: Option<String>,
}

/// The login that a page belongs to.
#[derive(Debug, Clone, Copy)]
pub struct PageContext<'a> {
    /// Its id.
    pub id: &'a str,
    /// The host of the controller, as the browser knows it.
    pub controller: &'a str,
    /// What asks: the id of the client.
    pub client: &'a str,
    /// Where the login ends: the origin of the redirect URI. None: at a device.
    pub origin: Option<&'a str>,
}

impl<'a> PageContext<'a> {
    /// The login with this id, at a controller with this host.
    #[must_use]
    pub fn of<D>(id: &'a str, login: &'a Login<D>, controller: &'a str) -> Self
    where
        D: crate::login::CallerData,
    {
        let origin = match login.purpose() {
            Purpose::Code(request) => Some(request.redirect.origin()),
            Purpose::Device(_) => None,
        };
        Self { id, controller, client: login.client().id(), origin }
    }

    /// The line that says who asks.
    fn line(self, page: Markup) -> Markup {
        let page = page.html("<p class=\"who\">For <b>").text(self.client).html("</b>");
        match self.origin {
            Some(origin) => page.html(" at <b>").text(origin).html("</b></p>"),
            None => page.html(" on another device</p>"),
        }
    }

    /// The beginning of a form that goes to a step of the login.
    fn form(self, page: Markup, action: &'static str) -> Markup {
        page.html("<form method=\"post\" action=\"")
            .html(action)
            .html("\"><input type=\"hidden\" name=\"id\" value=\"")
            .text(self.id)
            .html("\">")
    }
}

impl HtmlPage {
    /// The body.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.html
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> [(&'static str, String); 6] {
        let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
        let target = self.target.as_deref().map(source).unwrap_or_default();
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{style}'; img-src data:; form-action 'self'{target}; \
             frame-ancestors 'none'; base-uri 'none'"
        );
        [
            ("content-type", "text/html; charset=utf-8".to_owned()),
            ("content-security-policy", policy),
            ("cache-control", "no-store".to_owned()),
            ("referrer-policy", "no-referrer".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
            ("x-frame-options", "DENY".to_owned()),
        ]
    }

    /// A page with a title, which is its heading, too.
    fn new(
        title: &'static str,
        controller: &str,
        target: Option<&str>,
        write: impl FnOnce(Markup) -> Markup,
    ) -> Self {
        let page = Markup::default()
            .html("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">")
            .html("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")
            .html("<meta name=\"color-scheme\" content=\"light dark\"><title>")
            .html(title)
            .html(" - ")
            .text(controller)
            .html("</title><style>")
            .html(STYLE)
            .html("</style></head><body><main><h1>")
            .html(title)
            .html("</h1>")
            .with(write)
            .html("</main></body></html>");
        Self { html: page.finish(), target: target.map(str::to_owned) }
    }

    /// A page of a login.
    fn of(
        title: &'static str,
        asking: PageContext<'_>,
        write: impl FnOnce(Markup) -> Markup,
    ) -> Self {
        Self::new(title, asking.controller, asking.origin, |page| write(asking.line(page)))
    }
}

/// What went wrong at the last try, for the fields to refer to.
fn error(page: Markup, error: Option<&str>) -> Markup {
    match error {
        Some(error) => {
            page.html("<p class=\"error\" role=\"alert\" id=\"error\">").text(error).html("</p>")
        }
        None => page,
    }
}

/// An origin as a source of `form-action`. A policy cannot name an address of IPv6, so that its scheme stands for it.
fn source(origin: &str) -> String {
    let source = match origin.split_once("//[") {
        Some((scheme, _)) => scheme,
        None => origin,
    };
    // An origin has none of these; a policy would end at them.
    match source.contains([';', ',', ' ']) {
        true => String::new(),
        false => format!(" {source}"),
    }
}

#[cfg(test)]
mod tests;
