//! Records other than addresses, as wire format, and questions to other servers for them.

use futures::FutureExt;
use futures::future::BoxFuture;
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};

use super::own::OwnHosts;
use super::rdata::{MOST_RECORDS, MOST_TTL};
use super::upstream::Upstreams;
use crate::records::{DnsRecord, FindRecords, RecordData, RecordKind, RecordQuestion, Records};

impl FindRecords for OwnHosts {
    /// Asks the DNS servers of this machine, but not this program's own.
    fn find(&self, question: RecordQuestion) -> BoxFuture<'_, Option<Records>> {
        async move { found(&*self.others().await?, &question).await }.boxed()
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
        Some(DnsRecord { ttl, data })
    });
    Records { code, found: found.take(MOST_RECORDS).collect() }
}
