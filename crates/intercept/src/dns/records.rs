//! Records other than addresses, as wire format, and questions to other servers for them.

use futures::{FutureExt, future::BoxFuture};
use hickory_proto::{
    op::{Message, MessageType, OpCode, Query},
    rr::{
        DNSClass, Name, RData, RecordType,
        rdata::{MX, SRV, TXT},
    },
};

use super::{own::OwnHosts, upstream::Upstreams};
use crate::records::{FindRecords, Record, RecordData, RecordKind, RecordQuestion, Records};

/// Most records of one answer that are used.
pub(super) const MOST_RECORDS: usize = 64;
/// Longest time in seconds that a record is valid: a day.
const MOST_TTL: u32 = 86_400;
/// The longest string of a text record, in bytes.
const STRING: usize = 255;

impl FindRecords for OwnHosts {
    /// Asks the DNS servers of this machine, but not this program's own.
    fn find(&self, question: RecordQuestion) -> BoxFuture<'_, Option<Records>> {
        async move { found(&self.others().await?, &question).await }.boxed()
    }
}

/// The answer of other servers; an answer that is cut is asked for again over TCP.
async fn found(upstreams: &Upstreams, question: &RecordQuestion) -> Option<Records> {
    let bytes = written(question)?;
    for tcp in [false, true] {
        let answer = Message::from_vec(&upstreams.ask(&bytes, tcp).await?).ok()?;
        if tcp || !answer.metadata.truncation {
            return Some(read(question.kind, answer));
        }
    }
    None
}

fn record_type(kind: RecordKind) -> RecordType {
    RecordType::from(kind.number())
}

fn written(question: &RecordQuestion) -> Option<Vec<u8>> {
    let name = Name::from_ascii(format!("{}.", question.name)).ok()?;
    let mut message = Message::new(0, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, record_type(question.kind)));
    message.to_vec().ok()
}

fn read(kind: RecordKind, answer: Message) -> Records {
    let code = answer.metadata.response_code.low();
    if code != Records::FOUND {
        return Records::none(code);
    }
    // Alias records on the way to the answer are left out.
    let of_kind = answer.answers.into_iter().filter(|record| {
        record.dns_class == DNSClass::IN && record.record_type() == record_type(kind)
    });
    let found = of_kind.filter_map(|record| {
        let ttl = record.ttl.min(MOST_TTL);
        let data = match record.data {
            RData::MX(mx) => {
                RecordData::Mx { preference: mx.preference, host: mx.exchange.to_ascii() }
            }
            RData::TXT(txt) => RecordData::Txt(txt.txt_data.concat()),
            RData::SRV(srv) => RecordData::Srv {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                host: srv.target.to_ascii(),
            },
            _ => return None,
        };
        Some(Record { ttl, data })
    });
    Records { code, found: found.take(MOST_RECORDS).collect() }
}

/// The data of a record for an answer; `None` if it cannot be encoded, or is of another kind.
pub(super) fn data_of(kind: RecordKind, record: &Record) -> Option<(u32, RData)> {
    let host = |text: &str| {
        let mut name = Name::from_ascii(text).ok()?;
        name.set_fqdn(true);
        Some(name)
    };
    let data = match (&record.data, kind) {
        (RecordData::Mx { preference, host: to }, RecordKind::Mx) => {
            RData::MX(MX::new(*preference, host(to)?))
        }
        (RecordData::Srv { priority, weight, port, host: to }, RecordKind::Srv) => {
            RData::SRV(SRV::new(*priority, *weight, *port, host(to)?))
        }
        (RecordData::Txt(text), RecordKind::Txt) => {
            let mut strings: Vec<&[u8]> = text.chunks(STRING).collect();
            if strings.is_empty() {
                strings.push(&[]);
            }
            RData::TXT(TXT::from_bytes(strings))
        }
        _ => return None,
    };
    Some((record.ttl.min(MOST_TTL), data))
}
