//! Networks in databases that the tests write, as the original lays them out.

mod hostile;
mod json;
mod kinds;
mod layouts;
mod losses;
mod network;
mod original;
mod raft_log;
mod sessions;
#[path = "../../bolt/src/tests/writer.rs"]
#[allow(dead_code, reason = "the tests of the reader use all of it")]
mod writer;

use network::Network;
use weft_bolt::Bolt;

use crate::{Import, ImportError};

/// What weft takes of a network, from a file with it.
fn import(network: &Network) -> Result<Import, ImportError> {
    import_bytes(&network.bytes())
}

fn import_bytes(bytes: &[u8]) -> Result<Import, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ctrl.db");
    std::fs::write(&path, bytes).unwrap();
    Import::read(&Bolt::open(&path)?)
}

/// The reasons of the losses of an entity, each with its field.
fn reasons(import: &Import, id: &str) -> Vec<String> {
    let own = import.losses.iter().filter(|loss| loss.id == id);
    own.map(|loss| format!("{}: {}", loss.field, loss.reason)).collect()
}
