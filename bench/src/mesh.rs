//! Measures one controller with the mesh of a large network: circuits per second, the cost of
//! losing a link that carries most circuits, and memory, in one run and one table.
//!
//! Controller and routers are in this process. The routers are simulated: they carry no data, but
//! each has a control channel over TLS, and every message is encoded, sent, read and decoded. The
//! cost of these routers is in all figures; a controller alone is faster.

mod lost;
mod measure;
mod options;
mod plan;
mod router;
mod world;

use std::io;

pub(crate) use options::Options;

use crate::scale::Figure;

/// Runs everything.
pub(crate) async fn run(options: Options) -> io::Result<Vec<Figure>> {
    let mut figures = measure::ladder(&options).await?;
    figures.extend(measure::large(&options).await?);
    Ok(figures)
}
