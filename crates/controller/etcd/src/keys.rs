//! The keys of a network, and the values that are not change sets.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use weft_model::{Revision, Timeline};
use weft_store::{BatchId, Damage, HeadVersion, LogError, LogHead};

/// The keys of a network.
#[derive(Debug, Clone)]
pub(crate) struct Keys(String);

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self(prefix.to_owned())
    }

    fn key(&self, rest: &str) -> Bytes {
        Bytes::from(format!("{}{rest}", self.0))
    }

    /// The keys of the log, and nothing of another network whose prefix begins with that of this one.
    pub(crate) fn all(&self) -> Vec<(Bytes, Bytes)> {
        let short_lived = [(self.turn(), Bytes::new()), self.all_alive()];
        self.kept().into_iter().chain(short_lived).collect()
    }

    /// Those without the keys that end by themselves.
    pub(crate) fn kept(&self) -> [(Bytes, Bytes); 5] {
        let one = |key: Bytes| (key, Bytes::new());
        let log = (self.log(Revision(0)), self.log_end());
        [one(self.head()), one(self.checkpoint()), log, self.all_parts(), self.all_chunks()]
    }

    pub(crate) fn head(&self) -> Bytes {
        self.key("head")
    }

    /// The key of the batch that ends with a revision. Sixteen hexadecimal digits sort as numbers do.
    pub(crate) fn log(&self, last: Revision) -> Bytes {
        self.key(&format!("log/{:016x}", last.0))
    }

    /// The end of the keys of batches.
    pub(crate) fn log_end(&self) -> Bytes {
        self.key("log0")
    }

    pub(crate) fn part(&self, batch: BatchId, number: u32) -> Bytes {
        self.key(&format!("part/{batch}/{number:08x}"))
    }

    /// The range of the parts of all batches.
    pub(crate) fn all_parts(&self) -> (Bytes, Bytes) {
        (self.key("part/"), self.key("part0"))
    }

    /// The key of a run of a controller that is alive.
    pub(crate) fn alive(&self, run: u128) -> Bytes {
        self.key(&format!("alive/{run:032x}"))
    }

    /// The range of the controllers that are alive.
    pub(crate) fn all_alive(&self) -> (Bytes, Bytes) {
        (self.key("alive/"), self.key("alive0"))
    }

    /// The key of the turn of a controller that has lost often.
    pub(crate) fn turn(&self) -> Bytes {
        self.key("turn")
    }

    pub(crate) fn checkpoint(&self) -> Bytes {
        self.key("checkpoint")
    }

    pub(crate) fn chunk(&self, id: u128, number: u32) -> Bytes {
        self.key(&format!("checkpoint/{id:032x}/{number:08x}"))
    }

    /// The range of the parts of a checkpoint.
    pub(crate) fn chunks(&self, id: u128) -> (Bytes, Bytes) {
        (self.key(&format!("checkpoint/{id:032x}/")), self.key(&format!("checkpoint/{id:032x}0")))
    }

    /// The range of the parts of all checkpoints.
    pub(crate) fn all_chunks(&self) -> (Bytes, Bytes) {
        (self.key("checkpoint/"), self.key("checkpoint0"))
    }
}

/// The value of the head: the bytes that were ever appended (8, big endian), then the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredHead {
    pub(crate) appended: u64,
    pub(crate) head: LogHead,
}

impl StoredHead {
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u64(self.appended);
        bytes.put_slice(&self.head.to_bytes());
        bytes.freeze()
    }

    pub(crate) fn from_bytes(mut bytes: &[u8], mod_revision: i64) -> Result<Self, LogError> {
        let version = HeadVersion(mod_revision.unsigned_abs());
        let appended = bytes.try_get_u64().map_err(|_| damage("head"))?;
        let head = LogHead::from_bytes(bytes, version).map_err(LogError::Damaged)?;
        Ok(Self { appended, head })
    }
}

/// The bit of the number of parts that says that former timelines follow.
const HAS_FORMER: u32 = 1 << 31;

/// The value of `checkpoint`: id (16), number of parts (4), mod revision of the former one (8), then as the head. All
/// numbers are big endian. If the highest bit of the number of parts is set, the former timelines of the network come
/// before the head: their number (1), and for each its length (1) and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredCheckpoint {
    pub(crate) id: u128,
    pub(crate) chunks: u32,
    /// The mod revision of the value that this one has replaced; 0 for the first one.
    pub(crate) former: i64,
    /// The timelines of former states of the network.
    pub(crate) timelines: Vec<Timeline>,
    pub(crate) at: StoredHead,
}

impl StoredCheckpoint {
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u128(self.id);
        let has_former = if self.timelines.is_empty() { 0 } else { HAS_FORMER };
        bytes.put_u32(self.chunks | has_former);
        bytes.put_i64(self.former);
        if has_former > 0 {
            bytes.put_u8(u8::try_from(self.timelines.len()).unwrap_or(u8::MAX));
        }
        for Timeline(name) in self.timelines.iter().take(u8::MAX.into()) {
            bytes.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
            bytes.put_slice(&name.as_bytes()[..name.len().min(u8::MAX.into())]);
        }
        bytes.put_slice(&self.at.to_bytes());
        bytes.freeze()
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Result<Self, LogError> {
        let id = bytes.try_get_u128().map_err(|_| damage("checkpoint"))?;
        let chunks = bytes.try_get_u32().map_err(|_| damage("checkpoint"))?;
        let former = bytes.try_get_i64().map_err(|_| damage("checkpoint"))?;
        let timelines = match chunks & HAS_FORMER {
            0 => Vec::new(),
            _ => timelines(&mut bytes).ok_or_else(|| damage("checkpoint"))?,
        };
        let at = StoredHead::from_bytes(bytes, 0)?;
        Ok(Self { id, chunks: chunks & !HAS_FORMER, former, timelines, at })
    }
}

/// The former timelines of a checkpoint.
fn timelines(bytes: &mut &[u8]) -> Option<Vec<Timeline>> {
    let count = bytes.try_get_u8().ok()?;
    let mut timeline = || {
        let length = bytes.try_get_u8().ok()?;
        let (name, rest) = bytes.split_at_checked(length.into())?;
        *bytes = rest;
        Some(Timeline(std::str::from_utf8(name).ok()?.into()))
    };
    (0..count).map(|_| timeline()).collect()
}

/// The value of a batch: 0 and the change sets, or 1, the batch, and the number of its parts (4, big endian).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoredBatch {
    Whole(Bytes),
    Parts(BatchId, u32),
}

impl StoredBatch {
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        match self {
            Self::Whole(sets) => {
                bytes.put_u8(0);
                bytes.put_slice(sets);
            }
            Self::Parts(batch, count) => {
                bytes.put_u8(1);
                bytes.put_u128(batch.0);
                bytes.put_u32(*count);
            }
        }
        bytes.freeze()
    }

    pub(crate) fn from_bytes(mut bytes: Bytes) -> Result<Self, LogError> {
        let damage = |_| damage("batch");
        match bytes.try_get_u8().map_err(damage)? {
            0 => Ok(Self::Whole(bytes)),
            _ => {
                let batch = BatchId(bytes.try_get_u128().map_err(damage)?);
                Ok(Self::Parts(batch, bytes.try_get_u32().map_err(damage)?))
            }
        }
    }
}

/// A value of etcd that weft did not write.
pub(crate) fn damage(what: &str) -> LogError {
    LogError::Damaged(Damage::new(format!("the {what} in etcd"), "it cannot be read"))
}
