//! This device: its operating system, hardware addresses and processes.
//!
//! Hardware addresses and processes are found on Linux only. On other systems a device has none, so
//! that checks of them fail.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha512};
use weft_contract::Word as _;
use weft_contract::resource::posture_check::{OsType, PostureResponseBody, response};

use super::{Question, Subject};

/// Largest file of a program whose hash is told, in bytes; 1 GiB.
const MAX_FILE: u64 = 1 << 30;

/// Most hardware addresses that are told, as many as weft's controllers take.
const MAX_ADDRESSES: usize = 128;

/// This device. It remembers the hashes of programs, so that a program is read only once.
#[derive(Debug, Default)]
pub(super) struct Device {
    hashes: HashMap<String, Hashed>,
}

/// A program's file that was read.
#[derive(Debug)]
struct Hashed {
    size: u64,
    changed_at: Option<SystemTime>,
    /// SHA-512 in hex.
    hash: String,
}

impl Device {
    /// The answers to these questions.
    pub(super) fn answer(
        &mut self,
        questions: BTreeSet<Question>,
    ) -> Vec<(Question, PostureResponseBody)> {
        let asks_for_processes = |asked: &Question| matches!(asked.about, Subject::Process(_));
        let running = match questions.iter().any(asks_for_processes) {
            true => processes(),
            false => HashMap::new(),
        };
        self.hashes.retain(|path, _| running.contains_key(path));
        let answer = |asked: Question| {
            let id = Some(asked.check.clone());
            let said = match &asked.about {
                Subject::Os => os(),
                Subject::Mac => PostureResponseBody {
                    type_id: Some(response::MAC.to_owned()),
                    mac_addresses: Some(hardware_addresses()),
                    ..PostureResponseBody::default()
                },
                Subject::Domain => PostureResponseBody {
                    type_id: Some(response::DOMAIN.to_owned()),
                    domain: Some(String::new()),
                    ..PostureResponseBody::default()
                },
                Subject::Process(path) => self.process(path, &running),
            };
            (asked, PostureResponseBody { id, ..said })
        };
        questions.into_iter().map(answer).collect()
    }

    fn process(&mut self, path: &str, running: &HashMap<String, PathBuf>) -> PostureResponseBody {
        let key = comparable(Path::new(path));
        let program = running.get(&key);
        let hash = program.and_then(|program| self.hash(key, program).ok()).unwrap_or_default();
        PostureResponseBody {
            type_id: Some(response::PROCESS.to_owned()),
            path: Some(path.to_owned()),
            is_running: Some(program.is_some()),
            hash: Some(hash),
            signer_fingerprints: Some(Vec::new()),
            ..PostureResponseBody::default()
        }
    }

    fn hash(&mut self, key: String, program: &Path) -> io::Result<String> {
        let file = File::open(program)?;
        let about = file.metadata()?;
        let (size, changed_at) = (about.len(), about.modified().ok());
        if let Some(known) = self.hashes.get(&key)
            && (known.size, known.changed_at) == (size, changed_at)
        {
            return Ok(known.hash.clone());
        }
        if size > MAX_FILE {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the program is too large"));
        }
        let mut digest = Digests(Sha512::new());
        io::copy(&mut file.take(MAX_FILE), &mut digest)?;
        let sum = digest.0.finalize();
        let hash: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        self.hashes.insert(key, Hashed { size, changed_at, hash: hash.clone() });
        Ok(hash)
    }
}

/// A writer that hashes.
struct Digests(Sha512);

impl io::Write for Digests {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The operating system, with the version of its kernel, as the Go SDK tells it.
fn os() -> PostureResponseBody {
    let os = match std::env::consts::OS {
        "linux" => OsType::Linux.as_str(),
        "macos" => OsType::MacOs.as_str(),
        "windows" => OsType::Windows.as_str(),
        "android" => OsType::Android.as_str(),
        "ios" => OsType::Ios.as_str(),
        other => other,
    };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let version = release.as_deref().and_then(version);
    PostureResponseBody {
        type_id: Some(response::OS.to_owned()),
        os_type: Some(os.to_owned()),
        version: Some(version.unwrap_or_else(|| "unknown".to_owned())),
        build: Some(String::new()),
        ..PostureResponseBody::default()
    }
}

/// The three numbers at the front of a release: `6.8.0` of `6.8.0-45-generic`.
fn version(release: &str) -> Option<String> {
    let mut parts = release.trim().splitn(3, '.');
    let (major, minor, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let end = rest.find(|one: char| !one.is_ascii_digit()).unwrap_or(rest.len());
    let numbers = [major, minor, rest.get(..end)?];
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    numbers.iter().all(|text| is_number(text)).then(|| numbers.join("."))
}

/// The hardware addresses of the network interfaces, sorted.
fn hardware_addresses() -> Vec<String> {
    let Ok(interfaces) = fs::read_dir("/sys/class/net") else { return Vec::new() };
    let addresses = interfaces.flatten().filter_map(|interface| {
        let address = fs::read_to_string(interface.path().join("address")).ok()?;
        let address = address.trim();
        let is_real = address.bytes().any(|one| one.is_ascii_hexdigit() && one != b'0');
        is_real.then(|| address.to_owned())
    });
    let addresses: BTreeSet<String> = addresses.collect();
    addresses.into_iter().take(MAX_ADDRESSES).collect()
}

/// The programs that run: a path that opens the file of each, by its name in comparisons. Programs
/// of other users are seen only by a privileged process.
fn processes() -> HashMap<String, PathBuf> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let is_process = |name: &str| name.bytes().all(|one| one.is_ascii_digit());
    let programs = entries.flatten().filter_map(|entry| {
        entry.file_name().to_str().filter(|name| is_process(name))?;
        let opens = entry.path().join("exe");
        let program = fs::read_link(&opens).ok()?;
        // The kernel says so of a program whose file was replaced.
        let name = program.to_str()?;
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        Some((comparable(Path::new(name)), opens))
    });
    programs.collect()
}

/// A path as paths of programs are compared: without needless separators, in lower case.
fn comparable(path: &Path) -> String {
    let path: PathBuf = path.components().collect();
    path.to_string_lossy().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        assert_eq!(version("6.8.0-45-generic\n").as_deref(), Some("6.8.0"));
        assert_eq!(version("5.15.167.4-microsoft").as_deref(), Some("5.15.167"));
        assert_eq!(version("6.12.5").as_deref(), Some("6.12.5"));
        for other in ["", "6", "6.12", "6.x.1", "six.1.2", "6.1.rc1", "6..1"] {
            assert_eq!(version(other), None, "{other:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_test_is_a_process_with_the_hash_of_its_file() {
        let program = std::env::current_exe().unwrap();
        let path = program.to_str().unwrap();
        let hash = |bytes: &[u8]| -> String {
            Sha512::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let expected = hash(&fs::read(&program).unwrap());
        let asked =
            |path: &str| Question { check: "c".into(), about: Subject::Process(path.into()) };
        let mut device = Device::default();
        // The second time, the hash is remembered.
        for spelled in [path.to_owned(), format!("/{}", path.to_uppercase())] {
            let (_, said) = device.answer([asked(&spelled)].into()).pop().unwrap();
            assert_eq!((said.id.as_deref(), said.is_running), (Some("c"), Some(true)));
            assert_eq!((said.hash, said.path), (Some(expected.clone()), Some(spelled)));
        }
        let (_, said) = device.answer([asked("/no/such/program")].into()).pop().unwrap();
        assert_eq!((said.is_running, said.hash.as_deref()), (Some(false), Some("")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_system_is_linux() {
        let asked = [Subject::Os, Subject::Mac, Subject::Domain];
        let asked = asked.map(|about| Question { check: "c".into(), about });
        let said = Device::default().answer(asked.into());
        let [os, mac, domain] = [0, 1, 2].map(|at| said[at].1.clone());
        assert_eq!((os.type_id.as_deref(), os.os_type.as_deref()), (Some("OS"), Some("Linux")));
        assert!(os.version.unwrap().starts_with(|one: char| one.is_ascii_digit()));
        assert!(mac.mac_addresses.unwrap().iter().all(|one| one.len() >= 17));
        assert_eq!(domain.domain.as_deref(), Some(""));
    }
}
