//! Measures one controller with a large network: durable creates, lists, reads, changes of
//! policies, memory, start and size, in one run and one table.
//!
//! ```text
//! quickstart makes a home  ->  fill writes a seeded network into its file
//!                          ->  `weft controller run` is started on it, a process of its own
//!                          ->  figures over HTTPS connections that stay open
//!                          ->  sessions and routers are written in, it is started again, and
//!                              routers that only talk to their controller connect
//! ```

mod asks;
mod client;
mod data_model;
mod figures;
mod fill;
mod peer;
mod report;
mod server;
mod sessions;

use std::{io, path::PathBuf, time::Duration};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use fill::Dice;
pub(crate) use report::{Aim, Figure, table};

use self::{figures::Bed, fill::Network, server::Home};

/// How large the network is and how long to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Identities, each with a certificate, three attributes and what its SDK told
    #[arg(long, default_value_t = 100_000)]
    identities: u32,
    /// Services, each with two configs
    #[arg(long, default_value_t = 5_000)]
    services: u32,
    /// Policies of all three kinds
    #[arg(long, default_value_t = 2_000)]
    policies: u32,
    /// Edge routers
    #[arg(long, default_value_t = 200)]
    routers: u32,
    /// The same number, the same network
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds that one figure of creates should take
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Requests behind each percentile
    #[arg(long, default_value_t = 400)]
    requests: usize,
    /// A small network and short runs: whether everything works, not how fast
    #[arg(long)]
    quick: bool,
    /// Only figures whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Keep the network here; one that is there already is not filled again
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// The sizes of `--quick` in place of those that were given.
    fn sized(self) -> Self {
        if !self.quick {
            return self;
        }
        Self {
            identities: self.identities.min(2_000),
            services: self.services.min(100),
            policies: self.policies.min(100),
            routers: self.routers.min(10),
            requests: self.requests.min(40),
            seconds: self.seconds.min(0.5),
            ..self
        }
    }
}

/// Runs everything.
pub(crate) async fn run(options: Options) -> io::Result<Vec<Figure>> {
    let options = options.sized();
    let network = Network::of(&options);
    let progress = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        progress.set_style(style);
    }
    progress.enable_steady_tick(Duration::from_millis(200));
    progress.set_message("making a home");
    let home = Home::make(options.home.as_deref()).await?;
    let empty = home.resident_when_empty().await?;
    if home.is_filled() {
        progress.suspend(|| eprintln!("{} is filled already", home.root().display()));
    } else {
        let file = home.database();
        let (network, progress) = (network.clone(), progress.clone());
        let filled = tokio::task::spawn_blocking(move || fill::fill(&file, &network, &progress));
        filled.await.map_err(io::Error::other)??;
        home.mark_filled()?;
    }
    figures::all(Bed { options, network, home, empty, progress }).await
}
