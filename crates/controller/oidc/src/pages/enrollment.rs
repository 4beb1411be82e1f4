//! The pages of an enrollment of one-time codes within a login.

use super::factors::code;
use super::{HtmlPage, PageContext, error};

/// An enrollment that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TotpEnrollment<'a> {
    /// The provisioning URL: `otpauth://..`.
    pub url: &'a str,
    /// The secret in it, for people who type it.
    pub secret: &'a str,
    /// The URL as a QR code: `data:image/png;base64,..`. Anything else is left out.
    pub qr: &'a str,
}

/// One-time codes are required, and the identity has none yet.
#[must_use]
pub fn start_enrollment(asking: PageContext<'_>, said: Option<&str>) -> HtmlPage {
    HtmlPage::of("Set up one-time codes", asking, |page| {
        let page = error(page, said)
            .html("<p>Your network asks for a code of an authenticator app at each login. Have the app ready.</p>");
        asking
            .form(page, "/oidc/login/totp/enroll")
            .html("<button type=\"submit\" autofocus>Set up</button></form>")
    })
}

/// The code to be scanned, and the field for its first one-time code.
#[must_use]
pub fn enroll(
    asking: PageContext<'_>,
    enrollment: TotpEnrollment<'_>,
    said: Option<&str>,
) -> HtmlPage {
    HtmlPage::of("Set up one-time codes", asking, |page| {
        let page = page.html("<ol><li>Scan this with your authenticator app, or <a href=\"");
        let page = match enrollment.url.starts_with("otpauth://") {
            true => page.text(enrollment.url),
            false => page,
        };
        let page = page
            .html("\">open it on this device</a>, or type the key <b class=\"code\">")
            .text(enrollment.secret)
            .html("</b>.</li><li id=\"hint\">Enter the code that the app shows.</li></ol>");
        let page = match enrollment.qr.starts_with("data:image/png;base64,") {
            true => page
                .html("<img alt=\"QR code of the key above\" src=\"")
                .text(enrollment.qr)
                .html("\">"),
            false => page,
        };
        code(asking.form(error(page, said), "/oidc/login/totp/enroll/verify"), said)
    })
}

/// The recovery codes after an enrollment. `next` is a path of this provider that the login continues at.
#[must_use]
pub fn recovery_codes(asking: PageContext<'_>, codes: &[String], next: &str) -> HtmlPage {
    let next = if next.starts_with("/oidc/") { next } else { "/oidc/logged-out" };
    HtmlPage::of("Keep your recovery codes", asking, |page| {
        page.html("<p>Each of these codes replaces a one-time code once, if you lose your app. Keep them where only you")
            .html(" find them. They are not shown again.</p><ul class=\"codes code\">")
            .each(codes, |page, code| page.html("<li>").text(code).html("</li>"))
            .html("</ul><p><a href=\"")
            .text(next)
            .html("\">Continue</a></p>")
    })
}
