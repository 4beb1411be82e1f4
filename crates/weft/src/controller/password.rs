//! `weft controller password`: a new password while the controller is stopped.

use std::path::Path;

use weft_controller::ResetError;
use weft_store::Hold;

use crate::compose::controller::{Core, own_file};
use crate::failure::{Failure, Result};
use crate::{ask, output, weak};

/// Variable of the environment with the new password.
const VARIABLE: &str = "WEFT_NEW_PASSWORD";

/// Sets the password of a login. A password in an argument would be seen in the list of processes, so there
/// is no such argument.
pub(super) async fn set(file: &Path, username: &str) -> Result<()> {
    // A controller that runs is noticed before the password is asked for.
    let held = Hold::take(&own_file(file)?).map_err(|error| {
        Failure::caused_by(&error).during("the password was not changed").and(
            "while the controller runs, an administrator sets it: weft password --identity NAME",
        )
    })?;
    drop(held);
    let password = match std::env::var(VARIABLE) {
        Ok(password) => password,
        Err(_) => {
            let cannot =
                format!("a new password is needed: type it at a terminal, or set {VARIABLE}");
            ask::new_password(username, &cannot).await?
        }
    };
    let core = Core::open_existing(file).await?;
    let done = core.controller().reset_password(username, &password).await;
    let administrators = core.controller().administrators();
    core.close().await?;
    let identity = done.map_err(|error| failure(&error, &administrators))?;
    weak::warn(username, &password);
    output::line(format_args!("the password of `{username}` is set; the identity is `{identity}`"));
    output::line(format_args!("run the controller: weft controller run {}", file.display()));
    Ok(())
}

fn failure(error: &ResetError, administrators: &[String]) -> Failure {
    let failure = match error {
        ResetError::NoLogin(_) => Failure::not_found(error),
        ResetError::NotAllowed(_) | ResetError::Refused(_) => Failure::refused(error),
    };
    let failure = failure.during("the password was not changed");
    match (error, administrators) {
        (ResetError::NoLogin(_), [_, ..]) => {
            failure.and(format!("administrators log in as: {}", administrators.join(", ")))
        }
        _ => failure,
    }
}
