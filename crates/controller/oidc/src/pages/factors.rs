//! The pages of factors: name and password, certificate, external token, one-time code.

use super::{HtmlPage, PageContext, error};
use crate::markup::Markup;

/// A signer of external tokens, as its page names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signer<'a> {
    /// Its name.
    pub name: &'a str,
    /// `externalAuthUrl`, where people log in with it.
    pub url: Option<&'a str>,
}

/// The ways to log in of which a page names the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoginMethod {
    Password,
    Certificate,
    Token,
}

/// Name and password.
#[must_use]
pub fn password(asking: PageContext<'_>, said: Option<&str>) -> HtmlPage {
    HtmlPage::of("Log in", asking, |page| {
        let fields = |page: Markup| {
            page.html("<label for=\"username\">Name</label><input id=\"username\" name=\"username\" type=\"text\"")
                .html(" autocomplete=\"username\" autocapitalize=\"none\" spellcheck=\"false\" required autofocus")
                .html(described(said))
                .html("><label for=\"password\">Password</label><input id=\"password\" name=\"password\"")
                .html(" type=\"password\" autocomplete=\"current-password\" required")
                .html(described(said))
                .html("><button type=\"submit\">Log in</button></form>")
        };
        asking
            .form(error(page, said), "/oidc/login/username")
            .with(fields)
            .with(|page| others(page, asking, LoginMethod::Password))
    })
}

/// The certificate of the browser. `shown` is the subject of the one that it showed.
#[must_use]
pub fn certificate(asking: PageContext<'_>, shown: Option<&str>, said: Option<&str>) -> HtmlPage {
    HtmlPage::of("Log in with a certificate", asking, |page| {
        let page = error(page, said);
        let page = match shown {
            Some(subject) => asking
                .form(
                    page.html("<p>Your browser shows the certificate <b>").text(subject).html("</b>.</p>"),
                    "/oidc/login/cert",
                )
                .html("<button type=\"submit\" autofocus>Log in</button></form>"),
            None => page
                .html("<p>Your browser showed no certificate. Install yours in the browser or the system, close all")
                .html(" windows of the browser and begin again.</p>"),
        };
        others(page, asking, LoginMethod::Certificate)
    })
}

/// The token of an external signer. `is_second`: beside another factor.
#[must_use]
pub fn external_token(
    asking: PageContext<'_>,
    signers: &[Signer<'_>],
    is_second: bool,
    said: Option<&str>,
) -> HtmlPage {
    let title = if is_second { "One more proof" } else { "Log in with an external token" };
    HtmlPage::of(title, asking, |page| {
        let page = error(page, said);
        if signers.is_empty() {
            let page = page.html("<p>This network takes no external tokens.</p>");
            return others(page, asking, LoginMethod::Token);
        }
        let page = page
            .html("<p>This network takes tokens of:</p><ul>")
            .each(signers, |page, signer| page.html("<li>").with(|page| named(page, *signer)).html("</li>"))
            .html("</ul><p>It does not log in there for you. Programs that do: <b>weft login --ext-jwt</b>, tunnelers and")
            .html(" SDKs of this network, and its console. If you have a token, paste it here:</p>");
        let page = asking
            .form(page, "/oidc/login/ext-jwt")
            .html("<label for=\"token\">Token</label><textarea id=\"token\" name=\"token\" rows=\"4\" autocomplete=\"off\"")
            .html(" autocapitalize=\"none\" spellcheck=\"false\" required")
            .html(described(said))
            .html("></textarea><button type=\"submit\">Log in</button></form>");
        if is_second { page } else { others(page, asking, LoginMethod::Token) }
    })
}

/// A one-time code, or a recovery code.
#[must_use]
pub fn totp(asking: PageContext<'_>, said: Option<&str>) -> HtmlPage {
    HtmlPage::of("Enter your code", asking, |page| {
        let page = error(page, said).html(
            "<p id=\"hint\">The code of your authenticator app, or one of your recovery codes.</p>",
        );
        code(asking.form(page, "/oidc/login/totp"), said)
    })
}

/// The field of a code, and its button.
pub(super) fn code(page: Markup, said: Option<&str>) -> Markup {
    let describe = if said.is_some() {
        " aria-invalid=\"true\" aria-describedby=\"error hint\""
    } else {
        " aria-describedby=\"hint\""
    };
    page.html("<label for=\"code\">Code</label><input id=\"code\" name=\"code\" type=\"text\" class=\"code\"")
        .html(" autocomplete=\"one-time-code\" autocapitalize=\"characters\" spellcheck=\"false\" maxlength=\"13\"")
        .html(" required autofocus")
        .html(describe)
        .html("><button type=\"submit\">Continue</button></form>")
}

/// The attributes of a field that an error is about.
fn described(said: Option<&str>) -> &'static str {
    if said.is_some() { " aria-invalid=\"true\" aria-describedby=\"error\"" } else { "" }
}

/// The name of a signer, with a link if it has one to a page.
fn named<'a>(page: Markup, signer: Signer<'a>) -> Markup {
    let is_page = |url: &&'a str| {
        let url = url::Url::parse(url);
        url.is_ok_and(|url| matches!(url.scheme(), "https" | "http") && url.has_host())
    };
    match signer.url.filter(is_page) {
        Some(url) => page
            .html("<a rel=\"noreferrer\" href=\"")
            .text(url)
            .html("\">")
            .text(signer.name)
            .html("</a>"),
        None => page.html("<b>").text(signer.name).html("</b>"),
    }
}

/// Links to the other ways to log in.
fn others(page: Markup, asking: PageContext<'_>, this: LoginMethod) -> Markup {
    let ways = [
        (LoginMethod::Password, "/oidc/login/username", "Name and password"),
        (LoginMethod::Certificate, "/oidc/login/cert", "Certificate"),
        (LoginMethod::Token, "/oidc/login/ext-jwt", "External token"),
    ];
    let others = ways.into_iter().filter(|(way, ..)| *way != this);
    page.html("<nav aria-label=\"Other ways to log in\"><ul>")
        .each(others, |page, (_, path, name)| {
            page.html("<li><a href=\"")
                .html(path)
                .html("?authRequestID=")
                .text(asking.id)
                .html("\">")
                .html(name)
                .html("</a></li>")
        })
        .html("</ul></nav>")
}
