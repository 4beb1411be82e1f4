//! The arguments of `weft cluster`, which is about the controllers of a network.

use clap::{Args, Subcommand};

use super::printing::Output;
use crate::session::LoginChoice;

/// Arguments of `weft cluster`.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Subcommands of `weft cluster`.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// List the controllers: which are online, which one leads, and how far each has come
    List,
    /// Say whether the controller that is asked can write, and how the members of etcd are
    ///
    /// The exit status is 1 if something is not well: the controller cannot write, another one or a member of etcd is away.
    Status,
    /// Let one further controller join, once, within ten minutes
    ///
    /// Prints a token for `weft controller join`, which makes the folder of the new controller on its own machine. Whoever
    /// has the token can become a controller of the network: hand it on as you would a root password.
    #[command(after_help = "Example:\n  weft cluster invite two > two.token          here\n  \
                            weft controller join two.token --home ./two --address two.example    there")]
    Invite {
        /// Name of the new controller
        name: String,
    },
    /// Take a controller out of the network: its keys count no more
    ///
    /// The controller ends, and cannot come back by itself. If its machine was stolen, docs/cluster.md says what else to
    /// do. A controller that is not needed any more is stopped, and leaves: `weft controller leave`.
    #[command(after_help = "Example:\n  weft cluster remove two")]
    Remove {
        /// Name of the controller
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Use the newest format of stored data, once every controller has a program that reads it
    ///
    /// A newer weft reads what older ones write, and writes it so that they read it, until you say this: then older
    /// programs cannot be controllers of the network any more. A network in a file is upgraded in the same way.
    #[command(
        after_help = "Example:\n  weft cluster status     says when all controllers read a newer format\n  weft cluster upgrade"
    )]
    Upgrade {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Let a controller that was removed by mistake come back
    #[command(after_help = "Example:\n  weft cluster readmit two")]
    Readmit {
        /// Name of the controller
        name: String,
    },
}
