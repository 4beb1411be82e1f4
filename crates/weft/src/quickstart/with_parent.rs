//! `weft with-parent`: becomes another program, which the kernel tells to stop when the parent process ends.
//!
//! Programs of weft see the end of their input instead ([`super::children`]).

use crate::cli::WithParentArgs;
use crate::failure::Failure;

/// Becomes the program. Returns only if that fails.
#[cfg(unix)]
pub(crate) fn with_parent(args: &WithParentArgs) -> Failure {
    use std::os::unix::process::CommandExt as _;
    let Some((program, rest)) = args.command.split_first() else {
        return Failure::usage("name a program");
    };
    if let Err(error) = end_with(args.parent) {
        return error;
    }
    let error = std::process::Command::new(program).args(rest).exec();
    Failure::new(format!("{}: {error}", program.display()))
}

#[cfg(not(unix))]
pub(crate) fn with_parent(_: &WithParentArgs) -> Failure {
    Failure::new("this system has no signals; start the program by itself")
}

/// Asks the kernel for SIGTERM at the end of the parent, where the kernel can do that.
#[cfg(target_os = "linux")]
fn end_with(parent: u32) -> Result<(), Failure> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| Failure::new(format!("cannot follow the parent process: {error}")))?;
    // It may have ended before.
    let now = getppid().map(|id| id.as_raw_nonzero().get().cast_unsigned());
    match now == Some(parent) {
        true => Ok(()),
        false => Err(Failure::new("the parent process has ended")),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn end_with(_: u32) -> Result<(), Failure> {
    Ok(())
}
