//! `weft tunnel`, `weft dial`, `weft host`, `weft traceroute`: connections with the network, over the SDK.
//!
//! - `identities`: files, tokens and folders on the command line, logged in;
//! - `intercepting`: changes of the machine for interception;
//! - `run`: tunnelers; `ending`: their end; `status`: their state, over a local socket;
//! - `dial`: one connection to a service; `host`: one hosted service; `explain`: why one of them failed;
//! - `traceroute`: the hops of a connection.

mod dial;
mod ending;
mod explain;
mod host;
mod identities;
mod intercepting;
mod run;
mod status;
mod traceroute;

pub(crate) use dial::dial;
pub(crate) use host::host;
pub(crate) use traceroute::traceroute;

use crate::cli::TunnelCommand;
use crate::failure::{Failure, Result};
use crate::signals::until_interrupted;

/// Runs the subcommand.
pub(crate) async fn tunnel(command: TunnelCommand) -> Result<()> {
    match command {
        TunnelCommand::Run(args) => run::run(args.run, Some(args.clients)).await,
        TunnelCommand::RunHost(args) => run::run(args, None).await,
        TunnelCommand::Proxy(args) => run::proxy(args).await,
        TunnelCommand::Status(args) if args.watch.is_some() => {
            let watched = until_interrupted(status::status(args)).await;
            watched.map_err(Failure::unsaid_if_interrupted)
        }
        TunnelCommand::Status(args) => until_interrupted(status::status(args)).await,
    }
}
