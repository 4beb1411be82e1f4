//! The layout of a database, by the number that the original stores in it.

use weft_bolt::{Bolt, BoltBucket};

use crate::ImportError;
use crate::fields::{Value, value_of};

/// The bucket with all others.
pub(crate) const ROOT: &[u8] = b"ziti";

/// A layout of the original's database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// 41, of OpenZiti 1.6.
    V41,
    /// 44, of OpenZiti 2.0: with permissions, and settings of enrollment by token.
    V44,
    /// 48, of OpenZiti 2.1: services in one bucket, targets of config types, configs of routers.
    V48,
}

impl Layout {
    /// The number.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::V41 => 41,
            Self::V44 => 44,
            Self::V48 => 48,
        }
    }

    /// The release of the original that has it.
    #[must_use]
    pub fn release(self) -> &'static str {
        match self {
            Self::V41 => "1.6",
            Self::V44 => "2.0",
            Self::V48 => "2.1",
        }
    }

    /// The layout of a database.
    pub(crate) fn of(database: &Bolt) -> Result<Self, ImportError> {
        let versions = database.bucket(&[ROOT, b"versions"])?;
        let versions = versions.ok_or(ImportError::NoController("ziti/versions"))?;
        let stored = versions.value(b"edge")?.as_ref().map(value_of);
        match stored {
            Some(Value::Number(41)) => Ok(Self::V41),
            Some(Value::Number(44)) => Ok(Self::V44),
            Some(Value::Number(48)) => Ok(Self::V48),
            Some(Value::Number(found)) => Err(ImportError::Layout { found }),
            _ => Err(ImportError::NoController("ziti/versions/edge")),
        }
    }
}

/// The place in the cluster's log up to which the database has all changes; `None` without a cluster.
pub(crate) fn cluster_index(root: &BoltBucket<'_>) -> Result<Option<u64>, ImportError> {
    let Some(metadata) = root.bucket(b"metadata")? else { return Ok(None) };
    let stored = metadata.value(b"raftIndex")?.as_ref().map(value_of);
    Ok(match stored {
        Some(Value::Number(index)) => u64::try_from(index).ok().filter(|index| *index > 0),
        _ => None,
    })
}
