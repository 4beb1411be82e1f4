//! The memory of this process by its parts, as the system reports it.

use std::collections::BTreeMap;

use super::format::ProfileBuilder;

/// Resident and private bytes of a part.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Part {
    resident: i64,
    own: i64,
}

/// The profile at this moment.
pub(super) fn profile() -> Result<Vec<u8>, String> {
    let text = std::fs::read_to_string("/proc/self/smaps")
        .map_err(|error| format!("/proc/self/smaps: {error}"))?;
    let mut writer = ProfileBuilder::new(&[("resident", "bytes"), ("anonymous", "bytes")]);
    for (name, part) in parts(&text) {
        writer.sample(&[name, "process".to_owned()], &[part.resident, part.own], None);
    }
    Ok(writer.bytes())
}

/// Parts of the memory by name: files by their path, memory of threads and of the allocator by the
/// system's name for it.
fn parts(text: &str) -> BTreeMap<String, Part> {
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        let Some(key) = first.strip_suffix(':') else {
            // First line of a part: addresses, rights, offset, device, inode and name.
            let rest: Vec<&str> = words.skip(4).collect();
            name = if rest.is_empty() { "anonymous memory".to_owned() } else { rest.join(" ") };
            continue;
        };
        let kib = words.next().and_then(|word| word.parse::<i64>().ok()).unwrap_or_default();
        let bytes = kib.saturating_mul(1024);
        match key {
            "Rss" => parts.entry(name.clone()).or_default().resident += bytes,
            "Anonymous" => parts.entry(name.clone()).or_default().own += bytes,
            _ => {}
        }
    }
    parts.retain(|_, part| part.resident > 0);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_name_are_one() {
        let text = "\
55d0-55d1 r-xp 00000000 08:01 131 /usr/bin/weft
Rss:                   8 kB
Anonymous:             0 kB
55d2-55d3 rw-p 00000000 00:00 0 [heap]
Rss:                  12 kB
Anonymous:            12 kB
55d4-55d5 rw-p 00000000 00:00 0
Rss:                   4 kB
Anonymous:             4 kB
55d6-55d7 rw-p 00000000 00:00 0
Rss:                   4 kB
Anonymous:             0 kB
VmFlags: rd wr
";
        let found = parts(text);
        let part = |resident: i64, own: i64| Part { resident: resident * 1024, own: own * 1024 };
        let expected = [
            ("/usr/bin/weft".to_owned(), part(8, 0)),
            ("[heap]".to_owned(), part(12, 12)),
            ("anonymous memory".to_owned(), part(8, 4)),
        ];
        assert_eq!(found, expected.into());
    }
}
