//! Names of services in a hosts file, for machines whose programs read one and do not ask this DNS server.
//!
//! A line is `<address> TAB <name> TAB # NetFoundry weft_<instance>` (docs/protocol/tunnel.md 6.1, with the
//! instance's name). Other lines stay as they are; lines of this instance are removed when it starts and ends.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mark of lines of OpenZiti's tunnelers.
const MARK: &str = "# NetFoundry";
/// Largest hosts file that is changed, in bytes.
const MOST_BYTES: u64 = 4 << 20;
/// Longest path, in bytes: the path is recorded for the next start.
const MOST_PATH: usize = 512;

/// Names with their addresses, in order.
pub(crate) type Names = Vec<(IpAddr, Arc<str>)>;

/// A hosts file with the names of this instance.
#[derive(Debug, Clone)]
pub(crate) struct HostsFile {
    path: PathBuf,
    mark: String,
    /// The names in the file; `None` if that is unknown.
    has: Option<Names>,
}

impl HostsFile {
    /// Opens the file, and removes lines of an earlier run of the instance.
    ///
    /// # Errors
    /// When the file cannot be changed.
    pub(crate) fn open(path: &Path, instance: &str) -> io::Result<Self> {
        let wrong = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if !path.is_absolute() {
            return wrong("has to be file:///<path>");
        }
        // A link stays a link; the file that it leads to is changed.
        let path = path.canonicalize()?;
        if path.to_str().is_none_or(|text| text.len() > MOST_PATH) {
            return wrong("has to be a path of at most 512 bytes of UTF-8");
        }
        if !path.metadata()?.is_file() {
            return wrong("is no file");
        }
        opened(&path, OpenOptions::new().write(true))?;
        let mark = format!("{MARK} weft_{instance}");
        let mut file = Self { path, mark, has: None };
        file.set(&Names::new())?;
        Ok(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// True unless the file is known to have exactly these names.
    pub(crate) fn differs(&self, names: &Names) -> bool {
        self.has.as_ref() != Some(names)
    }

    /// Makes these the only names of the instance in the file; an unchanged file is not written.
    pub(crate) fn set(&mut self, names: &Names) -> io::Result<()> {
        self.has = None;
        let before = read(&self.path)?;
        let after = with(&before, &self.mark, names);
        if after != before {
            write(&self.path, &after)?;
        }
        self.has = Some(names.clone());
        Ok(())
    }
}

/// Opens the file itself, and not a link that another user may have put in its place.
fn opened(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    opened(path, OpenOptions::new().read(true))?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        let text =
            format!("is larger than {MOST_BYTES} bytes, so that it is not taken for a hosts file");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}

/// The text of the file with these names in place of the lines with the mark.
fn with(text: &[u8], mark: &str, names: &Names) -> Vec<u8> {
    let is_own = |line: &[u8]| line.trim_ascii_end().ends_with(format!("\t{mark}").as_bytes());
    let mut out: Vec<u8> = text
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !is_own(line))
        .flatten()
        .copied()
        .collect();
    if !names.is_empty() && out.last().is_some_and(|last| *last != b'\n') {
        out.push(b'\n');
    }
    for (address, name) in names {
        out.extend_from_slice(format!("{address}\t{name}\t{mark}\n").as_bytes());
    }
    out
}

/// Writes the file whole or not at all: a new file replaces the old one. A file with a mount of its own, as in
/// containers, cannot be replaced and is overwritten.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match replace(path, bytes) {
        Ok(()) => Ok(()),
        Err(problem) => {
            tracing::debug!(path = %path.display(), %problem, "written in place");
            let mut file = opened(path, OpenOptions::new().write(true))?;
            file.write_all(bytes)?;
            file.set_len(bytes.len() as u64)?;
            file.sync_all()
        }
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.weft", std::process::id()));
    let beside = path.with_file_name(beside);
    let replaced = copy_beside(path, &beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    replaced
}

/// Makes a new file with the owner and the permissions of another one.
fn copy_beside(path: &Path, beside: &Path, bytes: &[u8]) -> io::Result<()> {
    let known = opened(path, OpenOptions::new().read(true))?.metadata()?;
    let _ = std::fs::remove_file(beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    fchown(&file, Some(known.uid()), Some(known.gid()))?;
    file.set_permissions(Permissions::from_mode(known.mode() & 0o7777))?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[(&str, &str)]) -> Names {
        list.iter().map(|(address, name)| (address.parse().unwrap(), Arc::from(*name))).collect()
    }

    #[test]
    fn lines_of_others_stay_and_own_ones_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        let others = "127.0.0.1 localhost\n# a comment\n100.64.0.9\tz.example\t# NetFoundry\n\
                      100.64.0.9\ty.example\t# NetFoundry weft_lab2\n# no end";
        std::fs::write(&path, others).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut file = HostsFile::open(&link, "lab").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), others, "nothing to do yet");
        let some = names(&[("100.64.0.2", "web.example"), ("fd00::2", "six.example")]);
        assert!(file.differs(&some));
        file.set(&some).unwrap();
        assert!(!file.differs(&some));
        let own = "100.64.0.2\tweb.example\t# NetFoundry weft_lab\nfd00::2\tsix.example\t# NetFoundry weft_lab\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{others}\n{own}"));
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o640);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        // Another program wrote the file meanwhile.
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("10.0.0.1 late\n");
        std::fs::write(&path, text).unwrap();
        file.set(&names(&[("100.64.0.3", "web.example")])).unwrap();
        let expected =
            format!("{others}\n10.0.0.1 late\n100.64.0.3\tweb.example\t# NetFoundry weft_lab\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        // As after a kill: the next start takes them out.
        drop(file);
        HostsFile::open(&path, "lab").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{others}\n10.0.0.1 late\n"));
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "nothing else is left in the folder");
    }

    #[test]
    fn what_cannot_be_a_hosts_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        assert_eq!(HostsFile::open(&missing, "lab").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(HostsFile::open(folder.path(), "lab").is_err());
        assert!(HostsFile::open(Path::new("etc/hosts"), "lab").is_err());
        let large = folder.path().join("large");
        File::create(&large).unwrap().set_len(MOST_BYTES + 1).unwrap();
        assert!(HostsFile::open(&large, "lab").unwrap_err().to_string().contains("larger"));
    }
}
