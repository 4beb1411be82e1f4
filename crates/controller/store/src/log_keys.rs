//! The keys with which a shared log seals what it writes. A controller that is removed from a network knows those of then:
//! the others make another one, and write everything anew with it.

use std::io;

/// Keys by their numbers, which are never used again for another key. One of them seals, all of them unseal.
pub trait LogKeys: Send + Sync {
    /// The numbers of the newest key, of the one that seals, and of the oldest one.
    fn numbers(&self) -> LogKeyNumbers;

    /// The key of a number.
    fn key(&self, number: u32) -> Option<[u8; 32]>;

    /// Keeps one more key, durably. It unseals from now on.
    fn add(&self, number: u32, key: [u8; 32]) -> io::Result<()>;

    /// Seals with the key of this number from now on, also after a restart.
    fn seal_with(&self, number: u32) -> io::Result<()>;

    /// Forgets keys with lower numbers: what they have sealed counts no more.
    fn forget_before(&self, number: u32) -> io::Result<()>;
}

/// The numbers of the keys of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogKeyNumbers {
    /// The highest number.
    pub newest: u32,
    /// The number of the key that seals.
    pub sealing: u32,
    /// The lowest number.
    pub oldest: u32,
}
