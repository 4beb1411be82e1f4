//! Compiles `proto/*.proto`, without protoc, to the Rust types that `src/proto.rs` includes.

use std::error::Error;
use std::path::PathBuf;

/// Messages with secrets in them: their `Debug` is written by hand and leaves those out.
const SECRET: [&str; 13] = [
    "weft.ctrl.CreateTerminatorRequest",
    "weft.edge_ctrl.ApiSession",
    "weft.edge_ctrl.ApiSessionRemoved",
    "weft.edge_ctrl.ApiSessionHeartbeat",
    "weft.edge_ctrl.SessionRemoved",
    "weft.edge_ctrl.ValidateSessionsRequest",
    "weft.edge_ctrl.CreateCircuitRequest",
    "weft.edge_ctrl.CreateTerminatorV2Request",
    "weft.edge_ctrl.UpdateTerminatorRequest",
    "weft.edge_ctrl.RemoveTerminatorRequest",
    "weft.edge_ctrl.HealthEventRequest",
    "weft.edge_ctrl.CreateTunnelTerminatorRequestV2",
    "weft.edge_client.TotpToken",
];

/// The enumeration whose values are also in configs, as words.
const PRECEDENCE: &str = "weft.ctrl.TerminatorPrecedence";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut files: Vec<PathBuf> = std::fs::read_dir("proto")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    files.sort();
    let descriptors = protox::compile(&files, ["proto"])?;
    prost_build::Config::new()
        .btree_map(["."])
        .bytes(["."])
        .skip_debug(SECRET)
        .type_attribute(PRECEDENCE, "#[derive(serde::Deserialize)]")
        .type_attribute(PRECEDENCE, "#[serde(rename_all = \"lowercase\")]")
        .compile_fds(descriptors)?;
    Ok(())
}
