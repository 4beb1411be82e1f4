//! A process that has freed much memory is small again.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::expect_used, reason = "these are tests")]

/// Bytes of anonymous memory that are resident in this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("RssAnon");
    let kib: u64 = line.split_ascii_whitespace().nth(1).expect("a number").parse().expect("KiB");
    kib * 1024
}

/// Small pieces, as tables of clients are made of, in the memory of several threads.
fn pieces() -> Vec<Vec<u8>> {
    let make = || std::thread::spawn(|| (0..40_000).map(|_| vec![1; 800]).collect::<Vec<_>>());
    let threads: Vec<_> = (0..4).map(|_| make()).collect();
    threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
}

#[test]
fn freed_memory_is_given_back_also_between_pieces_that_stay() {
    let before = resident();
    let all = pieces();
    let full = resident();
    assert!(full - before > 100_000_000, "{before} {full}");
    // One of 1,000 stays, so that the heap does not end below the freed ones.
    let kept: Vec<_> = all.into_iter().step_by(1_000).collect();
    let (released, left) = weft_unsafe_pages::release_heap();
    let after = resident();
    assert!(released > (full - before) / 2 && left <= full, "{released} {left}");
    assert!(after - before < (full - before) / 10, "{before} {full} {after}");
    assert!(kept.iter().all(|piece| piece.iter().all(|byte| *byte == 1)));
}
