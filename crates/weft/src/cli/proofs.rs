//! The arguments of `weft verify`: proofs that a CA is the operator's, and test traffic.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::printing::Output;
use crate::entity::complete;
use crate::session::LoginChoice;

/// Subcommands of `weft verify`.
#[derive(Debug, Subcommand)]
pub(crate) enum VerifyCommand {
    /// Move data both ways through a throw-away service and measure
    ///
    /// Makes a service, a hosting and a dialing identity, moves data through the overlay with
    /// checksums, prints throughput and round-trip time and removes what it made, also after
    /// Ctrl-C. The identities use the routers that the policies of the network give identities and
    /// services with their attributes.
    Traffic(TrafficArgs),
    /// Prove to the controller that one holds the key of a certificate authority
    Ca(VerifyCaArgs),
}

/// Arguments of `weft verify ca`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weft verify ca partner --ca-cert partner.pem --ca-key partner.key\n  \
                  weft verify ca partner --cert proof.pem\n\n\
                  The proof is a certificate of the authority whose common name is the verification \
                  token that\n`weft show ca NAME` shows. With the key at hand it is made here; the \
                  key is not sent."
)]
pub(crate) struct VerifyCaArgs {
    /// Name or id of the authority
    #[arg(value_name = "NAME", add = complete::names("cas", ""))]
    pub(crate) which: String,
    /// Certificate of the authority with the verification token as its common name (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "ca_cert")]
    pub(crate) cert: Option<PathBuf>,
    /// Certificate of the authority (PEM), to make the proof here
    #[arg(long, value_name = "FILE", requires = "ca_key")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Key of the authority (PEM)
    #[arg(long, value_name = "FILE", requires = "ca_cert")]
    pub(crate) ca_key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Arguments of `weft verify traffic`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft verify traffic\n  \
                  weft verify traffic --identity-attributes staff --host-attributes servers --service-attributes web\n  \
                  weft verify traffic --all-routers      measures a network without policies")]
pub(crate) struct TrafficArgs {
    /// Role attributes of the dialing identity, such as `staff` [default: none]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub(crate) identity_attributes: Vec<String>,
    /// Role attributes of the hosting identity [default: those of the dialing one]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub(crate) host_attributes: Option<Vec<String>>,
    /// Role attributes of the service [default: none]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub(crate) service_attributes: Vec<String>,
    /// Let both identities use every router, whatever the policies of the network say
    #[arg(long)]
    pub(crate) all_routers: bool,
    /// Data to move in each direction, in MiB, at most 1048576
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) size: u32,
    /// Number of round trips that are timed, at most 1000000
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) pings: u32,
    /// Longest time in which no data moves, in seconds, at most 86400; also for a login, the hosting and
    /// a dial as a whole
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) timeout: u32,
    #[command(flatten)]
    pub(crate) output: Output,
    /// The former name of `--output json`
    #[arg(long, hide = true, conflicts_with = "output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}
