//! The journal of live state as a start finds it.

use redb::ReadableDatabase;

use super::super::file::{self, Shared};
use super::super::journal::{Batch, Journal, JournalFault};
use super::super::tables::META;
use crate::{Damage, OpenError, codec};

/// Key in `meta` of the journal's generation that the database contains, with a byte that is 1 while
/// the journal may contain more.
pub(super) const FOLDED: &str = "live";

/// Number of generations that a journal which cannot be opened may hold: one for each fold that has
/// failed since the last successful one, and there is at most one per second.
const UNREAD: u64 = 1 << 32;

/// The state of the journal, as the database has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Folded {
    pub(super) generation: u64,
    /// True if the journal may contain values that the database lacks.
    pub(super) is_open: bool,
}

/// A journal as a start finds it.
#[derive(Default)]
pub(super) struct Found {
    pub(super) journal: Option<Journal>,
    pub(super) values: Batch,
    pub(super) is_open: bool,
    /// Latest generation of the records in a journal that cannot be opened.
    pub(super) unread: Option<u64>,
    #[cfg(test)]
    pub(super) fault: Option<JournalFault>,
}

/// Opens the journal of a database. Without a journal the store works, but a caller waits longer for
/// the disk.
pub(super) fn open_journal(shared: &Shared) -> Result<Found, OpenError> {
    let read = shared.read(|database| {
        let transaction = database.begin_read()?;
        let head = file::read_head(&transaction)?;
        let head = head.ok_or_else(|| Damage::new("head", "it is missing"))?;
        let sealed = transaction.open_table(META)?.get(FOLDED)?;
        let folded = sealed.map(|sealed| Folded::from_sealed(sealed.value())).transpose()?;
        Ok((head.timeline, folded.unwrap_or(Folded { generation: 0, is_open: false })))
    });
    let (timeline, folded) = read.map_err(|failure| failure.open(shared.path()))?;
    let path = Journal::path_of(shared.path());
    let file = path.display();
    let is_open = folded.is_open;
    match Journal::open(&path, &timeline, folded.generation) {
        Ok((journal, values, fault)) => {
            // There is no journal before the first start, and none of this database after a restore.
            let fault = fault.filter(|fault| is_open || *fault == JournalFault::Cut);
            match fault {
                Some(JournalFault::NotThere) => tracing::warn!(
                    %file,
                    "the journal is gone, or is another database's: of the last seconds before the \
                     controller ended, sessions that began may be missing, and those that ended may \
                     be back"
                ),
                Some(JournalFault::Cut) => tracing::warn!(
                    %file,
                    "the journal's last record is not whole: its write was cut off, or the file is \
                     damaged; its contents are left out"
                ),
                None => {}
            }
            Ok(Found {
                journal: Some(journal),
                values,
                is_open,
                unread: None,
                #[cfg(test)]
                fault,
            })
        }
        Err(error) => {
            tracing::warn!(%file, %error, "no journal: sessions are written to the database");
            let unread = Some(folded.generation.saturating_add(UNREAD));
            Ok(Found { is_open, unread, ..Found::default() })
        }
    }
}

impl Folded {
    pub(super) fn from_sealed(sealed: &[u8]) -> Result<Self, Damage> {
        let bytes = codec::unseal(FOLDED, FOLDED.as_bytes(), sealed)?;
        let damage = || Damage::new("the generation of live state", "it is cut short");
        let (generation, rest) = bytes.split_first_chunk().ok_or_else(damage)?;
        Ok(Self { generation: u64::from_le_bytes(*generation), is_open: rest == [1] })
    }

    pub(super) fn sealed(self) -> Vec<u8> {
        let mut bytes = self.generation.to_le_bytes().to_vec();
        bytes.push(u8::from(self.is_open));
        codec::seal(FOLDED.as_bytes(), &bytes)
    }
}
