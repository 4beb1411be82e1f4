//! Logins on the pages of the controller: in a browser of this machine, or in any browser with a code.

use std::process::{Command, Stdio};

use weft_client::{BrowserLogin, DeviceLogin, DevicePrompt, Error, SavedLogin, SavedTokens};

use crate::failure::{Failure, Result};
use crate::output;

/// Lets a person log in on the pages of the controller, in a browser of this machine.
pub(super) async fn in_browser(login: &SavedLogin) -> Result<SavedTokens> {
    let waiting = BrowserLogin::begin(&login.address()?, &login.tls()?).await?;
    match opened(waiting.url()) {
        true => {
            output::say(
                "the login goes on in the browser; if no page has opened, open this address on this machine:",
            );
        }
        false => {
            output::say(
                "open this address in a browser of this machine (or log in with --device on another one):",
            );
        }
    }
    output::say(format!("  {}", waiting.url()));
    output::say("waiting for the login; Ctrl-C gives it up");
    waiting.finish().await.map_err(|error| refused(error, login))
}

/// Lets a person log in on the pages of the controller in any browser, with a code.
pub(super) async fn by_device(login: &SavedLogin) -> Result<SavedTokens> {
    let begun = DeviceLogin::begin(&login.address()?, &login.tls()?).await;
    let waiting = begun.map_err(|error| refused(error, login))?;
    show(waiting.prompt());
    output::say("waiting for the login; Ctrl-C gives it up");
    waiting.finish().await.map_err(|error| refused(error, login))
}

/// Shows a person where to log in, and the code.
pub(crate) fn show(prompt: &DevicePrompt) {
    let minutes = prompt.expires_in.as_secs().div_ceil(60);
    output::say(format!("to log in, open {} in any browser", prompt.url));
    output::say(format!("and enter the code {} within {minutes} min", prompt.code));
    if let Some(url) = &prompt.whole_url {
        output::say(format!("the address with the code in it: {url}"));
    }
}

/// Why nobody logged in.
fn refused(error: Error, login: &SavedLogin) -> Failure {
    let controller = &login.controller;
    match &error {
        Error::Provider(refusal) => match refusal.error.as_str() {
            "access_denied" => Failure::refused(format!("the login at {controller} was refused in the browser")),
            "expired_token" => Failure::refused("nobody has logged in before the code ended")
                .and("hint: the same command shows a new code"),
            _ => Failure::refused(refusal).during(format!("{controller} refused the login")),
        },
        error if error.is_not_found() => Failure::refused(format!(
            "{controller} serves no logins by OpenID Connect"
        ))
        .and("hint: its file may turn them off (`disableOidcAutoBinding`); log in with a password, a certificate or --ext-jwt"),
        _ => Failure::from(error).during(format!("cannot log in to {controller}")),
    }
}

/// Opens an address in a browser; false if this machine seems to have none.
fn opened(url: &str) -> bool {
    let (program, before): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else {
        let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
        if !has_screen {
            return false;
        }
        ("xdg-open", &[])
    };
    let begun = Command::new(program)
        .args(before)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match begun {
        Ok(mut child) => {
            // The browser may stay; a zombie of the program that opened it must not.
            std::thread::spawn(move || child.wait());
            true
        }
        Err(_) => false,
    }
}
