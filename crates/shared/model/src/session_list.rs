//! Lists of sessions that end together, 16 bytes for each: their ids are UUIDs (docs/protocol/auth.md 16).

use bytes::Bytes;

/// The bytes of one session.
const EACH: usize = 16;
/// The places of the hyphens of a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// A session in a list.
pub type Key = [u8; EACH];

/// The key of a session; none if its id is no UUID in lower case.
pub fn key(id: &str) -> Option<Key> {
    let text = id.as_bytes();
    if text.len() != 36 {
        return None;
    }
    let mut key = Key::default();
    let mut digits = 0;
    for (at, byte) in text.iter().enumerate() {
        if HYPHENS.contains(&at) {
            if *byte != b'-' {
                return None;
            }
            continue;
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        key[digits / 2] |= if digits % 2 == 0 { digit << 4 } else { digit };
        digits += 1;
    }
    Some(key)
}

/// The id of a session.
pub fn id(key: &Key) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in key.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    text
}

/// A list of sessions.
pub fn pack(mut keys: Vec<Key>) -> Bytes {
    keys.sort_unstable();
    keys.dedup();
    Bytes::from(keys.concat())
}

/// The sessions of a list. Bytes behind the last whole session are left out.
pub fn keys(list: &[u8]) -> &[Key] {
    list.as_chunks::<EACH>().0
}

/// Whether a list has a session. The list is sorted, as [`pack`] makes it.
pub fn contains(list: &[u8], key: &Key) -> bool {
    keys(list).binary_search(key).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_packed_and_found() {
        let ids = [
            "ffffffff-ffff-4fff-bfff-ffffffffffff",
            "00000000-0000-4000-8000-000000000001",
            "2d0a1c54-8a3e-4c53-9a59-6e0f1f3a2b77",
        ];
        let all: Vec<Key> = ids.iter().map(|id| key(id).unwrap()).collect();
        for (text, key) in ids.iter().zip(&all) {
            assert_eq!(id(key), *text);
        }
        let list = pack([&all[..], &all[..1]].concat());
        assert_eq!(list.len(), 3 * EACH, "each once");
        assert!(all.iter().all(|key| contains(&list, key)));
        assert!(!contains(&list, &key("00000000-0000-4000-8000-000000000002").unwrap()));
        assert!(!contains(&list[..7], &all[1]), "a list that is cut");
    }

    #[test]
    fn other_ids_have_no_key() {
        for other in [
            "",
            "cm611bn6l000h",
            "2D0A1C54-8a3e-4c53-9a59-6e0f1f3a2b77",
            "2d0a1c54-8a3e-4c53-9a596e0f1f3a2b77-",
            "2d0a1c54-8a3e-4c53-9a59-6e0f1f3a2b7g",
        ] {
            assert_eq!(key(other), None, "{other}");
        }
    }
}
