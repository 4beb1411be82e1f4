//! Any bytes as a database of bbolt: its entries are as many as it has room for, and what is read as a network is a
//! network or an error.
#![cfg_attr(fuzzing, no_main)]

use weft_bolt::{Bolt, BoltBucket, BoltContent};
use weft_import::Import;

/// Size of a page, in bytes.
const PAGE: usize = 4_096;

/// The input as the pages behind two good metas, if its first byte is even; otherwise the whole file.
fn file(bytes: &[u8]) -> Vec<u8> {
    let Some((first, pages)) = bytes.split_first() else { return Vec::new() };
    if first % 2 == 1 {
        return pages.to_vec();
    }
    let count = 2 + pages.len().div_ceil(PAGE) as u64;
    let mut file = [meta(count, 1), meta(count, 2), pages.to_vec()].concat();
    file.resize(file.len().next_multiple_of(PAGE), 0);
    file
}

/// A page with a meta whose root bucket is on page 2.
fn meta(count: u64, transaction: u64) -> Vec<u8> {
    let mut meta = Vec::new();
    for field in [0xED0C_DAED, 2, PAGE as u32, 0] {
        meta.extend(field.to_le_bytes());
    }
    for field in [2, 0, u64::MAX, count, transaction] {
        meta.extend(field.to_le_bytes());
    }
    let sum = meta.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    meta.extend(sum.to_le_bytes());
    let mut page = vec![0; 16];
    page.extend(meta);
    page.resize(PAGE, 0);
    page
}

/// Counts the entries of a bucket and of those within it, up to the first damaged page.
fn count(bucket: &BoltBucket<'_>, entries: &mut usize) -> bool {
    bucket.entries().all(|entry| {
        *entries += 1;
        match entry.map(|entry| entry.content) {
            Ok(BoltContent::Bucket(inner)) => count(&inner, entries),
            Ok(BoltContent::Value(_)) => true,
            Err(_) => false,
        }
    })
}

fn target(bytes: &[u8]) {
    let file = file(bytes);
    let Ok(stored) = tempfile::NamedTempFile::new() else { return };
    if std::fs::write(stored.path(), &file).is_err() {
        return;
    }
    let Ok(database) = Bolt::open(stored.path()) else { return };
    let mut entries = 0;
    count(&database.root(), &mut entries);
    // An entry takes 16 bytes at least; one more may be an error.
    assert!(entries <= file.len() / 16 + 1, "{entries} entries in {} bytes", file.len());
    let _ = Import::read(&database);
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    weft_fuzz::replay(target)
}
