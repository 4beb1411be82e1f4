//! Writes the Rust types of `proto/*.proto` to `generated`: `cargo run -p weft-wire --example proto`.
//!
//! They are written once, and not by each build, which would first have to compile a compiler of such files.

use std::error::Error;
use std::path::{Path, PathBuf};

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
    let folder = folder("generated");
    std::fs::create_dir_all(&folder)?;
    for (name, text) in types(&folder)? {
        std::fs::write(folder.join(&name), text)?;
        println!("crates/wire/generated/{name}");
    }
    Ok(())
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The names and texts of the files of types, which are made in a folder.
fn types(made_in: &Path) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let proto = folder("proto");
    let descriptions = files_in(&proto)?;
    let descriptors = protox::compile(&descriptions, [&proto])?;
    prost_build::Config::new()
        .btree_map(["."])
        .bytes(["."])
        .skip_debug(SECRET)
        .type_attribute(PRECEDENCE, "#[derive(serde::Deserialize)]")
        .type_attribute(PRECEDENCE, "#[serde(rename_all = \"lowercase\")]")
        .out_dir(made_in)
        .compile_fds(descriptors)?;
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, std::fs::read_to_string(path)?))
    };
    files_in(made_in)?.into_iter().map(read).collect()
}

fn files_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?;
    let files: std::io::Result<Vec<PathBuf>> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    files.map(|mut files| {
        files.sort();
        files
    })
}

#[test]
fn the_types_are_those_of_the_descriptions() {
    let made_in = tempfile::tempdir().unwrap();
    let made = types(made_in.path()).unwrap();
    let kept = files_in(&folder("generated")).unwrap();
    assert_eq!(made.len(), kept.len());
    for (name, text) in made {
        let kept = std::fs::read_to_string(folder("generated").join(&name)).unwrap();
        assert!(kept == text, "{name} is old: cargo run -p weft-wire --example proto");
    }
}
