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

pub(crate) use figures::millis;
pub(crate) use fill::Dice;
pub(crate) use report::{Aim, Figure, table};

use crate::options::Run;

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
    /// Requests behind each percentile
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Only figures whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Keep the network here; one that is there already is not filled again
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: Run,
}

impl Options {
    fn seconds(&self) -> f64 {
        self.run.seconds(0.5)
    }
}

/// Runs everything.
pub(crate) async fn run(options: Options) -> io::Result<Vec<Figure>> {
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
