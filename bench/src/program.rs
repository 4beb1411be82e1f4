//! The weft program that is measured, and ports for it.

use std::io;
use std::path::PathBuf;

/// Path of the weft program: the variable `WEFT_BIN`, otherwise beside this program.
pub(crate) fn weft() -> io::Result<PathBuf> {
    if let Some(named) = std::env::var_os("WEFT_BIN") {
        return Ok(named.into());
    }
    let beside = std::env::current_exe()?.with_file_name("weft");
    if beside.exists() {
        return Ok(beside);
    }
    Err(io::Error::other(format!(
        "{} is not built: run `cargo build --release`, or name the program in WEFT_BIN",
        beside.display()
    )))
}

/// A port that is not in use at the moment.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
