//! The size of the network and the length of measurements.

use std::path::PathBuf;

use clap::Args;

use crate::options::Run;

/// The size of the network and the length of measurements.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Identities, each with a certificate, three attributes and the facts that its SDK reported
    #[arg(long, default_value_t = 100_000)]
    pub(super) identities: u32,
    /// Services, each with two configs
    #[arg(long, default_value_t = 5_000)]
    pub(super) services: u32,
    /// Policies of all three kinds
    #[arg(long, default_value_t = 2_000)]
    pub(super) policies: u32,
    /// Edge routers
    #[arg(long, default_value_t = 200)]
    pub(super) routers: u32,
    /// Requests behind each percentile
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) requests: u32,
    /// Only figures whose name contains this
    #[arg(long)]
    pub(super) only: Option<String>,
    /// Folder in which the network is kept; a network that is there already is not filled again
    #[arg(long, value_name = "DIR")]
    pub(super) home: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: Run,
}

impl Options {
    pub(super) fn seconds(&self) -> f64 {
        self.run.seconds(0.5)
    }
}
