//! Records besides addresses, in their form for answers.

use hickory_proto::rr::rdata::{MX, SRV, TXT};
use hickory_proto::rr::{Name, RData};

use crate::records::{DnsRecord, RecordData, RecordKind};

/// Most records in one answer; further ones are left out.
pub(super) const MOST_RECORDS: usize = 64;
/// Longest time to live of a record, in seconds: a day.
pub(super) const MOST_TTL: u32 = 86_400;
/// The longest string of a text record, in bytes.
const STRING: usize = 255;

/// The time to live and the data of a record, for an answer. `None` for a record of another kind,
/// and for one whose host is not a DNS name.
pub(super) fn data_of(kind: RecordKind, record: &DnsRecord) -> Option<(u32, RData)> {
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
