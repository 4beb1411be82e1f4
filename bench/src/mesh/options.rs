//! The size of the mesh and the length of measurements.

use clap::Args;

use crate::options::Run;

/// The size of the mesh and the length of measurements.
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
    pub(super) dialers: usize,
    #[command(flatten)]
    pub(crate) run: Run,
}

impl Options {
    pub(super) fn routers(&self) -> usize {
        self.run.at_most(self.routers, 40)
    }

    pub(super) fn links(&self) -> usize {
        self.run.at_most(self.links, 400)
    }

    pub(super) fn circuits(&self) -> usize {
        self.run.at_most(self.circuits, 500)
    }

    pub(super) fn seconds(&self) -> f64 {
        self.run.seconds(0.3)
    }
}
