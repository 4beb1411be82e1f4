//! The pages of a login for a device without a browser.

use std::net::IpAddr;

use super::{HtmlPage, PageContext, error};
use crate::device::{DeviceRequest, UserCode};

/// The field for the code that the device shows, filled in with `code` if that was in the address.
#[must_use]
pub fn device_code(controller: &str, code: Option<&UserCode>, said: Option<&str>) -> HtmlPage {
    HtmlPage::new("Log in a device", controller, None, |page| {
        let invalid = if said.is_some() {
            " aria-invalid=\"true\" aria-describedby=\"error hint\""
        } else {
            " aria-describedby=\"hint\""
        };
        error(page, said)
            .html("<p id=\"hint\">Enter the code that your device or program shows. Do not enter a code that somebody")
            .html(" sent you.</p><form method=\"post\" action=\"/oidc/device\"><label for=\"user_code\">Code</label>")
            .html("<input id=\"user_code\" name=\"user_code\" type=\"text\" class=\"code\" autocomplete=\"off\"")
            .html(" autocapitalize=\"characters\" spellcheck=\"false\" maxlength=\"16\" required autofocus")
            .html(invalid)
            .html(" value=\"")
            .text(&code.map(UserCode::shown).unwrap_or_default())
            .html("\"><button type=\"submit\">Continue</button></form>")
    })
}

/// The question whether a device may act for the identity. `here` is the address of the browser, so that people see whether
/// the device is theirs.
#[must_use]
pub fn consent(
    asking: PageContext<'_>,
    device: &DeviceRequest,
    identity: &str,
    here: IpAddr,
) -> HtmlPage {
    let program = match device.program.as_str() {
        "" => "a program that does not say its name",
        program => program,
    };
    HtmlPage::of("Is this your device?", asking, |page| {
        let page = page
            .html("<dl><dt>Program, as it calls itself</dt><dd><b>")
            .text(program)
            .html("</b></dd><dt>It asks from</dt><dd><b>")
            .text(&device.address.to_canonical().to_string())
            .html("</b></dd><dt>You are at</dt><dd>")
            .text(&here.to_canonical().to_string())
            .html("</dd><dt>It will act as</dt><dd><b>")
            .text(identity)
            .html("</b></dd></dl><p>Agree only if you began this yourself, just now, on a device that you know.</p>");
        asking
            .form(page, "/oidc/device/consent")
            .html("<button type=\"submit\" name=\"decision\" value=\"refuse\" class=\"other\">Refuse</button>")
            .html("<button type=\"submit\" name=\"decision\" value=\"agree\">Agree</button></form>")
    })
}

/// The end of a login for a device.
#[must_use]
pub fn device_done(controller: &str, has_agreed: bool) -> HtmlPage {
    let title = if has_agreed { "The device is logged in" } else { "The device was refused" };
    HtmlPage::new(title, controller, None, |page| page.html("<p>You can close this page.</p>"))
}
