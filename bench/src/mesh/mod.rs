//! Measures one controller with the mesh of a large network: circuits per second, what a lost link
//! costs that carries most circuits, and memory, in one run and one table.
//!
//! Controller and routers are in this process. The routers are simulated: they carry no data, but
//! each has a control channel over TLS, and every message is encoded, sent, read and decoded. What
//! they cost is in all figures; a controller alone is faster.

mod lost;
mod measure;
mod plan;
mod router;
mod world;

use std::io;

use clap::Args;

use crate::{options::Run, scale::Figure};

/// How large the mesh is and how long to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Routers of the large mesh
    #[arg(long, default_value_t = 2_000)]
    routers: usize,
    /// Links of the large mesh
    #[arg(long, default_value_t = 200_000)]
    links: usize,
    /// Circuits over the link that is lost
    #[arg(long, default_value_t = 100_000)]
    circuits: usize,
    /// Dials at the same time
    #[arg(long, default_value_t = 64)]
    dialers: usize,
    #[command(flatten)]
    pub(crate) run: Run,
}

impl Options {
    fn routers(&self) -> usize {
        self.run.at_most(self.routers, 40)
    }

    fn links(&self) -> usize {
        self.run.at_most(self.links, 400)
    }

    fn circuits(&self) -> usize {
        self.run.at_most(self.circuits, 500)
    }

    fn seconds(&self) -> f64 {
        self.run.seconds(0.3)
    }
}

/// Runs everything.
pub(crate) async fn run(options: Options) -> io::Result<Vec<Figure>> {
    let mut figures = measure::ladder(&options).await?;
    figures.extend(measure::large(&options).await?);
    Ok(figures)
}
