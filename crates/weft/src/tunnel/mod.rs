//! `weft tunnel`, `weft dial`, `weft host`: programs that know nothing of the network, joined with it
//! over the SDK.
//!
//! - [`identities`]: files, tokens and folders on the command line, logged in;
//! - [`intercepting`]: what changes the machine while clients are taken in;
//! - [`run`]: tunnelers that stay; [`status`]: what they do, over a socket of this machine;
//! - [`dial`], [`host`]: one connection, one service; [`explain`]: why it did not work.

mod dial;
mod explain;
mod host;
mod identities;
mod intercepting;
mod run;
mod status;

pub(crate) use dial::dial;
pub(crate) use host::host;

use crate::{cli::TunnelCommand, failure::Failure, until_interrupted};

/// Does what was asked for.
pub(crate) async fn tunnel(command: TunnelCommand) -> Result<(), Failure> {
    match command {
        TunnelCommand::Run(args) => run::run(args.run, Some(args.intercept)).await,
        TunnelCommand::RunHost(args) => run::run(args, None).await,
        TunnelCommand::Proxy(args) => run::proxy(args).await,
        TunnelCommand::Status(args) => until_interrupted(status::status(args)).await,
    }
}
