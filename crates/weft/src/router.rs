//! `weft router`: runs and maintains a router.

mod new_file;

use std::path::Path;
use std::time::Duration;

use weft_config::{RouterConfig, section_order};
use weft_router::enroll::{EnrollError, enroll as enroll_router};

use crate::agent::DebugOps;
use crate::cli::{RouterCommand, Variables};
use crate::enroll::read_token;
use crate::explain::explain;
use crate::failure::{Failure, Result};
use crate::output::{self, Format};
use crate::signals::{self, until_interrupted};
use crate::{check, compose};

/// Runs the subcommand.
pub(crate) async fn router(command: RouterCommand) -> Result<()> {
    match command {
        RouterCommand::Enroll { file, jwt } => until_interrupted(enroll(&file, &jwt)).await,
        RouterCommand::Run { file, grace, agent, debug_ops, exit_with_parent, log: _ } => {
            let stop = signals::first_of_service()?;
            if exit_with_parent {
                signals::parent(&stop)?;
            }
            let grace = Duration::from_secs(grace);
            let debug_ops = if debug_ops { DebugOps::Allowed } else { DebugOps::Refused };
            compose::router::run(&file, grace, (&agent, debug_ops), &stop).await
        }
        RouterCommand::Check { file, variables, output } => {
            check_file(&file, variables, output.format())
        }
        RouterCommand::Explain { file, variables, output } => {
            let examined = RouterConfig::examine_path(&file)?;
            explain(examined, section_order, variables, output.format())
        }
        RouterCommand::Config(args) => new_file::write(&args),
    }
}

/// Reports everything that is wrong with a file.
fn check_file(file: &Path, variables: Variables, format: Format) -> Result<()> {
    let examined = RouterConfig::examine_path(file);
    let mut examined = examined.map_err(|error| check::unreadable(file, error, format))?;
    check::router(&mut examined, variables.purpose());
    if !variables.show_variables {
        examined.hide_variables();
    }
    check::report(&examined, format)
}

async fn enroll(file: &Path, jwt: &Path) -> Result<()> {
    let token = read_token(jwt)?;
    let config = compose::router::load(file)?;
    let enrolled = enroll_router(&config, &token).await.map_err(not_enrolled)?;
    output::line(format!("enrolled router {}", enrolled.id));
    output::line(format!("it will look for controllers at {}", enrolled.endpoints.join(", ")));
    output::line(format!("run it: weft router run {}", file.display()));
    Ok(())
}

/// Why a router was not enrolled: refused by the controller, for want of something in the file, or of the controller.
fn not_enrolled(error: EnrollError) -> Failure {
    match error {
        EnrollError::Spent(_) | EnrollError::Expired(_) => Failure::refused(error),
        EnrollError::NoCsr
        | EnrollError::NotAFile { .. }
        | EnrollError::ServerKey { .. }
        | EnrollError::NoEndpoints => Failure::usage(error),
        EnrollError::Client(error) => error.into(),
        other => Failure::caused_by(&other),
    }
}
