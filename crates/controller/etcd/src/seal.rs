//! Sealing of values: whoever reads etcd learns their sizes, and whoever writes to it cannot make one, or use one in
//! another place.
//!
//! ```text
//! number of the key (4, big endian), nonce (12), ciphertext and tag of AES-256-GCM-SIV
//! associated data: the key in etcd, a zero byte, the timeline (empty for `head` and `checkpoint`, which contain it)
//! ```

use std::path::{Path, PathBuf};
use std::{fmt, io};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use weft_identity::write_for_owner;
use weft_model::Timeline;
use weft_store::{Damage, LogError, LogKeyNumbers, LogKeys};

const NUMBER: usize = 4;
const NONCE: usize = 12;
/// Hexadecimal digits of a key.
const DIGITS: usize = 64;

/// The keys of a network, by which what is in etcd is sealed. The last one seals, all of them unseal.
pub struct SealingKeys {
    keys: RwLock<Vec<SealingKey>>,
    /// The file that they are from.
    file: Option<PathBuf>,
    /// Held during a change.
    change: Mutex<()>,
}

#[derive(Clone)]
struct SealingKey {
    number: u32,
    bytes: [u8; DIGITS / 2],
    key: std::sync::Arc<LessSafeKey>,
}

impl SealingKey {
    fn new(number: u32, bytes: [u8; DIGITS / 2]) -> Option<Self> {
        let key = UnboundKey::new(&AES_256_GCM_SIV, &bytes).ok()?;
        Some(Self { number, bytes, key: LessSafeKey::new(key).into() })
    }
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.read().iter().map(|it| it.number)).finish()
    }
}

/// A line of a file that is no key of a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// A line has another form.
    #[error("line {0}: not a number and {DIGITS} hexadecimal digits")]
    Line(usize),
    /// A number was used before.
    #[error("line {0}: its number has another line, too")]
    Again(usize),
    /// There is no line.
    #[error("it holds no key")]
    Empty,
}

impl SealingKeys {
    /// Keys with their numbers, which are never used again for another key.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = (u32, [u8; DIGITS / 2])>) -> Self {
        let keys = keys.into_iter().filter_map(|(number, bytes)| SealingKey::new(number, bytes));
        Self { keys: RwLock::new(keys.collect()), file: None, change: Mutex::default() }
    }

    /// The keys in the text of a file, which is written when keys are added or forgotten: in each line the number of a key,
    /// and the key in 64 hexadecimal digits.
    ///
    /// # Errors
    /// If a line is none of these.
    pub fn in_file(path: &Path, text: &str) -> Result<Self, KeyFileError> {
        let mut keys: Vec<(u32, [u8; DIGITS / 2])> = Vec::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let key = key_in(line).ok_or(KeyFileError::Line(at + 1))?;
            if keys.iter().any(|(number, _)| *number == key.0) {
                return Err(KeyFileError::Again(at + 1));
            }
            keys.push(key);
        }
        match keys.is_empty() {
            true => Err(KeyFileError::Empty),
            false => Ok(Self { file: Some(path.to_owned()), ..Self::new(keys) }),
        }
    }

    /// Changes the keys, in the file first.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<SealingKey>) -> io::Result<()>,
    ) -> io::Result<()> {
        let _alone = self.change.lock();
        let mut keys = self.keys.read().clone();
        change(&mut keys)?;
        if let Some(file) = &self.file {
            let line = |it: &SealingKey| format!("{} {}\n", it.number, hex::encode(it.bytes));
            let text: String = keys.iter().map(line).collect();
            write_for_owner(file, text.as_bytes()).map_err(io::Error::other)?;
        }
        *self.keys.write() = keys;
        Ok(())
    }

    /// Seals with the key of a value, if that is newer than the one that seals: nobody seals with a key before all
    /// controllers have it, and the others may have forgotten the former one.
    pub(crate) fn keep_up(&self, sealed: &[u8]) -> Result<(), LogError> {
        let Some((number, _)) = sealed.split_first_chunk::<NUMBER>() else { return Ok(()) };
        let number = u32::from_be_bytes(*number);
        if number <= self.numbers().sealing {
            return Ok(());
        }
        let unwritten = |error: io::Error| {
            LogError::Unavailable(format!(
                "the network has key {number} now, which could not be written to the file that `cluster.key` names: {error}"
            ))
        };
        self.seal_with(number).map_err(unwritten)
    }

    /// Whether a value is sealed with a key that is to go: one of these that is older than the one that seals.
    pub(crate) fn is_of_former(&self, sealed: &[u8]) -> bool {
        let Some((number, _)) = sealed.split_first_chunk::<NUMBER>() else { return false };
        let (number, keys) = (u32::from_be_bytes(*number), self.keys.read());
        let sealing = keys.last().map(|it| it.number);
        keys.iter().any(|it| it.number == number) && sealing.is_some_and(|sealing| number < sealing)
    }

    /// Seals a value for a place.
    pub(crate) fn seal(
        &self,
        place: &Bytes,
        timeline: Option<&Timeline>,
        value: &[u8],
    ) -> Result<Bytes, LogError> {
        let none = || LogError::Unavailable("there is no key to seal with".to_owned());
        let SealingKey { number, key, .. } = self.keys.read().last().cloned().ok_or_else(none)?;
        let nonce: [u8; NONCE] = rand::random();
        let mut sealed = value.to_vec();
        let associated = Aad::from(associated(place, timeline));
        let nonce_of = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce_of, associated, &mut sealed).map_err(|_| none())?;
        Ok([&number.to_be_bytes(), nonce.as_slice(), &sealed].concat().into())
    }

    /// Unseals the value of a place.
    pub(crate) fn unseal(
        &self,
        place: &Bytes,
        timeline: Option<&Timeline>,
        sealed: &[u8],
    ) -> Result<Bytes, LogError> {
        let damage = |why: &str| {
            let location = format!("the key {} in etcd", String::from_utf8_lossy(place));
            LogError::Damaged(Damage::new(location, why))
        };
        let short = || damage("it is cut short");
        let (number, rest) = sealed.split_first_chunk::<NUMBER>().ok_or_else(short)?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE>().ok_or_else(short)?;
        let number = u32::from_be_bytes(*number);
        let key = self.keys.read().iter().find(|it| it.number == number).map(|it| it.key.clone());
        let unknown = || {
            damage(&format!(
                "it is sealed with key {number}, which this controller does not have: if the network has such a key, take \
                 its line from `network.key` of another controller"
            ))
        };
        let key = key.ok_or_else(unknown)?;
        let mut value = ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.open_in_place(nonce, Aad::from(associated(place, timeline)), &mut value);
        let length =
            opened.map_err(|_| damage("it was not written by a controller of this network"))?.len();
        value.truncate(length);
        Ok(value.into())
    }
}

impl LogKeys for SealingKeys {
    fn numbers(&self) -> LogKeyNumbers {
        let keys = self.keys.read();
        let numbers = || keys.iter().map(|it| it.number);
        LogKeyNumbers {
            newest: numbers().max().unwrap_or_default(),
            sealing: keys.last().map(|it| it.number).unwrap_or_default(),
            oldest: numbers().min().unwrap_or_default(),
        }
    }

    fn key(&self, number: u32) -> Option<[u8; DIGITS / 2]> {
        self.keys.read().iter().find(|it| it.number == number).map(|it| it.bytes)
    }

    fn add(&self, number: u32, key: [u8; DIGITS / 2]) -> io::Result<()> {
        self.change(|keys| {
            if let Some(known) = keys.iter().find(|it| it.number == number) {
                let other = || io::Error::other(format!("another key has the number {number}"));
                return (known.bytes == key).then_some(()).ok_or_else(other);
            }
            let key = SealingKey::new(number, key);
            let key = key.ok_or_else(|| io::Error::other("the library refuses the key"))?;
            // The last one goes on to seal.
            keys.insert(keys.len().saturating_sub(1), key);
            Ok(())
        })
    }

    fn seal_with(&self, number: u32) -> io::Result<()> {
        self.change(|keys| {
            let at = keys.iter().position(|it| it.number == number);
            let at = at.ok_or_else(|| io::Error::other(format!("there is no key {number}")))?;
            let key = keys.remove(at);
            keys.push(key);
            Ok(())
        })
    }

    fn forget_before(&self, number: u32) -> io::Result<()> {
        self.change(|keys| {
            let sealing = keys.last().map(|it| it.number);
            keys.retain(|it| it.number >= number || Some(it.number) == sealing);
            Ok(())
        })
    }
}

fn key_in(line: &str) -> Option<(u32, [u8; DIGITS / 2])> {
    let (number, digits) = line.trim().split_once(' ')?;
    let mut key = [0; DIGITS / 2];
    hex::decode_to_slice(digits.trim(), &mut key).ok()?;
    Some((number.parse().ok()?, key))
}

fn associated(place: &Bytes, timeline: Option<&Timeline>) -> Vec<u8> {
    let timeline = timeline.map_or("", |timeline| &*timeline.0);
    [place, [0].as_slice(), timeline.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_good_in_its_place_only() {
        let old = SealingKeys::new([(1, [1; 32])]);
        let keys = SealingKeys::new([(1, [1; 32]), (2, [2; 32])]);
        let (place, other) = (Bytes::from("/weft/log/1"), Bytes::from("/weft/log/2"));
        let (here, there) = (Timeline("here".into()), Timeline("there".into()));
        let sealed = keys.seal(&place, Some(&here), b"value").unwrap();
        assert_ne!(sealed, keys.seal(&place, Some(&here), b"value").unwrap());
        assert_eq!(keys.unseal(&place, Some(&here), &sealed).unwrap(), b"value".as_slice());
        assert!(keys.unseal(&other, Some(&here), &sealed).is_err());
        assert!(keys.unseal(&place, Some(&there), &sealed).is_err());
        assert!(keys.unseal(&place, None, &sealed).is_err());
        assert!(
            old.unseal(&place, Some(&here), &sealed).unwrap_err().to_string().contains("key 2")
        );
        let before = old.seal(&place, None, b"before").unwrap();
        assert_eq!(keys.unseal(&place, None, &before).unwrap(), b"before".as_slice());
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert!(keys.unseal(&place, Some(&here), &changed).is_err(), "{at}");
            assert!(keys.unseal(&place, Some(&here), &sealed[..at]).is_err(), "{at}");
        }
        assert!(SealingKeys::new([]).seal(&place, None, b"").is_err());
    }

    #[test]
    fn keys_are_read_from_a_file_and_changed_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.key");
        let line = |number: u32, byte: &str| format!("{number} {}\n", byte.repeat(32));
        for (wrong, error) in [
            (String::new(), KeyFileError::Empty),
            ("1".to_owned(), KeyFileError::Line(1)),
            ("1 abc".to_owned(), KeyFileError::Line(1)),
            ("x 00".to_owned(), KeyFileError::Line(1)),
            (format!("\n1 {}", "0".repeat(63)), KeyFileError::Line(2)),
            (line(1, "ab") + &line(1, "cd"), KeyFileError::Again(2)),
        ] {
            assert_eq!(SealingKeys::in_file(&path, &wrong).unwrap_err(), error, "{wrong}");
        }
        let keys = SealingKeys::in_file(&path, &(line(1, "01") + "\n")).unwrap();
        let numbers = |newest, sealing, oldest| LogKeyNumbers { newest, sealing, oldest };
        let text = || std::fs::read_to_string(&path).unwrap();
        let place = Bytes::from("/weft/log/1");
        let before = keys.seal(&place, None, b"value").unwrap();
        // The same key again changes nothing; another one with its number is refused.
        keys.add(2, [2; 32]).unwrap();
        keys.add(2, [2; 32]).unwrap();
        assert!(keys.add(2, [3; 32]).is_err());
        assert_eq!((keys.numbers(), text()), (numbers(2, 1, 1), line(2, "02") + &line(1, "01")));
        assert!(!keys.is_of_former(&before));
        assert!(keys.seal_with(3).is_err());
        keys.seal_with(2).unwrap();
        assert_eq!((keys.numbers(), text()), (numbers(2, 2, 1), line(1, "01") + &line(2, "02")));
        assert!(keys.is_of_former(&before) && !keys.is_of_former(&[0; 3]));
        assert!(!keys.is_of_former(&keys.seal(&place, None, b"value").unwrap()));
        assert_eq!(keys.unseal(&place, None, &before).unwrap(), b"value".as_slice());
        keys.forget_before(7).unwrap();
        assert_eq!((keys.numbers(), text()), (numbers(2, 2, 2), line(2, "02")));
        assert!(keys.unseal(&place, None, &before).unwrap_err().to_string().contains("key 1"));
        assert_eq!((keys.key(2), keys.key(1)), (Some([2; 32]), None));
        let again = SealingKeys::in_file(&path, &text()).unwrap();
        assert_eq!(again.numbers(), keys.numbers());
        // What cannot be written does not count.
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert!(keys.add(3, [3; 32]).is_err());
        assert_eq!(keys.numbers(), numbers(2, 2, 2));
    }
}
