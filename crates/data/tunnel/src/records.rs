//! Records of names besides addresses, asked of the host of a service over the network
//! (docs/protocol/tunnel.md 7).
//!
//! A dial with the application data `{"connType":"resolver"}` opens a conversation: each payload of the
//! dialer is a JSON object with one question, and each payload of the host is one with the answer. The
//! host asks the servers of its own machine, only for names that its config allows.

mod answering;
#[cfg(target_os = "linux")]
mod asking;

use serde::{Deserialize, Serialize};
use weft_intercept::{DnsRecord, RecordData, RecordKind, Records};

pub(crate) use self::answering::Resolver;
pub use self::answering::find_records_by;
#[cfg(target_os = "linux")]
pub(crate) use self::asking::Asker;

/// The value of `connType` in such application data.
pub(crate) const CONNECTION: &str = "resolver";
/// Largest message that is read or written, in bytes.
const MAX_MESSAGE: usize = 16 * 1024;

/// A message of either side.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Message {
    /// The number of the question within its connection; the answer has the same.
    #[serde(default)]
    id: i64,
    /// The response code of DNS.
    #[serde(default)]
    status: i64,
    #[serde(default)]
    question: Vec<Question>,
    /// Hosts written in Go send null for an empty list.
    #[serde(default)]
    answer: Option<Vec<AnswerRecord>>,
    /// The reason why there is no answer, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    name: String,
    #[serde(rename = "type")]
    kind: i64,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AnswerRecord {
    #[serde(default)]
    name: String,
    #[serde(rename = "type")]
    kind: i64,
    #[serde(default)]
    ttl: i64,
    #[serde(default)]
    data: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    priority: u16,
    #[serde(default, skip_serializing_if = "is_zero")]
    weight: u16,
    #[serde(default, skip_serializing_if = "is_zero")]
    port: u16,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u16) -> bool {
    *number == 0
}

impl AnswerRecord {
    fn of(question: &Question, record: &DnsRecord) -> Self {
        let Question { name, kind } = question.clone();
        let plain = Self { name, kind, ttl: record.ttl.into(), ..Self::default() };
        match &record.data {
            RecordData::Mx { preference, host } => {
                Self { data: host.clone(), priority: *preference, ..plain }
            }
            RecordData::Txt(text) => {
                Self { data: String::from_utf8_lossy(text).into_owned(), ..plain }
            }
            RecordData::Srv { priority, weight, port, host } => {
                let (priority, weight, port) = (*priority, *weight, *port);
                Self { data: host.clone(), priority, weight, port, ..plain }
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn record(self) -> Option<DnsRecord> {
        let Self { data, priority, weight, port, .. } = self;
        let data = match RecordKind::of(u16::try_from(self.kind).ok()?)? {
            RecordKind::Mx => RecordData::Mx { preference: priority, host: data },
            RecordKind::Txt => RecordData::Txt(data.into_bytes()),
            RecordKind::Srv => RecordData::Srv { priority, weight, port, host: data },
        };
        Some(DnsRecord { ttl: u32::try_from(self.ttl).unwrap_or_default(), data })
    }
}

impl Message {
    /// Parses a message; `None` if it is not valid.
    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_MESSAGE {
            return None;
        }
        serde_json::from_slice(bytes).ok()
    }

    /// The records of an answer.
    #[cfg(target_os = "linux")]
    fn records(self) -> Records {
        let Ok(code) = u8::try_from(self.status) else { return Records::none(Records::FAILED) };
        let answers = self.answer.into_iter().flatten();
        Records { code, found: answers.filter_map(AnswerRecord::record).collect() }
    }
}
