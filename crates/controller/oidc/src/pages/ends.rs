//! Pages on which a login or a session ends.

use super::{HtmlPage, error};

/// The question whether a session is to end. `confirm` is that of [`confirmation`](crate::end_session::confirmation); the
/// other parameters are those of the request, which the answer repeats; `target` is the origin that the browser goes to.
#[must_use]
pub fn end_question(
    controller: &str,
    identity: &str,
    parameters: &[(&str, &str)],
    confirm: &str,
    target: Option<&str>,
) -> HtmlPage {
    HtmlPage::new("Log out?", controller, target, |page| {
        page.html("<p>A program asks to end a session of <b>")
            .text(identity)
            .html("</b>.</p><form method=\"post\" action=\"/oidc/end_session\">")
            .each([("confirm", confirm)].iter().chain(parameters), |page, (name, value)| {
                page.html("<input type=\"hidden\" name=\"")
                    .text(name)
                    .html("\" value=\"")
                    .text(value)
                    .html("\">")
            })
            .html("<button type=\"submit\">Log out</button></form><p><a href=\"/oidc/logged-out?kept=1\">Stay logged in</a></p>")
    })
}

/// After a logout. `has_ended`: a session ended.
#[must_use]
pub fn logged_out(controller: &str, has_ended: bool) -> HtmlPage {
    let title = if has_ended { "You are logged out" } else { "Nothing was changed" };
    HtmlPage::new(title, controller, None, |page| page.html("<p>You can close this page.</p>"))
}

/// The login was begun elsewhere, or is over. Nothing of it is shown.
#[must_use]
pub fn elsewhere(controller: &str) -> HtmlPage {
    HtmlPage::new("This login is not yours to continue", controller, None, |page| {
        page.html("<p>It was begun in another browser or program, or it is over, or your browser takes no cookies. If")
            .html(" somebody sent you the address of this page, they may want to log in as you.</p>")
            .html("<p>Begin again in the program that you want to use.</p>")
    })
}

/// Something went wrong.
#[must_use]
pub fn problem(controller: &str, said: &str) -> HtmlPage {
    HtmlPage::new("This did not work", controller, None, |page| {
        error(page, Some(said)).html("<p>Begin again in the program that you want to use.</p>")
    })
}
