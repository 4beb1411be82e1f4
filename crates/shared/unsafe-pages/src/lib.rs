//! Gives memory back to the system that the program does not need any more: pages of code that only a start needed,
//! and freed memory.
//!
//! ```text
//!  program code in memory      after a start   |###################|
//!                              release_code    |.....#.............|  the code that runs now
//!                              in use          |..#..####..........|  from the page cache, no disk
//! ```
//!
//! A start runs code that is never needed again: reading files, making keys, building tables of
//! commands. The kernel maps 16 pages around each one that is touched, so that after a start more
//! than half of the program is resident. [`release_code`] takes these mappings out of the process.
//! The pages stay in the page cache of the system; pages that are needed again are mapped when they
//! are touched next, without a read from the disk.
//!
//! Freed memory stays with the C library, which keeps it for later: after a flood of clients, a program of 300 MiB could
//! have 650 MiB for ever. [`release_heap`] has the library give back every free page.
//!
//! On systems other than Linux nothing happens, and where the C library is not glibc, no freed memory is given back.
//!
//! ```
//! // At the end of a start:
//! let bytes = weft_unsafe_pages::release_code()?;
//! println!("{bytes} bytes are not resident any more");
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(target_os = "linux")]
mod mapping;

use std::io;

/// Gives back the resident pages of mapped files that the process can read or run and not write: the
/// program, its libraries, and other files that are mapped so. Returns the number of bytes that were
/// resident.
///
/// # Errors
/// Fails if the system does not list the mappings, or refuses.
#[cfg(target_os = "linux")]
pub fn release_code() -> io::Result<u64> {
    let known = std::fs::read_to_string("/proc/self/smaps")?;
    let mut released = 0;
    for mapping in mapping::unchanged(&known) {
        release(&mapping)?;
        released += mapping.resident;
    }
    tracing::debug!(bytes = released, "pages of program code that the start needed are given back");
    Ok(released)
}

/// Gives back the pages of the heap on which nothing is allocated. Returns by how many bytes the process is smaller
/// than before, and how large it is, without mapped files. The allocator of each thread is held up while its free
/// pages are given back: some milliseconds for some hundred MiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn release_heap() -> (u64, u64) {
    let before = mapping::anonymous();
    trim();
    let after = mapping::anonymous();
    (before.saturating_sub(after), after)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the function of the C library has no safe form")]
fn trim() {
    unsafe extern "C" {
        /// malloc.h: `int malloc_trim(size_t pad)`; thread-safe.
        fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // SAFETY: the signature is that of glibc (malloc_trim(3)). The function takes the locks of the allocator, may be
    // called from any thread at any time, and changes no allocated memory. A global allocator of another kind would not
    // be touched by it.
    unsafe { malloc_trim(0) };
}

/// Does nothing on this system.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn release_heap() -> (u64, u64) {
    (0, 0)
}

/// Does nothing on this system.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn release_code() -> io::Result<u64> {
    Ok(0)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "madvise may change what memory holds: here it cannot")]
fn release(mapping: &mapping::Mapping) -> io::Result<()> {
    use rustix::mm::{Advice, madvise};

    let start = std::ptr::with_exposed_provenance_mut(mapping.start);
    // SAFETY: `LinuxDontNeed` drops pages of a private mapping. Those that the process has changed would
    // be lost, and be as in the file when they are touched next; the mapping has none of these: it
    // cannot be written to (`r--p`, `r-xp`), and the system counts no anonymous page in it. All others
    // are pages of the file, and are so again. Programs and libraries that run are not changed in their
    // place (`ETXTBSY`, and packages replace files by others), so the file holds what it held. No
    // mapping of a program or library goes away while this runs: weft unloads none.
    unsafe { madvise(start, mapping.end - mapping.start, Advice::LinuxDontNeed) }?;
    Ok(())
}
