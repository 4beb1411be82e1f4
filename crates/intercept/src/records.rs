//! Records of names besides addresses: mail servers, places of services, texts.

use futures::future::BoxFuture;

/// What a name is asked for besides its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// Mail servers.
    Mx,
    /// Texts.
    Txt,
    /// Places of services.
    Srv,
}

impl RecordKind {
    /// The kind that DNS has this number for; none for other kinds than these.
    #[must_use]
    pub fn of(number: u16) -> Option<Self> {
        [Self::Mx, Self::Txt, Self::Srv].into_iter().find(|kind| kind.number() == number)
    }

    /// Its number in DNS.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Mx => 15,
            Self::Txt => 16,
            Self::Srv => 33,
        }
    }
}

/// What somebody wants to know of a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordQuestion {
    /// The name: lower case, ASCII, without a dot at its end.
    pub name: String,
    /// What of it.
    pub kind: RecordKind,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// What DNS calls the response code.
    pub code: u8,
    /// The records; none with another code than [`Self::FOUND`].
    pub found: Vec<Record>,
}

impl Records {
    /// The name is known. It may have no such records.
    pub const FOUND: u8 = 0;
    /// The question makes no sense.
    pub const MALFORMED: u8 = 1;
    /// Who should know failed.
    pub const FAILED: u8 = 2;
    /// There is no such name, or it is not for whoever asks.
    pub const NO_NAME: u8 = 3;
    /// Such records are not looked for.
    pub const NOT_LOOKED_FOR: u8 = 4;

    /// No records, and why.
    #[must_use]
    pub fn none(code: u8) -> Self {
        Self { code, found: Vec::new() }
    }
}

/// A record of the name that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// For how many seconds it counts.
    pub ttl: u32,
    /// What it says.
    pub data: RecordData,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordData {
    /// A mail server.
    Mx {
        /// The lowest is tried first.
        preference: u16,
        /// Its name.
        host: String,
    },
    /// A text; its strings in one.
    Txt(Vec<u8>),
    /// A place of a service.
    Srv {
        /// The lowest is tried first.
        priority: u16,
        /// Its share among those of its priority.
        weight: u16,
        /// Its port.
        port: u16,
        /// Name of the host.
        host: String,
    },
}

/// Knows whom to ask for records.
pub trait FindRecords: Send + Sync + 'static {
    /// The records of a name; none if nobody answered.
    fn find(&self, question: RecordQuestion) -> BoxFuture<'_, Option<Records>>;
}
