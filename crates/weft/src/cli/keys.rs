//! The arguments of `weft keys`, which replaces the keys that sign tokens.

use clap::{Args, Subcommand};

use super::printing::Output;
use crate::session::LoginChoice;

/// Arguments of `weft keys`.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Subcommands of `weft keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List the keys that sign tokens, and say when the next one signs
    List,
    /// Let the next key sign
    ///
    /// Nobody is logged out: tokens of the former key are good until they end, and clients get tokens of the new key with
    /// their next refresh. The controller does the same by a schedule (edge.tokenKeys.rollEvery).
    ///
    /// With --stolen the key counts no more at once, at the controller and at routers: all its tokens are refused, and
    /// sessions with such tokens end with their circuits. The key that was to sign next is dropped, too, because it was kept
    /// in the same place.
    #[command(after_help = "Examples:\n  weft keys roll\n  weft keys roll --stolen\n  \
                      weft keys roll --stolen --key 5f0c...    a former key, by its id")]
    Roll {
        /// The signing key was stolen: drop it and all that it signed
        #[arg(long)]
        stolen: bool,
        /// The key that was stolen [default: the signing one]
        #[arg(long, value_name = "ID", requires = "stolen")]
        key: Option<String>,
    },
}
