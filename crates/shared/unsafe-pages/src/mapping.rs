//! The memory of a process by its parts, as the system lists them (`/proc/PID/smaps`).

use std::path::Path;

/// Memory that holds a part of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The first address, and the one behind the last.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Bytes that are in memory.
    pub(crate) resident: u64,
}

/// The mappings of files that cannot be written to and in which every page is as in the file: mostly
/// those of the program and its libraries.
pub(crate) fn unchanged(smaps: &str) -> Vec<Mapping> {
    let mut found = Vec::new();
    let mut lines = smaps.lines().peekable();
    while let Some(line) = lines.next() {
        let mapping = header(line);
        let (mut resident, mut changed) = (0, None);
        while let Some(value) = lines.next_if(|line| header(line).is_none() && !is_header(line)) {
            if let Some(kib) = kib(value, "Rss:") {
                resident = kib * 1024;
            }
            if let Some(kib) = kib(value, "Anonymous:") {
                changed = Some(kib);
            }
        }
        if let Some((start, end)) = mapping
            && changed == Some(0)
            && resident > 0
        {
            found.push(Mapping { start, end, resident });
        }
    }
    found
}

/// Whether a line begins a mapping of any kind: an address range comes first.
fn is_header(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(range, _)| addresses(range).is_some())
}

/// The addresses of a private mapping of a file that cannot be written to.
fn header(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let range = addresses(words.next()?)?;
    let is_fixed = matches!(words.next()?, "r-xp" | "r--p");
    let (_offset, _device, inode) = (words.next()?, words.next()?, words.next()?);
    let path = words.next()?;
    // A file that was replaced is listed as deleted, and still exists for its users.
    let is_file = inode != "0" && Path::new(path).is_absolute();
    (is_fixed && is_file).then_some(range)
}

fn addresses(range: &str) -> Option<(usize, usize)> {
    let (start, end) = range.split_once('-')?;
    let parse = |text| usize::from_str_radix(text, 16).ok();
    Some((parse(start)?, parse(end)?)).filter(|(start, end)| start < end)
}

fn kib(line: &str, key: &str) -> Option<u64> {
    line.strip_prefix(key)?.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Bytes of memory that the process uses without mapped files; 0 if the system does not say.
#[cfg(target_env = "gnu")]
pub(crate) fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(head: &str, resident: u64, anonymous: &str) -> String {
        format!(
            "{head}\nSize:  128 kB\nRss:  {resident} kB\nAnonymous:  {anonymous} kB\nVmFlags: rd ex mr\n"
        )
    }

    #[test]
    fn only_what_is_as_in_a_file_is_found() {
        let smaps = [
            block("1000-3000 r-xp 00000000 08:01 17 /usr/bin/weft", 8, "0"),
            block("3000-4000 r--p 00002000 08:01 17 /usr/bin/weft (deleted)", 4, "0"),
            // Changed when the program was loaded.
            block("4000-5000 r--p 00003000 08:01 17 /usr/bin/weft", 4, "4"),
            block("5000-6000 rw-p 00004000 08:01 17 /usr/bin/weft", 4, "0"),
            block("6000-7000 r-xp 00000000 00:00 0 [vdso]", 4, "0"),
            block("7000-8000 r--p 00000000 00:00 0", 4, "0"),
            block("8000-9000 r--s 00000000 08:01 18 /var/lib/data", 4, "0"),
            block("9000-a000 r--p 00000000 08:01 19 /usr/lib/locale", 0, "0"),
            block("a000-b000 r--p 00000000 08:01 19 /usr/lib/libc.so", 4, "many"),
        ]
        .concat();
        let found = unchanged(&smaps);
        assert_eq!(
            found,
            [
                Mapping { start: 0x1000, end: 0x3000, resident: 8192 },
                Mapping { start: 0x3000, end: 0x4000, resident: 4096 },
            ]
        );
        assert!(unchanged("").is_empty() && unchanged("-\n1-\nx-y r-xp\n\nRss: 9 kB").is_empty());
    }
}
