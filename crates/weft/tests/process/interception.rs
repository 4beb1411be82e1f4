//! Interception by the program itself, with real clients: a router with `mode: tproxy`, and
//! `weft tunnel run`.
//!
//! ```text
//!  client 10.77.1.2, fd77::2 -- lan0 gateway: a whole network, and applications on loopback
//! ```
//!
//! A test runs this test program once more inside the gateway, a network namespace, so that all
//! programs that the test starts run there. The tests need root, and programs such as `nft`. Where one
//! is missing, the tests print SKIPPED, or fail if `WEFT_NAMESPACES=required` is set.

mod crowd;
mod lab;
mod router;
mod tunneler;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use weft_contract::resource;

use self::lab::Lab;
use crate::operator::Operator;
use crate::wait::{PATIENCE, until};

/// The web server's page.
const PAGE: &str = "through the overlay";

/// A web server with one page; returns its port.
async fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await?);
                }
                stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{PAGE}\n").as_bytes()).await?;
                stream.shutdown().await
            });
        }
    });
    port
}

/// A server that sends every datagram back; returns its port.
async fn reflector() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..length], from).await;
        }
    });
    port
}

/// The ids of the config types for intercepting and hosting.
async fn types(operator: &Operator) -> [String; 2] {
    let all = operator.list(&resource::config::CONFIG_TYPE_KIND).await;
    ["intercept.v1", "host.v1"].map(|name| {
        let of_name = all.iter().find(|one| one["name"] == name).unwrap();
        of_name["id"].as_str().unwrap().to_owned()
    })
}

/// A service that is intercepted at these addresses and ports, and hosted at a port of loopback.
async fn service(
    operator: &Operator,
    types: &[String; 2],
    name: &str,
    protocol: &str,
    addresses: &[&str],
    (low, high): (u16, u16),
    hosted: u16,
) -> String {
    let intercept = json!({
        "protocols": [protocol], "addresses": addresses, "portRanges": [{"low": low, "high": high}],
    });
    let host = json!({"protocol": protocol, "address": "127.0.0.1", "port": hosted});
    let mut configs = Vec::new();
    for (kind, data) in types.iter().zip([intercept, host]) {
        let body = json!({"name": format!("{name} {kind}"), "configTypeId": kind, "data": data});
        configs.push(operator.create(&resource::config::CONFIG_KIND, &body).await);
    }
    let body = json!({"name": name, "encryptionRequired": true, "configs": configs});
    operator.create(&resource::service::KIND, &body).await
}

async fn remove(operator: &Operator, service: &str) {
    let delete = resource::service::KIND.delete().unwrap();
    operator.client.call::<Value>(delete, &[service], &[], None).await.unwrap();
}

/// Waits until a command in one of the namespaces prints these words.
async fn prints(lab: &Lab, place: lab::Namespace, script: &str, words: &str) {
    let look = async || match lab.says(place, script).await {
        Ok(said) if said.contains(words) => Ok(()),
        other => Err(other),
    };
    until(script, PATIENCE, look).await;
}

/// Waits until a command in one of the namespaces fails.
async fn fails(lab: &Lab, place: lab::Namespace, script: &str) {
    let look = async || match lab.says(place, script).await {
        Ok(said) => Err(said),
        Err(_) => Ok(()),
    };
    until(script, PATIENCE, look).await;
}

/// A command that fetches a page, with a short time limit.
fn get(url: &str) -> String {
    format!("curl -sS -g --max-time 3 {url}")
}
