//! Files in compressed forms, made here or kept beside the file.

use flate2::read::ZlibDecoder;

use super::*;

#[tokio::test]
async fn files_are_compressed_for_who_takes_them_so() {
    let served = Served::new().await;
    let get = |path: &'static str, encodings: &'static str| async {
        served.get(path, &[("accept-encoding", encodings)]).await
    };
    let script = SCRIPT.repeat(1000);
    for _ in 0..2 {
        let seen = get("/zac/main.js", "gzip, deflate, br").await;
        assert_eq!(seen.header("content-encoding"), Some("gzip"));
        assert_eq!(seen.header("content-type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(seen.header("content-length").unwrap(), seen.bytes.len().to_string());
        assert!(seen.bytes.len() * 10 < script.len());
        assert_eq!(gunzip(&seen.bytes), script);
        let mut text = String::new();
        let seen = get("/zac/main.js", "deflate, gzip;q=0.5").await;
        assert_eq!(seen.header("content-encoding"), Some("deflate"));
        ZlibDecoder::new(&seen.bytes[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, script);
    }
    let head = served.ask(Method::HEAD, "/zac/main.js", &[("accept-encoding", "gzip")]).await;
    assert_eq!((head.header("content-encoding"), head.text.as_str()), (Some("gzip"), ""));
    // Not compressed: for clients that do not accept it, and bodies that would not get smaller.
    for (path, encodings) in [
        ("/zac/main.js", "identity"),
        ("/zac/main.js", "gzip;q=0"),
        ("/zac/main.js", "br"),
        ("/zac/small.js", "gzip"),
        ("/zac/assets/picture.png", "gzip"),
        ("/zac/assets/font.woff2", "gzip"),
    ] {
        let seen = get(path, encodings).await;
        assert_eq!(seen.header("content-encoding"), None, "{path} {encodings}");
        assert_eq!(seen.header("vary"), Some("accept-encoding"));
    }
}

#[tokio::test]
async fn what_somebody_has_compressed_before_is_sent() {
    let served = Served::new().await;
    let get = |encodings: &'static str| async {
        let seen = served.get("/zac/main.js", &[("accept-encoding", encodings)]).await;
        (seen.header("content-encoding").map(str::to_owned), seen.bytes)
    };
    write(&served.path("main.js.br"), "BROTLI");
    write(&served.path("main.js.gz"), "GZIP");
    let is = |seen: (Option<String>, bytes::Bytes), encoding: &str, body: &str| {
        assert_eq!((seen.0.as_deref(), &seen.1[..]), (Some(encoding), body.as_bytes()));
    };
    is(get("gzip, deflate, br").await, "br", "BROTLI");
    is(get("gzip, br;q=0.5").await, "gzip", "GZIP");
    assert_eq!(get("deflate").await.0.as_deref(), Some("deflate"));
    assert_eq!(get("identity").await.0, None);
    let seen = served.get("/zac/main.js.gz", &[]).await;
    assert_eq!(
        (seen.header("content-type"), seen.text.as_str()),
        (Some("application/gzip"), "GZIP")
    );
    // A compressed form that is older than the file is not used.
    let old = SystemTime::now() - Duration::from_secs(3600);
    for name in ["main.js.br", "main.js.gz"] {
        fs::File::options().write(true).open(served.path(name)).unwrap().set_modified(old).unwrap();
    }
    let (encoding, body) = get("gzip, br").await;
    assert_eq!((encoding.as_deref(), gunzip(&body)), (Some("gzip"), SCRIPT.repeat(1000)));
}

#[tokio::test]
async fn large_files_are_compressed_while_they_are_sent() {
    let served = Served::new().await;
    let mut text = String::new();
    for line in 0..400_000 {
        text.push_str(&format!("line {line} of a file that is too large to be kept\n"));
    }
    assert!(text.len() > 16 * 1024 * 1024);
    fs::write(served.path("large.txt"), &text).unwrap();
    let seen = served.get("/zac/large.txt", &[("accept-encoding", "gzip")]).await;
    assert_eq!(
        (seen.header("content-encoding"), seen.header("content-length")),
        (Some("gzip"), None)
    );
    assert!(gunzip(&seen.bytes) == text);
    let seen = served.get("/zac/large.txt", &[]).await;
    assert_eq!(seen.header("content-length").unwrap(), text.len().to_string());
    assert!(seen.text == text);
}
