//! Measures one controller with a large network: durable creates, lists, reads, changes of
//! policies, memory, start and size, in one run and one table.
//!
//! ```text
//! quickstart makes a home  ->  fill writes a seeded network into its file
//!                          ->  `weft controller run` is started on it, a process of its own
//!                          ->  figures over HTTPS connections that stay open
//!                          ->  sessions and routers are written in, it is started again, and
//!                              routers that only talk to their controller connect
//!                          ->  logins by both protocols, and the end of 100,000 sessions by tokens
//! ```

mod asks;
mod bed;
mod client;
mod data_model;
mod figures;
mod fill;
mod logins;
mod options;
mod peer;
mod report;
mod server;
mod sessions;
mod sessions_end;

use std::io;
use std::time::Duration;

pub(crate) use bed::millis;
pub(crate) use fill::Dice;
use indicatif::{ProgressBar, ProgressStyle};
pub(crate) use options::Options;
pub(crate) use report::{Aim, Figure, table};

use self::bed::Bed;
use self::fill::Network;
use self::server::Home;

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
