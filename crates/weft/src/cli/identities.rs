//! What concerns one identity: its enrollment, its password, its own configs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::Output;
use crate::{entity::complete, session::Session};

/// Whose enrollment token.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft jwt identity laptop -o laptop.jwt\n  weft jwt network")]
pub(crate) struct JwtArgs {
    #[command(subcommand)]
    pub(crate) of: JwtOf,
    /// Write it to this file instead of printing it
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath, global = true)]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite a file that exists
    #[arg(long, global = true)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// What has an enrollment token.
#[derive(Debug, Subcommand)]
pub(crate) enum JwtOf {
    /// Of an identity that is not enrolled yet
    Identity {
        /// Name or id
        #[arg(value_name = "NAME", add = complete::names("identities", ""))]
        which: String,
    },
    /// Of an edge router that is not enrolled yet
    EdgeRouter {
        /// Name or id
        #[arg(value_name = "NAME", add = complete::names("edge-routers", ""))]
        which: String,
    },
    /// Of a transit router that is not enrolled yet
    TransitRouter {
        /// Name or id
        #[arg(value_name = "NAME", add = complete::names("transit-routers", ""))]
        which: String,
    },
    /// Of an enrollment
    Enrollment {
        /// Id
        #[arg(value_name = "ID")]
        which: String,
    },
    /// Of a certificate authority whose identities enroll by themselves
    Ca {
        /// Name or id
        #[arg(value_name = "NAME", add = complete::names("cas", ""))]
        which: String,
    },
    /// Of the whole network
    Network,
}

/// Whose password, and which.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft password                    one's own\n  \
                  weft password --identity alice   that of another, who gets one if there is none")]
pub(crate) struct PasswordArgs {
    /// Name or id of an identity [default: who is logged in]
    #[arg(long, short = 'i', value_name = "NAME", add = complete::names("identities", ""))]
    pub(crate) identity: Option<String>,
    /// The login name it goes with
    #[arg(long, short = 'u', value_name = "NAME", requires = "identity")]
    pub(crate) username: Option<String>,
    /// One's own password as it is; asked for when absent
    #[arg(long, value_name = "PASSWORD", env = "WEFT_PASSWORD", hide_env_values = true)]
    pub(crate) current_password: Option<String>,
    /// The password as it shall be; asked for when absent
    #[arg(long, value_name = "PASSWORD", env = "WEFT_NEW_PASSWORD", hide_env_values = true)]
    pub(crate) new_password: Option<String>,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// Configs of one identity alone.
#[derive(Debug, Args)]
pub(crate) struct OverrideArgs {
    #[command(subcommand)]
    pub(crate) command: OverrideCommand,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// What to do with the configs of one identity alone.
#[derive(Debug, Subcommand)]
pub(crate) enum OverrideCommand {
    /// Show them
    List {
        /// Name or id of the identity
        #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
        identity: String,
    },
    /// Let the identity see a config for a service instead of the service's own of that type
    Set {
        /// Name or id of the identity
        #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
        identity: String,
        /// Name or id of the service
        #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
        service: String,
        /// Name or id of the config
        #[arg(value_name = "CONFIG", add = complete::names("configs", ""))]
        config: String,
    },
    /// Let it see the service's own again
    Remove {
        /// Name or id of the identity
        #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
        identity: String,
        /// Name or id of the service
        #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
        service: String,
        /// Name or id of the config
        #[arg(value_name = "CONFIG", add = complete::names("configs", ""))]
        config: String,
    },
}

/// Which token to enroll, and where the identity goes.
#[derive(Debug, Args)]
pub(crate) struct EnrollArgs {
    /// File with the enrollment token
    #[arg(value_name = "TOKENFILE")]
    pub(crate) jwt: PathBuf,
    /// Identity file to write [default: the token file with the ending .json]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite an identity file that exists
    #[arg(long)]
    pub(crate) force: bool,
}
