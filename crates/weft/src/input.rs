//! Files that a person names on the command line: a pipe is one, as in `weft enroll <(pass show token)`, and so is a
//! device by mistake.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest input, in bytes: as large as a document of a network.
const MAX_INPUT: u64 = weft_contract::resource::change::MAX_DOCUMENT as u64;

/// Reads a file whole.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_all(File::open(path)?)
}

/// Reads standard input whole.
pub(crate) fn read_standard() -> io::Result<Vec<u8>> {
    read_all(io::stdin().lock())
}

fn read_all(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_INPUT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(io::Error::other(format!("it has more than {} MiB", MAX_INPUT >> 20)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_without_end_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 16 MiB");
        assert_eq!(read_all(&b"token"[..]).unwrap(), b"token");
    }
}
