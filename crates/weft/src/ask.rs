//! Questions at the terminal.

use std::io::{self, BufRead as _, IsTerminal, Write as _};

use crate::failure::Failure;

/// Asks a question that is answered with yes or no; `cannot` is said when nobody is there to ask.
pub(crate) fn confirm(question: &str, cannot: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(cannot));
    }
    eprint!("{question} [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::new)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// Asks for a new password twice.
pub(crate) fn new_password(of: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "a new password is needed: give --new-password or set WEFT_NEW_PASSWORD",
        ));
    }
    let first = rpassword::prompt_password(format!("New password of {of}: "));
    let first = first.map_err(Failure::new)?;
    let again = rpassword::prompt_password("Once more: ").map_err(Failure::new)?;
    if first == again {
        return Ok(first);
    }
    Err(Failure::usage("the two are not the same; nothing was changed"))
}
