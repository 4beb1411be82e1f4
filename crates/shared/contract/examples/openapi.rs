//! Writes the descriptions of the APIs to `docs/api`: `cargo run -p weft-contract --example openapi`.

use std::path::Path;

use weft_contract::openapi::SPECS;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/api");
    std::fs::create_dir_all(&folder)?;
    for spec in &SPECS {
        std::fs::write(folder.join(spec.file()), spec.text())?;
        println!("docs/api/{}", spec.file());
    }
    Ok(())
}
