//! DNS records other than addresses: mail servers, service locations, texts.

use futures::future::BoxFuture;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A mail server.
    Mx,
    /// A text.
    Txt,
    /// The location of a service.
    Srv,
}

impl RecordKind {
    /// The kind with this number in DNS; `None` for other kinds.
    #[must_use]
    pub fn of(number: u16) -> Option<Self> {
        [Self::Mx, Self::Txt, Self::Srv].into_iter().find(|kind| kind.number() == number)
    }

    /// The number of the kind in DNS.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Mx => 15,
            Self::Txt => 16,
            Self::Srv => 33,
        }
    }
}

/// A question for records of a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordQuestion {
    /// The name: lower case, ASCII, without a dot at its end.
    pub name: String,
    /// The kind of the records.
    pub kind: RecordKind,
}

/// The answer to a question for records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// The response code of DNS.
    pub code: u8,
    /// The records; empty with another code than [`Self::FOUND`].
    pub found: Vec<DnsRecord>,
}

impl Records {
    /// The name is known. It may have no such records.
    pub const FOUND: u8 = 0;
    /// The question is malformed.
    pub const MALFORMED: u8 = 1;
    /// The server that should know the answer failed.
    pub const FAILED: u8 = 2;
    /// The name does not exist, or the client may not know it.
    pub const NO_NAME: u8 = 3;
    /// Records of this kind are not looked up.
    pub const NOT_LOOKED_FOR: u8 = 4;

    /// An answer without records, with the reason.
    #[must_use]
    pub fn none(code: u8) -> Self {
        Self { code, found: Vec::new() }
    }
}

/// A record of the name that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsRecord {
    /// How long the record is valid, in seconds.
    pub ttl: u32,
    /// The record's data.
    pub data: RecordData,
}

/// The data of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordData {
    /// A mail server.
    Mx {
        /// The preference; the lowest is tried first.
        preference: u16,
        /// Its name.
        host: String,
    },
    /// A text, its strings joined.
    Txt(Vec<u8>),
    /// The location of a service.
    Srv {
        /// The priority; the lowest is tried first.
        priority: u16,
        /// The share among records of the same priority.
        weight: u16,
        /// Its port.
        port: u16,
        /// Name of the host.
        host: String,
    },
}

/// Looks records up.
pub trait FindRecords: Send + Sync + 'static {
    /// The records of a name; `None` without an answer.
    fn find(&self, question: RecordQuestion) -> BoxFuture<'_, Option<Records>>;
}
