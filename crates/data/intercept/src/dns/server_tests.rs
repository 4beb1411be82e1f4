use std::collections::BTreeMap;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::*;
use crate::dns::upstream::tests::{SOON, fake};
use crate::shared::InFirewall;
use crate::state::{Changes, State};
use crate::{Arrival, InterceptedClient, Options, Protocol, Service, Upstream, UpstreamMode};

/// A DNS server of an interceptor without a firewall.
struct Lab {
    server: Arc<DnsServer>,
    shared: Arc<Shared>,
}

impl Lab {
    fn new() -> Self {
        Self::with(Vec::new())
    }

    fn with(upstream: Vec<Upstream>) -> Self {
        let carry = Arc::new(|_: Arrival, _: InterceptedClient| {});
        let shared = Arc::new(Shared::new(&Options::default(), carry, false));
        let options = DnsOptions {
            listen: Vec::new(),
            upstream,
            mode: UpstreamMode::Serial,
            unanswerable: Unanswerable::Refused,
            clients: BTreeMap::new(),
            private_domains: Vec::new(),
        };
        Self { server: DnsServer::new(Arc::clone(&shared), options, false), shared }
    }

    fn add(&self, addresses: &[&str]) {
        let service = Service {
            id: addresses.concat(),
            protocols: vec![Protocol::Tcp],
            addresses: addresses.iter().map(|&text| text.to_owned()).collect(),
            ports: vec![(80, 80)],
            ..Service::default()
        };
        let add =
            |state: &mut State| -> ((), Changes) { ((), state.add(&service, Instant::now()).0) };
        drop(self.shared.change(add));
    }

    /// The firewall has the present state.
    fn put_in(&self) {
        let revision = self.shared.state.lock().revision();
        self.shared.in_firewall.send_replace(InFirewall { revision, ..InFirewall::default() });
    }

    /// The code and the number of addresses of the answer, and whether the question had to wait.
    async fn ask(&self, name: &str) -> (ResponseCode, usize, bool) {
        self.ask_for(name, RecordType::A).await
    }

    async fn ask_for(&self, name: &str, kind: RecordType) -> (ResponseCode, usize, bool) {
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        let bytes = message.to_vec().unwrap();
        let Read::Question(question) = read(&bytes) else { panic!() };
        let next = self.server.next(&question, [127, 0, 0, 1].into());
        let waits = !matches!(next, Next::Say(_));
        let answer = self.server.finish(next, &question, &bytes, false).await.unwrap();
        let answer = Message::from_vec(&answer).unwrap();
        (answer.metadata.response_code, answer.answers.len(), waits)
    }
}

const FOUND: ResponseCode = ResponseCode::NoError;

#[tokio::test(start_paused = true)]
async fn no_client_is_told_an_address_before_the_firewall_has_it() {
    let lab = Lab::new();
    lab.add(&["old.example", "*.wild.example"]);
    // The firewall has nothing yet, and does not get it in time.
    for name in ["old.example", "a.wild.example", "a.wild.example"] {
        assert_eq!(lab.ask(name).await, (ResponseCode::ServFail, 0, true), "{name}");
    }
    lab.put_in();
    for name in ["old.example", "a.wild.example"] {
        assert_eq!(lab.ask(name).await, (FOUND, 1, false), "{name}");
    }
    // Two clients ask for a name that has no address yet, and one for a new service; others do not wait.
    lab.add(&["new.example"]);
    assert_eq!(lab.ask("old.example").await, (FOUND, 1, false));
    let names = ["b.wild.example", "b.wild.example", "new.example"];
    let asking = futures::future::join_all(names.map(|name| lab.ask(name)));
    let firewall = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        lab.put_in();
    };
    let (answers, ()) = tokio::join!(asking, firewall);
    assert_eq!(answers, [(FOUND, 1, true); 3]);
    // A name that a further service takes waits for that service.
    lab.add(&["old.example", "more.example"]);
    assert_eq!(lab.ask("old.example").await, (ResponseCode::ServFail, 0, true));
    lab.put_in();
    assert_eq!(lab.ask("old.example").await, (FOUND, 1, false));
    // Other programs have removed the rules.
    lab.shared.in_firewall.send_replace(InFirewall::default());
    assert_eq!(lab.ask("old.example").await, (ResponseCode::ServFail, 0, true));
}

/// Questions for records that no service has: those for other names go to other servers.
#[tokio::test]
async fn other_records_come_from_where_the_name_does() {
    const MISSING: ResponseCode = ResponseCode::NXDomain;
    use RecordType::{A, AAAA, AXFR, HTTPS, MX, NS, PTR, SRV, TXT};
    let above = fake(3, SOON).await;
    for upstream in [Some(above.server), None] {
        let lab = Lab::with(upstream.into_iter().collect());
        lab.add(&["one.example", "*.wild.example"]);
        // The name gets its address before the firewall has both.
        tokio::join!(lab.ask("a.wild.example"), async { lab.put_in() });
        for kind in [A, AAAA, MX, TXT, SRV, HTTPS, PTR, NS, AXFR] {
            for name in ["one.example", "a.wild.example"] {
                let addresses = usize::from(kind == A);
                let code = if kind == AXFR { ResponseCode::Refused } else { FOUND };
                let (answered, count, _) = lab.ask_for(name, kind).await;
                assert_eq!((answered, count), (code, addresses), "{name} {kind}");
            }
            assert_eq!(above.asked(), 0, "{kind}");
            for name in ["other.example", "4.3.2.1.in-addr.arpa", "wild.example"] {
                let passed = upstream.is_some() && kind != AXFR;
                let code = if passed { MISSING } else { ResponseCode::Refused };
                let (answered, count, _) = lab.ask_for(name, kind).await;
                assert_eq!((answered, count), (code, 0), "{name} {kind}");
                assert_eq!(above.asked(), usize::from(passed), "{name} {kind}");
            }
        }
    }
}

/// A server that gives every name this address.
async fn liar(address: Ipv4Addr) -> Upstream {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let server = Upstream { address: socket.local_addr().unwrap(), tcp: false };
    tokio::spawn(async move {
        let mut buffer = vec![0; 1000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let mut message = Message::from_vec(&buffer[..length]).unwrap();
            message.metadata.message_type = MessageType::Response;
            let name = message.queries[0].name().clone();
            message.add_answer(Record::from_rdata(name, 60, RData::A(address.into())));
            socket.send_to(&message.to_vec().unwrap(), from).await.unwrap();
        }
    });
    server
}

#[tokio::test]
async fn no_other_server_leads_a_name_to_a_service() {
    for (address, of_public, of_private) in [
        ([203, 0, 113, 9], 1, 1),
        ([10, 0, 0, 9], 1, 1),
        ([127, 0, 0, 1], 0, 1),
        ([100, 64, 0, 2], 0, 0),
    ] {
        let lab = Lab::with(vec![liar(address.into()).await]);
        lab.add(&["one.example"]);
        lab.put_in();
        for (name, count) in [("page.example", of_public), ("printer.local", of_private)] {
            assert_eq!(lab.ask(name).await, (FOUND, count, true), "{name} {address:?}");
        }
        assert_eq!(lab.ask("one.example").await, (FOUND, 1, false), "its own name");
    }
}

#[tokio::test]
async fn localhost_is_this_machine_whatever_others_say() {
    let above = fake(3, SOON).await;
    let lab = Lab::with(vec![above.server]);
    lab.add(&["app.localhost", "*.localhost"]);
    lab.put_in();
    for name in ["localhost", "LOCALHOST.", "app.localhost", "a.b.localhost"] {
        for (kind, count) in [(RecordType::A, 1), (RecordType::AAAA, 1), (RecordType::MX, 0)] {
            assert_eq!(lab.ask_for(name, kind).await, (FOUND, count, false), "{name} {kind}");
        }
    }
    assert_eq!(above.asked(), 0);
    assert_eq!(lab.ask("localhost.example").await.0, ResponseCode::NXDomain);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_not_diverted_costs_other_names_nothing() {
    let lab = Lab::new();
    lab.add(&["one.example"]);
    lab.add(&["other.example"]);
    let Naming::Known(address, revision) = lab.shared.naming("one.example") else { panic!() };
    let undiverted = [address].into();
    lab.shared.in_firewall.send_replace(InFirewall { revision: revision + 1, undiverted });
    assert_eq!(lab.ask("one.example").await, (ResponseCode::ServFail, 0, true));
    assert_eq!(lab.ask("other.example").await, (FOUND, 1, false));
}

#[test]
fn nobody_makes_all_questions_of_others_wait() {
    let waiting = FairSemaphore::new(Quota::new(WAITING.0, WAITING.1));
    let all = |client: &str| -> Vec<Permit<IpAddr>> {
        std::iter::from_fn(|| turn(&waiting, client.parse().unwrap())).collect()
    };
    let (own, one) = (all("127.0.0.1"), all("10.0.0.1"));
    assert_eq!((own.len(), one.len()), (OWN_WAITING, WAITING.1));
    drop(one);
    assert_eq!(all("10.0.0.2").len(), WAITING.1);
}

#[test]
fn strangers_are_not_answered() {
    for near in [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.9",
        "172.31.1.1",
        "100.64.0.1",
        "::1",
        "fd00::1",
        "fe80::1",
    ] {
        assert!(is_near(near.parse().unwrap()), "{near}");
    }
    for far in ["8.8.8.8", "100.128.0.1", "172.32.0.1", "2001:db8::1", "0.0.0.0"] {
        assert!(!is_near(far.parse().unwrap()), "{far}");
    }
}
