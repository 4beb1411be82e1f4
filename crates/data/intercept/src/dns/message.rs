//! Questions and answers, and their bytes.

use std::net::IpAddr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};

use super::rdata::{MOST_RECORDS, data_of};
use crate::names::TTL;
use crate::options::Unanswerable;
use crate::records::{RecordKind, Records};

/// Longest question that is read, in bytes.
pub(crate) const MAX_QUERY: usize = 4096;
/// Longest answer over UDP, in bytes, to a client that names no limit of its own.
const PLAIN_UDP: usize = 512;
/// Longest answer over UDP at all, in bytes; longer datagrams are fragmented on their way.
const MAX_UDP: u16 = 1232;

/// A parsed message of a client.
#[derive(Debug)]
pub(crate) enum Read {
    /// A message that gets no answer.
    Nothing,
    /// A message with a mistake, and the answer that says so.
    Wrong(Vec<u8>),
    /// A question.
    Question(Box<Question>),
}

/// A client's question.
#[derive(Debug)]
pub(crate) struct Question {
    id: u16,
    recursion_desired: bool,
    edns: bool,
    /// Longest answer over UDP that the client accepts, in bytes.
    most: u16,
    query: Query,
    /// The name in lower case, without the dot at its end.
    pub(crate) name: String,
}

/// Parses a client's message. Answers get no answer, so that two servers cannot keep each other
/// busy.
pub(crate) fn read(bytes: &[u8]) -> Read {
    let Some(&[id_high, id_low, flags, ..]) = bytes.first_chunk::<12>().map(|head| &head[..])
    else {
        return Read::Nothing;
    };
    if flags & 0x80 != 0 || bytes.len() > MAX_QUERY {
        return Read::Nothing;
    }
    let id = u16::from_be_bytes([id_high, id_low]);
    let wrong = |code, op| match reply(id, op, code).to_vec() {
        Ok(bytes) => Read::Wrong(bytes),
        Err(_) => Read::Nothing,
    };
    let Ok(message) = Message::from_vec(bytes) else {
        return wrong(ResponseCode::FormErr, OpCode::Query);
    };
    if message.metadata.op_code != OpCode::Query {
        return wrong(ResponseCode::NotImp, message.metadata.op_code);
    }
    let Some(query) = message.queries.first().cloned() else {
        return wrong(ResponseCode::FormErr, OpCode::Query);
    };
    let name = query.name().to_ascii().to_ascii_lowercase();
    Read::Question(Box::new(Question {
        id,
        recursion_desired: message.metadata.recursion_desired,
        edns: message.edns.is_some(),
        most: message.edns.as_ref().map_or(PLAIN_UDP as u16, Edns::max_payload),
        name: name.strip_suffix('.').unwrap_or(&name).to_owned(),
        query,
    }))
}

/// The kind of records that a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An address, of IPv6 if `v6`.
    Address { v6: bool },
    /// Records that the host of a service may know.
    Records(RecordKind),
    /// Records that only another server may know.
    Other,
    /// Records that no other server is asked for: those of another class, and whole zones.
    Unforwarded,
}

impl Question {
    pub(crate) fn kind(&self) -> Kind {
        match (self.query.query_class(), self.query.query_type()) {
            (DNSClass::IN, RecordType::A) => Kind::Address { v6: false },
            (DNSClass::IN, RecordType::AAAA) => Kind::Address { v6: true },
            (DNSClass::IN, RecordType::AXFR | RecordType::IXFR) => Kind::Unforwarded,
            (DNSClass::IN, other) => {
                RecordKind::of(other.into()).map_or(Kind::Other, Kind::Records)
            }
            _ => Kind::Unforwarded,
        }
    }

    /// The answer with the address of a name, or without one of the kind asked for.
    pub(crate) fn found(&self, address: Option<IpAddr>, recursive: bool) -> Option<Vec<u8>> {
        let mut message = self.blank(ResponseCode::NoError, recursive);
        message.metadata.authoritative = true;
        if let Some(address) = address {
            let data = match address {
                IpAddr::V4(address) => RData::A(address.into()),
                IpAddr::V6(address) => RData::AAAA(address.into()),
            };
            let name = self.query.name().clone();
            message.add_answer(Record::from_rdata(name, TTL.as_secs() as u32, data));
        }
        message.to_vec().ok()
    }

    /// The answer with the records of a host. Records of other kinds are left out.
    pub(crate) fn records(&self, records: &Records, recursive: bool) -> Option<Vec<u8>> {
        let Kind::Records(kind) = self.kind() else { return None };
        let code = ResponseCode::from_low(records.code);
        let mut message = self.blank(code, recursive);
        if records.code == Records::FOUND {
            for record in records.found.iter().take(MOST_RECORDS) {
                if let Some((ttl, data)) = data_of(kind, record) {
                    message.add_answer(Record::from_rdata(self.query.name().clone(), ttl, data));
                }
            }
        }
        message.to_vec().ok()
    }

    /// The answer for a name that cannot be looked up.
    pub(crate) fn unanswerable(&self, how: Unanswerable, recursive: bool) -> Option<Vec<u8>> {
        let code = match how {
            Unanswerable::Refused => ResponseCode::Refused,
            Unanswerable::Servfail => ResponseCode::ServFail,
            Unanswerable::Timeout => return None,
        };
        self.blank(code, recursive).to_vec().ok()
    }

    /// The part of another server's answer that fits into a datagram: all of it, or a mark that
    /// there is more.
    pub(crate) fn fitting(&self, answer: Vec<u8>) -> Option<Vec<u8>> {
        if answer.len() <= usize::from(self.most.clamp(PLAIN_UDP as u16, MAX_UDP)) {
            return Some(answer);
        }
        let mut message = self.blank(ResponseCode::NoError, true);
        message.metadata.truncation = true;
        message.to_vec().ok()
    }

    fn blank(&self, code: ResponseCode, recursive: bool) -> Message {
        let mut message = reply(self.id, OpCode::Query, code);
        message.metadata.recursion_desired = self.recursion_desired;
        message.metadata.recursion_available = recursive;
        message.add_query(self.query.clone());
        if self.edns {
            let mut edns = Edns::new();
            edns.set_max_payload(MAX_UDP).set_version(0);
            message.set_edns(edns);
        }
        message
    }
}

fn reply(id: u16, op: OpCode, code: ResponseCode) -> Message {
    let mut message = Message::new(id, MessageType::Response, op);
    message.metadata.response_code = code;
    message
}

/// The quality of another server's answer; less is better. `None` if it is no answer to this
/// question.
pub(crate) fn rank(question: &[u8], answer: &[u8]) -> Option<u8> {
    let (asked, head) = (question.get(..2)?, answer.first_chunk::<12>()?);
    if asked != &head[..2] || head[2] & 0x80 == 0 {
        return None;
    }
    // Some servers leave the question out of their error answers.
    let message = Message::from_vec(answer).ok()?;
    let own = Message::from_vec(question).ok()?;
    let answered = message.queries.first();
    if answered.is_some() && answered != own.queries.first() {
        return None;
    }
    Some(match message.metadata.response_code {
        ResponseCode::NoError if answered.is_some() => 0,
        ResponseCode::NXDomain => 1,
        ResponseCode::ServFail => 2,
        ResponseCode::Refused => 3,
        _ => 4,
    })
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::Name;
    use proptest::prelude::*;

    use super::*;
    use crate::records::{self, RecordData};

    pub(crate) fn ask(name: &str, kind: RecordType) -> Vec<u8> {
        let mut message = Message::new(77, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        message.to_vec().unwrap()
    }

    fn question(bytes: &[u8]) -> Question {
        match read(bytes) {
            Read::Question(question) => *question,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_name_is_answered_as_it_was_asked() {
        let asked = question(&ask("Web.Corp.Example.", RecordType::A));
        assert_eq!(
            (asked.name.as_str(), asked.kind()),
            ("web.corp.example", Kind::Address { v6: false })
        );
        let bytes = asked.found(Some([100, 64, 0, 2].into()), false).unwrap();
        let answer = Message::from_vec(&bytes).unwrap();
        assert_eq!(answer.metadata.id, 77);
        assert!(answer.metadata.authoritative && answer.metadata.recursion_desired);
        assert!(!answer.metadata.recursion_available && answer.edns.is_none());
        assert_eq!(answer.answers.len(), 1);
        assert_eq!(
            (answer.answers[0].ttl, answer.answers[0].name.to_ascii()),
            (60, "Web.Corp.Example.".into())
        );
        let none = question(&ask("web.", RecordType::AAAA)).found(None, true).unwrap();
        let none = Message::from_vec(&none).unwrap();
        assert_eq!((none.metadata.response_code, none.answers.len()), (ResponseCode::NoError, 0));
        assert!(none.metadata.recursion_available);
    }

    #[test]
    fn what_is_no_question_is_told_so_or_left_alone() {
        assert!(matches!(read(&[1, 2, 3]), Read::Nothing));
        let mut empty = vec![0; 12];
        assert!(matches!(read(&empty), Read::Wrong(_)));
        empty[2] = 0x80;
        assert!(matches!(read(&empty), Read::Nothing), "an answer is not answered");
        let mut notify = ask("a.", RecordType::A);
        notify[2] = 4 << 3;
        let Read::Wrong(answer) = read(&notify) else { panic!() };
        assert_eq!(
            Message::from_vec(&answer).unwrap().metadata.response_code,
            ResponseCode::NotImp
        );
        let asked = question(&ask("a.", RecordType::MX));
        assert_eq!(asked.kind(), Kind::Records(RecordKind::Mx));
        assert_eq!(question(&ask("a.", RecordType::NS)).kind(), Kind::Other);
        assert_eq!(question(&ask("a.", RecordType::AXFR)).kind(), Kind::Unforwarded);
        assert_eq!(asked.unanswerable(Unanswerable::Timeout, false), None);
        let refused = asked.unanswerable(Unanswerable::Refused, false).unwrap();
        assert_eq!(
            Message::from_vec(&refused).unwrap().metadata.response_code,
            ResponseCode::Refused
        );
    }

    #[test]
    fn an_answer_of_another_server_has_to_be_one() {
        let own = ask("a.", RecordType::A);
        let good = question(&own).found(Some([1, 2, 3, 4].into()), true).unwrap();
        assert_eq!(rank(&own, &good), Some(0));
        let refused = question(&own).unanswerable(Unanswerable::Refused, true).unwrap();
        assert_eq!(rank(&own, &refused), Some(3));
        let other = question(&ask("b.", RecordType::A)).found(None, true).unwrap();
        assert_eq!(rank(&own, &other), None);
        let mut wrong = good.clone();
        wrong[1] ^= 1;
        assert_eq!(rank(&own, &wrong), None);
        assert_eq!(rank(&own, &own), None);
        assert_eq!(question(&own).fitting(good.clone()), Some(good));
        let cut = question(&own).fitting(vec![0; 600]).unwrap();
        assert!(Message::from_vec(&cut).unwrap().metadata.truncation);
    }

    #[test]
    fn records_of_hosts_are_taken_as_far_as_they_are_what_was_asked_for() {
        let found = |data| records::DnsRecord { ttl: u32::MAX, data };
        let mx = |host: &str| RecordData::Mx { preference: 5, host: host.into() };
        let asked = question(&ask("Corp.example.", RecordType::MX));
        let wrong = ["x".repeat(64), "a..b".into()].map(|host| found(mx(&host)));
        let mut all = vec![found(mx("mail.corp.example")), found(RecordData::Txt(b"t".to_vec()))];
        all.extend(wrong);
        let records = Records { code: Records::FOUND, found: all };
        let answer = Message::from_vec(&asked.records(&records, false).unwrap()).unwrap();
        assert_eq!(answer.answers.len(), 1, "{answer:?}");
        assert_eq!(answer.answers[0].ttl, 86_400);
        let RData::MX(mx) = &answer.answers[0].data else { panic!("{answer:?}") };
        assert_eq!((mx.preference, mx.exchange.to_ascii()), (5, "mail.corp.example.".into()));
        assert_eq!(answer.answers[0].name.to_ascii(), "Corp.example.");
        let none = asked.records(&Records::none(Records::NO_NAME), false).unwrap();
        let none = Message::from_vec(&none).unwrap();
        assert_eq!(none.metadata.response_code, ResponseCode::NXDomain);
        let asked = question(&ask("a.example.", RecordType::TXT));
        for length in [0, 1, 255, 256, 5_000] {
            let text = RecordData::Txt(vec![7; length]);
            let records = Records { code: Records::FOUND, found: vec![found(text)] };
            let answer = Message::from_vec(&asked.records(&records, false).unwrap()).unwrap();
            let RData::TXT(text) = &answer.answers[0].data else { panic!("{answer:?}") };
            assert_eq!(text.txt_data.concat().len(), length);
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..40, to: u8) {
            let mut near = ask("some.name.example.", RecordType::A);
            if let Some(byte) = near.get_mut(at) {
                *byte = to;
            }
            for bytes in [&bytes, &near] {
                if let Read::Question(question) = read(bytes) {
                    question.found(Some([1, 2, 3, 4].into()), true);
                    question.unanswerable(Unanswerable::Servfail, true);
                }
                rank(&near, bytes);
            }
        }
    }
}
