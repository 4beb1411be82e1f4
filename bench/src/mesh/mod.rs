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

use crate::scale::Figure;

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
    /// Seconds that one figure of dials should take
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// The same number, the same network
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A small mesh and short runs: whether everything works, not how fast
    #[arg(long)]
    quick: bool,
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
            routers: self.routers.min(40),
            links: self.links.min(400),
            circuits: self.circuits.min(500),
            seconds: self.seconds.min(0.3),
            ..self
        }
    }
}

/// Runs everything.
pub(crate) async fn run(options: Options) -> io::Result<Vec<Figure>> {
    let options = options.sized();
    let mut figures = measure::ladder(&options).await?;
    figures.extend(measure::large(&options).await?);
    Ok(figures)
}
