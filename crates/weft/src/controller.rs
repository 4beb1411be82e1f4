//! `weft controller`: sets up, runs and maintains a controller.

mod import;
mod join;
mod moving;
mod new_file;
mod password;
mod restoring;

use std::path::Path;

pub(crate) use new_file::NewController;
use weft_config::ControllerConfig;

use crate::check::{self, Purpose};
use crate::cli::{ControllerCommand, ImportRequest, Variables};
use crate::compose::controller::{Core, Reach};
use crate::explain::explain;
use crate::failure::{Failure, Result};
use crate::output::{self, Format};
use crate::signals::{self, until_interrupted};
use crate::{ask, compose, weak};

/// Runs the subcommand.
pub(crate) async fn controller(command: ControllerCommand) -> Result<()> {
    match command {
        ControllerCommand::Config(args) => new_file::write(&args),
        ControllerCommand::Renew { home, address } => new_file::renew(&home, &address),
        ControllerCommand::Init { file, username, password, name } => {
            until_interrupted(async {
                let password = match password {
                    Some(password) => password,
                    None => ask::password(&username).await?,
                };
                Box::pin(init(&file, &name, &username, &password)).await
            })
            .await
        }
        ControllerCommand::Run { file, offline, agent, exit_with_parent, log: _ } => {
            let stop = signals::first_of_service()?;
            if exit_with_parent {
                signals::parent(&stop)?;
            }
            let reach = if offline { Reach::Loopback } else { Reach::Everywhere };
            Box::pin(compose::controller::run(&file, reach, &agent, &stop)).await
        }
        ControllerCommand::Check { file, variables, output } => {
            check_file(&file, variables, output.format())
        }
        ControllerCommand::Explain { file, variables, output } => {
            let examined = ControllerConfig::examine_path(&file)?;
            let order = examined.facts.section_order();
            explain(examined, order, variables, output.format())
        }
        ControllerCommand::Join(args) => until_interrupted(join::join(&args)).await,
        // An interruption ends the program, as a crash would: the move is made again then.
        ControllerCommand::Move(args) => moving::moved(&args).await,
        ControllerCommand::Leave { file } => until_interrupted(leave(&file)).await,
        ControllerCommand::Password { file, username } => {
            until_interrupted(password::set(&file, &username)).await
        }
        ControllerCommand::Import(command) => match command.into_request()? {
            ImportRequest::Import(args) => until_interrupted(Box::pin(import::run(&args))).await,
            ImportRequest::Compare(compare, format) => {
                until_interrupted(Box::pin(import::compare(&compare, format))).await
            }
        },
        ControllerCommand::Restore(args) => Box::pin(restoring::restore(&args)).await,
    }
}

/// Reports everything that is wrong with a file.
fn check_file(file: &Path, variables: Variables, format: Format) -> Result<()> {
    let examined = ControllerConfig::examine_path(file);
    let mut examined = examined.map_err(|error| check::unreadable(file, error, format))?;
    check::controller(&mut examined, variables.purpose());
    if !variables.show_variables {
        examined.hide_variables();
    }
    check::report(&examined, format)
}

async fn init(file: &Path, name: &str, username: &str, password: &str) -> Result<()> {
    let core = Core::open(file, Purpose::Advice).await?;
    let made = make_admin(&core, name, username, password).await;
    core.close().await?;
    made?;
    output::line(format_args!("the controller is ready; its administrator is `{username}`"));
    output::line(format_args!("run it: weft controller run {}", file.display()));
    Ok(())
}

/// Takes a controller that is stopped out of the lists of its network.
async fn leave(file: &Path) -> Result<()> {
    let core = Box::pin(Core::open_existing(file)).await?;
    let is_member = core.controller().auth().is_member();
    let left = core.controller().auth().leave().await;
    core.close().await?;
    if !is_member {
        return Err(Failure::usage(format!(
            "{} has no section `cluster`: the controller is alone",
            file.display()
        )));
    }
    left.map_err(|error| Failure::new(error).during("the controller has not left"))?;
    output::line(
        "clients and routers are not told of this controller any more; its tokens are good until they end",
    );
    output::line(format_args!("it comes back with: weft controller run {}", file.display()));
    Ok(())
}

/// Creates the administrator of a new controller.
pub(crate) async fn make_admin(
    core: &Core,
    name: &str,
    username: &str,
    password: &str,
) -> Result<()> {
    if core.controller().has_default_admin() {
        return Err(Failure::new(
            "already initialized: there is an administrator, nothing changed",
        ));
    }
    let made = core.controller().init_admin(name, username, password).await;
    weak::warn(username, password);
    made.map(drop).map_err(|error| Failure::new(error).during("the administrator was not made"))
}
