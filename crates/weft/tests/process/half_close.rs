//! Half-close in both directions: ending one direction does not end the other.

use tokio::io::AsyncWriteExt as _;
use weft_sdk::{Endpoint, EndpointBuilder};

use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::streams::{Manner, Server, check, dial, send};
use crate::wait::{PATIENCE, within};

/// More than any window, so that data flows long after the other direction has ended.
const ASKED: u64 = (3 << 20) + 7;
const ANSWERED: u64 = (5 << 20) + 3;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_after_the_other_side_has_ended_is_read_to_the_end() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    operator.allow_everybody().await;
    let serving = operator.endpoint("host").await;
    let own = operator.endpoint("dialer").await;
    let legacy = EndpointBuilder::new().router_flow_control();
    let legacy = operator.endpoint_with("legacy-dialer", legacy).await;
    let legacy_host = EndpointBuilder::new().router_flow_control();
    let legacy_host = operator.endpoint_with("legacy-host", legacy_host).await;

    for (word, encrypted) in [("encrypted", true), ("plain", false)] {
        for manner in [Manner::Last(ANSWERED), Manner::First(ANSWERED)] {
            let service = |by: &str| {
                let order = if matches!(manner, Manner::Last(_)) { "last" } else { "first" };
                format!("{word}-{order}-{by}")
            };
            let mut tcp = Server::tcp(manner).await;
            operator.tunneled(&service("tunnel"), tcp.port(), encrypted).await;
            for dialer in [&own, &legacy] {
                talk(dialer, &service("tunnel"), encrypted, manner).await;
                assert_eq!(tcp.heard().await, ASKED, "{}", service("tunnel"));
            }
            for (by, hosting) in [("sdk", &serving), ("legacy-sdk", &legacy_host)] {
                operator.service(&service(by), encrypted).await;
                let mut hosted = Server::sdk(hosting, &service(by), manner).await;
                for dialer in [&own, &legacy] {
                    talk(dialer, &service(by), encrypted, manner).await;
                    assert_eq!(hosted.heard().await, ASKED, "{}", service(by));
                }
            }
        }
    }
}

/// One conversation, for each manner of the host.
async fn talk(dialer: &Endpoint, service: &str, encrypted: bool, manner: Manner) {
    let mut stream = dial(dialer, service).await;
    assert_eq!(stream.is_encrypted(), encrypted, "{service}");
    let talked = async {
        if matches!(manner, Manner::First(_)) {
            assert_eq!(check(&mut stream).await?, ANSWERED, "{service}");
        }
        send(&mut stream, ASKED).await?;
        stream.shutdown().await?;
        if matches!(manner, Manner::Last(_)) {
            assert_eq!(check(&mut stream).await?, ANSWERED, "{service}");
        }
        stream.close().await?;
        std::io::Result::Ok(())
    };
    within(service, PATIENCE, talked).await.unwrap_or_else(|error| panic!("{service}: {error}"));
}
