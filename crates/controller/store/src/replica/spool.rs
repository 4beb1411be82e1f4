//! A checkpoint on its way into the copy: parts are kept in a private file until all of them have come, so that nothing
//! of the copy is locked while the network is waited for.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::embedded::private;

/// The file. It is removed with the value.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Spool {
    /// A new file beside a database, in place of one that a process has left behind.
    pub(crate) fn beside(database: &Path) -> io::Result<Self> {
        let mut path = database.as_os_str().to_owned();
        path.push(".checkpoint");
        let path = PathBuf::from(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        private(&path)?;
        let file = File::options().read(true).write(true).open(&path)?;
        Ok(Self { path, file: BufWriter::new(file) })
    }

    /// Adds a part.
    pub(crate) fn put(&mut self, part: &[u8]) -> io::Result<()> {
        self.file.write_all(&(part.len() as u64).to_be_bytes())?;
        self.file.write_all(part)
    }

    /// Passes the parts on, in order.
    pub(crate) fn read<E: From<io::Error>>(
        mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.file.flush()?;
        self.file.get_mut().rewind()?;
        let mut file = BufReader::new(self.file.get_ref());
        let mut part = Vec::new();
        loop {
            let mut length = [0; 8];
            match file.read_exact(&mut length) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            }
            part.clear();
            let length = u64::from_be_bytes(length);
            if (&mut file).take(length).read_to_end(&mut part)? as u64 != length {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            each(&part)?;
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_they_were_put_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("db");
        drop(Spool::beside(&database).unwrap());
        let mut spool = Spool::beside(&database).unwrap();
        spool.put(b"one").unwrap();
        spool.put(b"").unwrap();
        spool.put(&[7; 300_000]).unwrap();
        let mut read = Vec::new();
        spool
            .read::<io::Error>(|part| {
                read.push(part.to_vec());
                Ok(())
            })
            .unwrap();
        assert_eq!(read, [b"one".to_vec(), Vec::new(), vec![7; 300_000]]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
