//! Answers of the APIs for clients that take them compressed.

use std::io::Read as _;

use flate2::read::{GzDecoder, ZlibDecoder};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Bed, MANAGEMENT, PASSWORD, Seen, send};

fn unpacked(seen: &Seen) -> Vec<u8> {
    let mut out = Vec::new();
    match seen.header("content-encoding") {
        Some("gzip") => GzDecoder::new(&seen.bytes[..]).read_to_end(&mut out).unwrap(),
        Some("deflate") => ZlibDecoder::new(&seen.bytes[..]).read_to_end(&mut out).unwrap(),
        other => panic!("{other:?}: {seen:?}"),
    };
    assert_eq!(seen.header("content-length").unwrap(), seen.bytes.len().to_string());
    out
}

async fn get(bed: &Bed, token: &str, path: &str, encodings: &str) -> Seen {
    let request = bed.request(Method::GET, path).header("zt-session", token);
    send(request.header("accept-encoding", encodings)).await
}

#[tokio::test]
async fn long_answers_are_compressed_for_who_takes_them_so() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for n in 0..200 {
        let name = format!("service {n:03}");
        admin.create("services", json!({"name": name, "encryptionRequired": false})).await;
    }
    // One body below and one above the size that is compressed on the task of the connection.
    for (limit, most) in [(10, 32 * 1024), (200, usize::MAX)] {
        let path = format!("{MANAGEMENT}/services?limit={limit}");
        let plain = get(&bed, &admin.token, &path, "identity").await;
        assert!(plain.bytes.len() < most && plain.bytes.len() > 1024, "{}", plain.bytes.len());
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(plain.header("vary"), Some("accept-encoding"));
        for (encodings, encoding) in [
            ("gzip, deflate, br, zstd", Some("gzip")),
            ("gzip;q=0.3, deflate;q=0.7", Some("deflate")),
            ("*", Some("gzip")),
            ("br, gzip;q=0", None),
            ("zstd", None),
        ] {
            let seen = get(&bed, &admin.token, &path, encodings).await;
            assert_eq!(seen.header("content-encoding"), encoding, "{encodings}");
            assert_eq!(seen.header("content-type"), Some("application/json"));
            assert_eq!(seen.header("vary"), Some("accept-encoding"));
            let body = if encoding.is_some() { unpacked(&seen) } else { seen.bytes.to_vec() };
            assert!(body == plain.bytes, "{encodings}");
            assert!(encoding.is_none() || seen.bytes.len() * 3 < plain.bytes.len());
        }
    }
    let none = get(&bed, &admin.token, &format!("{MANAGEMENT}/services?limit=1"), "gzip").await;
    assert_eq!((none.header("content-encoding"), none.header("vary")), (None, None), "too short");
}

#[tokio::test]
async fn descriptions_are_compressed_once() {
    let bed = Bed::new().await;
    for path in ["/edge/client/v1/swagger.json", "/edge/client/v1/specs/edge-client/spec"] {
        let plain: Value = bed.get(path).await.json();
        let mut lengths = Vec::new();
        for _ in 0..2 {
            let seen = get(&bed, "", path, "gzip").await;
            let read: Value = serde_json::from_slice(&unpacked(&seen)).unwrap();
            assert!(read == plain);
            lengths.push(seen.bytes.len());
        }
        assert_eq!(lengths[0], lengths[1]);
    }
    let yaml = bed.request(Method::GET, "/edge/client/v1/specs/edge-client/spec");
    let yaml = send(yaml.header("accept", "text/yaml").header("accept-encoding", "gzip")).await;
    assert_eq!(yaml.header("content-type"), Some("text/yaml"));
    assert!(unpacked(&yaml).starts_with(b"swagger: '2.0'"));
}

#[tokio::test]
async fn what_opens_doors_is_not_compressed() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let long = json!({"name": "x".repeat(1024), "type": "Default", "isAdmin": true});
    let id = admin.create("identities", long).await;
    let body = json!({"username": "somebody", "password": PASSWORD});
    let mut authenticator = body.clone();
    authenticator["identityId"] = id.into();
    authenticator["method"] = "updb".into();
    admin.create("authenticators", authenticator).await;
    let path = format!("{MANAGEMENT}/authenticate?method=password");
    let request = bed.request(Method::POST, &path).json(&body).header("accept-encoding", "gzip");
    let login = send(request).await;
    assert!(login.status == 200 && login.bytes.len() > 1024, "{login:?}");
    let token = login.header("zt-session").unwrap();
    let current = get(&bed, token, &format!("{MANAGEMENT}/current-api-session"), "gzip").await;
    assert!(current.status == 200 && current.bytes.len() > 1024, "{current:?}");
    for seen in [&login, &current] {
        assert_eq!((seen.header("content-encoding"), seen.header("vary")), (None, None));
        assert_eq!(seen.data()["token"], token);
    }
}
