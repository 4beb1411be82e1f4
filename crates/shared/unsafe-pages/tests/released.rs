//! A process runs on after its code was given back, and is smaller.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, reason = "these are tests")]

/// Bytes of files that are resident in this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find(|line| line.starts_with("RssFile:")).expect("RssFile");
    let kib: u64 = line.split_ascii_whitespace().nth(1).expect("a number").parse().expect("KiB");
    kib * 1024
}

#[test]
fn code_that_was_given_back_runs() {
    let others: Vec<_> = (0..4)
        .map(|seed: u64| {
            std::thread::spawn(move || {
                (0..2_000_000_u64).fold(seed, |sum, next| sum.rotate_left(5) ^ next)
            })
        })
        .collect();
    let expected: Vec<u64> = (0..4)
        .map(|seed: u64| (0..2_000_000_u64).fold(seed, |sum, next| sum.rotate_left(5) ^ next))
        .collect();
    // The other threads take pages meanwhile, some of them between two readings.
    let shrinks = (0..100).filter(|_| {
        let before = resident();
        let released = weft_unsafe_pages::release_code().expect("released");
        released > 0 && resident() < before
    });
    assert!(shrinks.count() > 0);
    let sums: Vec<u64> = others.into_iter().map(|it| it.join().expect("it runs on")).collect();
    assert_eq!(sums, expected);
}
