use std::net::Ipv4Addr;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

use super::*;
use crate::Configs;

const LONG: Duration = Duration::from_secs(20);

fn dialer() -> DialingIdentity {
    DialingIdentity::new(Some("alice"), "a")
}

fn config(text: serde_json::Value) -> HostConfig {
    let configs = Configs::from([("host.v1".to_owned(), text.to_string())]);
    HostConfig::read(&configs).unwrap().remove(0)
}

fn data(text: serde_json::Value) -> AppData {
    AppData::parse(text.to_string().as_bytes()).unwrap()
}

/// The address that a dial of this host reaches, if the service allows these; the same over TCP and
/// in datagrams.
async fn dialed(allowed: &str, key: &str, host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut reached = Vec::new();
    for protocol in ["tcp", "udp"] {
        let config = config(serde_json::json!({
            "protocol": protocol, "forwardAddress": true, "allowedAddresses": [allowed],
            "port": port,
        }));
        let connected =
            config.connect(&dialer(), &data(serde_json::json!({key: host})), LONG, None).await;
        reached.push(match connected.map_err(|refused| refused.to_string()) {
            Ok(Connected::Tcp(stream)) => Ok(stream.peer_addr().unwrap()),
            Ok(Connected::Udp(socket)) => Ok(socket.addresses().1.unwrap()),
            Ok(Connected::Resolver(names)) => panic!("{names:?}"),
            Err(refused) => Err(refused),
        });
    }
    // A name may have addresses of both families; TCP connects to the one that answers.
    assert_eq!(reached[0].as_ref().err(), reached[1].as_ref().err());
    reached.remove(0)
}

#[tokio::test]
async fn a_dialer_gets_nowhere_but_where_the_service_allows() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap();
    let dialed = |allowed, key, host| dialed(allowed, key, host, here.port());
    // `*` allows every name, but no IP address in the place of a name.
    assert_eq!(dialed("*", "dst_hostname", "localhost").await, Ok(here));
    for form in ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "::ffff:127.0.0.1", "0"] {
        for allowed in ["*", "::/0", "10.0.0.0/8", "*.corp.example"] {
            for key in ["dst_hostname", "dst_ip"] {
                let refused = dialed(allowed, key, form).await.unwrap_err();
                assert!(refused.contains("is not in allowed addresses"), "{refused}");
            }
        }
        assert_eq!(dialed("127.0.0.1", "dst_hostname", form).await, Ok(here));
    }
    let refused = dialed("127.0.0.1", "dst_hostname", "localhost").await.unwrap_err();
    assert!(refused.contains("is not in allowed addresses"), "{refused}");
}

#[tokio::test]
async fn failures_have_their_class() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let of = |host: &str| HostConfig::fixed(Protocol::Tcp, host, port);
    let refused =
        of("127.0.0.1").connect(&dialer(), &AppData::default(), LONG, None).await.unwrap_err();
    assert_eq!(refused.cause, RefusalCause::Refused);
    // A label is too long, so that no DNS server is asked.
    let name = format!("{}.invalid", "x".repeat(64));
    let unknown = of(&name).connect(&dialer(), &AppData::default(), LONG, None).await.unwrap_err();
    assert_eq!(unknown.cause, RefusalCause::Unresolved, "{unknown}");
}

#[tokio::test]
async fn a_time_limit_says_its_length_and_what_has_cut_it() {
    // Connections beyond its queue get no answer.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let port = listener.local_addr().unwrap().port();
    for (options, said) in [
        (serde_json::json!({}), "(within 500ms)"),
        (serde_json::json!({"connectTimeout": "400ms"}), "(within 400ms)"),
        (
            serde_json::json!({"connectTimeoutSeconds": 30}),
            "(within 500ms: a dial leaves no more; the config says 30s)",
        ),
    ] {
        let config = config(serde_json::json!({
            "protocol": "tcp", "address": "127.0.0.1", "port": port, "listenOptions": options,
        }));
        let mut queued = Vec::new();
        let refused = loop {
            let limit = Duration::from_millis(500);
            match config.connect(&dialer(), &AppData::default(), limit, None).await {
                Ok(connected) => queued.push(connected),
                Err(refused) => break refused,
            }
            assert!(queued.len() < 64, "the queue of a listener has an end");
        };
        assert_eq!(refused.cause, RefusalCause::TimedOut, "{refused}");
        assert!(refused.message.ends_with(said), "{refused}");
    }
}

#[tokio::test]
async fn a_source_address_has_to_be_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let with = |allowed: serde_json::Value| {
        let mut text = serde_json::json!({"protocol": "tcp", "address": "127.0.0.1", "port": port});
        if !allowed.is_null() {
            text["allowedSourceAddresses"] = allowed;
        }
        config(text)
    };
    let (some, any) = (with(serde_json::json!(["127.0.0.8/30"])), with(serde_json::Value::Null));
    let from = |config: HostConfig, source: serde_json::Value| {
        let data = data(serde_json::json!({"source_addr": source}));
        async move { config.connect(&dialer(), &data, LONG, None).await }
    };
    for (source, expected) in [("127.0.0.9", None), ("127.0.0.10:40123", Some(40123))] {
        let connected = from(some.clone(), source.into()).await.unwrap();
        let (local, _) = connected.addresses();
        assert_eq!(local.unwrap().ip().to_string(), source.split(':').next().unwrap());
        assert!(expected.is_none_or(|port| local.unwrap().port() == port));
        assert_eq!(listener.accept().await.unwrap().1, local.unwrap());
    }
    for source in ["127.0.0.1", "10.0.0.1:5", "::1", "[::ffff:127.0.0.1]:5"] {
        let refused = from(some.clone(), source.into()).await.unwrap_err();
        assert!(refused.message.contains("is not in allowed source addresses"), "{refused}");
    }
    // An address of this machine can be bound; another one cannot.
    assert!(from(any.clone(), "127.0.0.1".into()).await.is_ok());
    assert!(from(any.clone(), "203.0.113.7".into()).await.is_err());
    for source in ["127.0.0.1:22", "$src_ip:5", "x"] {
        assert!(from(any.clone(), source.into()).await.is_err(), "{source}");
    }
    assert!(from(any, 5.into()).await.is_err(), "no text");
}

#[tokio::test]
async fn datagrams_come_from_where_they_should() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let config = config(serde_json::json!({
        "protocol": "udp", "address": "127.0.0.1", "port": socket.local_addr().unwrap().port(),
        "allowedSourceAddresses": ["127.0.0.9"],
    }));
    let data = data(serde_json::json!({"source_addr": "127.0.0.9:0"}));
    let Connected::Udp(connected) = config.connect(&dialer(), &data, LONG, None).await.unwrap()
    else {
        panic!("udp was asked for")
    };
    connected.send(&Bytes::from_static(b"x")).await.unwrap();
    let mut buffer = [0; 8];
    let (_, from) = socket.recv_from(&mut buffer).await.unwrap();
    assert_eq!(from.ip(), Ipv4Addr::new(127, 0, 0, 9));
}

/// A proxy that gives this answer to the first request. Its task returns the head of the request.
async fn proxy(answer: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(head).unwrap()
    });
    (port, serving)
}

#[tokio::test]
async fn a_proxy_gets_what_was_judged() {
    let through = |allowed: &str, proxy: u16| {
        config(serde_json::json!({
            "protocol": "tcp", "forwardAddress": true, "allowedAddresses": [allowed], "port": 80,
            "proxy": {"type": "http", "address": format!("127.0.0.1:{proxy}")},
        }))
    };
    let name = |name: &str| data(serde_json::json!({"dst_hostname": name}));
    // The first bytes of the application come in one piece with the proxy's answer, behind it.
    let (port, serving) = proxy("HTTP/1.1 200 OK\r\nVia: x\r\n\r\nSSH-2.0\r\n").await;
    let connected =
        through("*", port).connect(&dialer(), &name("web.example"), LONG, None).await.unwrap();
    assert!(
        serving
            .await
            .unwrap()
            .starts_with("CONNECT web.example:80 HTTP/1.1\r\nHost: web.example:80\r\n")
    );
    let Connected::Tcp(mut stream) = connected else { panic!("tcp was asked for") };
    let mut first = [0; 9];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"SSH-2.0\r\n");
    // A name below an allowed domain is resolved here, not by the proxy.
    let (port, serving) = proxy("HTTP/1.1 200 OK\r\n\r\n").await;
    through("*.localhost", port)
        .connect(&dialer(), &name("a.localhost"), LONG, None)
        .await
        .unwrap();
    assert!(serving.await.unwrap().starts_with("CONNECT "));
    for answer in ["HTTP/1.1 403 Forbidden\r\n\r\n", "SMTP 220\r\n\r\n"] {
        let (port, _serving) = proxy(answer).await;
        assert!(
            through("*", port).connect(&dialer(), &name("web"), LONG, None).await.is_err(),
            "{answer}"
        );
    }
    let udp = config(serde_json::json!({
        "protocol": "udp", "address": "a", "port": 1, "proxy": {"type": "http", "address": "p:1"},
    }));
    let refused = udp.connect(&dialer(), &AppData::default(), LONG, None).await.unwrap_err();
    assert!(refused.message.contains("udp does not go through"), "{refused}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_application_is_given_up_as_it_is_asked_for() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config =
        HostConfig::fixed(Protocol::Tcp, "127.0.0.1", listener.local_addr().unwrap().port());
    for patience in [Some(Duration::from_secs(30)), None] {
        let connected =
            config.connect(&dialer(), &AppData::default(), LONG, patience).await.unwrap();
        let Connected::Tcp(stream) = connected else { panic!("tcp was asked for") };
        assert_eq!(socket2::SockRef::from(&stream).tcp_user_timeout().unwrap(), patience);
    }
}
