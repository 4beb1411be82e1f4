//! Applications that are served from the disk.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::read::GzDecoder;
use reqwest::Method;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_config::web::WebOptions;
use weft_config::{ContentPolicy, FileOptions, WebApi, WebServer};
use weft_identity::tls::{ClientTls, client_config};

use super::{Bed, LONG, Seen, section, send};
use crate::ApiLimits;

mod compressed;
mod policy;

const SCRIPT: &str = "export const answer = 42;\n";

/// A network whose web server has an application, too.
struct Served {
    bed: Bed,
    dir: TempDir,
}

impl Served {
    /// An application `zac` with files of every kind.
    async fn new() -> Self {
        Self::with(ApiLimits::default(), WebOptions::default()).await
    }

    async fn with(limits: ApiLimits, options: WebOptions) -> Self {
        let dir = TempDir::new().unwrap();
        let own = dir.path().join("console");
        for (name, text) in [
            ("index.html", "<html>INDEX</html>".to_owned()),
            ("main.js", SCRIPT.repeat(1000)),
            ("small.js", SCRIPT.to_owned()),
            ("styles.css", "body { margin: 0 }\n".repeat(100)),
            ("assets/icons/a b.svg", "<svg></svg>".to_owned()),
            ("assets/data.json", "{}".to_owned()),
            ("assets/font.woff2", "wOF2".repeat(1000)),
            ("assets/picture.png", "PNG".repeat(1000)),
            ("no-ending", "?".to_owned()),
            (".env", "HIDDEN".to_owned()),
            (".well-known/security.txt", "Contact: x".to_owned()),
        ] {
            write(&own.join(name), text);
        }
        fs::write(dir.path().join("secret.txt"), "SECRET").unwrap();
        let web = WebServer { options, ..web(&[WebApi::Files(zac(&own))]) };
        Self { bed: Bed::with(web, limits).await, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("console").join(name)
    }

    async fn get(&self, path: &str, headers: &[(&'static str, &str)]) -> Seen {
        self.ask(Method::GET, path, headers).await
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&'static str, &str)]) -> Seen {
        let request = self.bed.request(method, path);
        send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
            .await
    }

    /// Sends a request target unchanged; HTTP clients would normalise it. Returns status and body.
    async fn raw(&self, target: &str) -> (u16, String) {
        let mut stream = self.bed.connect(&[b"http/1.1"]).await;
        let request = format!("GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let all = stream.read_to_end(&mut answer);
        tokio::time::timeout(LONG, all).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn zac(location: &Path) -> FileOptions {
    FileOptions {
        path: "zac".into(),
        location: location.to_owned(),
        index_file: "index.html".into(),
        assets_at_root: true,
        policy: ContentPolicy::default(),
    }
}

/// The usual APIs, and these bindings after them.
fn web(more: &[WebApi]) -> WebServer {
    let mut web = section();
    web.apis.extend_from_slice(more);
    web
}

fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn an_application_is_served_beside_the_apis() {
    let served = Served::new().await;
    for (path, media, text) in [
        ("/zac", "text/html; charset=utf-8", "<html>INDEX</html>"),
        ("/zac/", "text/html; charset=utf-8", "<html>INDEX</html>"),
        ("/zac/small.js", "text/javascript; charset=utf-8", SCRIPT),
        ("//zac//small.js", "text/javascript; charset=utf-8", SCRIPT),
        ("/zac/assets/icons/a%20b.svg", "image/svg+xml", "<svg></svg>"),
        ("/zac/assets/data.json", "application/json", "{}"),
        ("/zac/no-ending", "application/octet-stream", "?"),
        ("/zac/.well-known/security.txt", "text/plain; charset=utf-8", "Contact: x"),
        // The paths of a console that was built without a base path.
        ("/assets/data.json", "application/json", "{}"),
        // A path without a regular file leads to the index.
        ("/zac/dashboard", "text/html; charset=utf-8", "<html>INDEX</html>"),
        ("/zac/identities/x/y?z=1", "text/html; charset=utf-8", "<html>INDEX</html>"),
        ("/zac/assets", "text/html; charset=utf-8", "<html>INDEX</html>"),
        ("/zac/small.js/x", "text/html; charset=utf-8", "<html>INDEX</html>"),
        ("/zac/.env", "text/html; charset=utf-8", "<html>INDEX</html>"),
        ("/assets/missing", "text/html; charset=utf-8", "<html>INDEX</html>"),
        // The ids of entities may have dots.
        ("/zac/identities/dUQbHvc.4", "text/html; charset=utf-8", "<html>INDEX</html>"),
        ("/zac/identities/web.host/x", "text/html; charset=utf-8", "<html>INDEX</html>"),
    ] {
        let seen = served.get(path, &[]).await;
        assert_eq!((seen.status, seen.text.as_str()), (200, text), "{path}");
        assert_eq!(seen.header("content-type"), Some(media), "{path}");
        let length = text.len().to_string();
        assert_eq!(seen.header("content-length"), Some(length.as_str()), "{path}");
        let head = served.ask(Method::HEAD, path, &[]).await;
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
        assert_eq!(head.header("content-length"), Some(length.as_str()), "{path}");
    }
    let long = format!("/zac/{}", "x".repeat(5000));
    assert_eq!(served.get(&long, &[]).await.text, "<html>INDEX</html>");
    for path in ["/", "/version", "/edge/management/v1/version", "/edge/client/v1/version"] {
        assert_eq!(served.bed.get(path).await.data()["apiVersions"].get("spa"), None, "{path}");
    }
    served.bed.get("/zacx").await.is_error(404, "NOT_FOUND");
    // A file that is missing is not a page.
    for path in [
        "/zac/missing.js",
        "/zac/assets/x.svg",
        "/assets/x.json",
        "/zac/a/b.PNG",
        "/zac/main.js.map",
    ] {
        served.get(path, &[]).await.is_error(404, "NOT_FOUND");
        assert_eq!(served.ask(Method::HEAD, path, &[]).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn browsers_are_told_what_to_do_with_it() {
    let served = Served::new().await;
    let seen = served.get("/zac/main.js", &[("origin", "https://other.example")]).await;
    for (name, value) in [
        ("cache-control", Some("no-cache")),
        ("x-content-type-options", Some("nosniff")),
        ("x-frame-options", Some("SAMEORIGIN")),
        ("referrer-policy", Some("same-origin")),
        ("accept-ranges", Some("bytes")),
        ("vary", Some("accept-encoding")),
        // Pages of other origins may not read it.
        ("access-control-allow-origin", None),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    let (status, answer) = served.raw("/zac/index.html?a=b").await;
    assert_eq!(status, 301);
    assert!(answer.contains("location: ./?a=b\r\n"), "{answer}");
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let seen = served.ask(method, "/zac/main.js", &[]).await;
        seen.is_error(405, "METHOD_NOT_ALLOWED");
        assert_eq!(seen.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    let asked = [("origin", "https://x.example"), ("access-control-request-method", "GET")];
    for headers in [&[][..], &asked] {
        let seen = served.ask(Method::OPTIONS, "/zac/main.js", headers).await;
        assert_eq!((seen.status, seen.header("allow")), (200, Some("GET, HEAD, OPTIONS")));
        assert_eq!(seen.header("access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn nothing_outside_of_the_location_is_served() {
    let served = Served::new().await;
    for target in [
        "/zac/../secret.txt",
        "/zac/assets/../../secret.txt",
        "/zac/%2e%2e/secret.txt",
        "/zac/%2E%2e%2fsecret.txt",
        "/zac/..%2fsecret.txt",
        "/zac/..%5csecret.txt",
        "/zac/..\\secret.txt",
        "/zac/assets%2ficons",
        "/zac/main.js%00.html",
        "/zac/%0d%0ax",
        "/zac/%ff",
        "/assets/../../secret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
    ] {
        let (status, answer) = served.raw(target).await;
        assert_eq!(status, 400, "{target}: {answer}");
        assert!(answer.contains("COULD_NOT_VALIDATE") && !answer.contains("SECRET"), "{answer}");
    }
    // Escaped twice, the path is an ordinary strange name.
    let (status, answer) = served.raw("/zac/%252e%252e%252fsecret.txt").await;
    assert!(status == 404 && answer.contains("NOT_FOUND"), "{answer}");
    let (_, answer) = served.raw("/zac/.env").await;
    assert!(!answer.contains("HIDDEN"));
}

#[cfg(unix)]
#[tokio::test]
async fn links_lead_to_files_of_the_location_only() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    let served = Served::new().await;
    symlink("small.js", served.path("inside.js")).unwrap();
    symlink("../secret.txt", served.path("outside.txt")).unwrap();
    symlink(served.dir.path().join("secret.txt"), served.path("absolute.txt")).unwrap();
    symlink("..", served.path("up")).unwrap();
    symlink("nowhere", served.path("dangling.js")).unwrap();
    symlink("circle.js", served.path("circle.js")).unwrap();
    symlink("../secret.txt", served.path("main.js.gz")).unwrap();
    assert_eq!(served.get("/zac/inside.js", &[]).await.text, SCRIPT);
    for path in ["/zac/outside.txt", "/zac/absolute.txt", "/zac/up/secret.txt"] {
        served.get(path, &[]).await.is_error(404, "NOT_FOUND");
    }
    served.get("/zac/dangling.js", &[]).await.is_error(404, "NOT_FOUND");
    assert!(served.get("/zac/circle.js", &[]).await.status >= 400);
    let seen = served.get("/zac/main.js", &[("accept-encoding", "gzip")]).await;
    assert_eq!(gunzip(&seen.bytes), SCRIPT.repeat(1000));
    // Opening one of these would wait for a process at the other end.
    let _socket = UnixListener::bind(served.path("socket")).unwrap();
    assert_eq!(served.get("/zac/socket", &[]).await.text, "<html>INDEX</html>");
}

#[cfg(unix)]
#[tokio::test]
async fn an_update_may_put_another_directory_in_place() {
    use std::os::unix::fs::symlink;

    let dir = TempDir::new().unwrap();
    for version in ["1", "2"] {
        write(&dir.path().join(version).join("index.html"), version);
    }
    let current = dir.path().join("current");
    symlink("1", &current).unwrap();
    let bed = Bed::with(web(&[WebApi::Files(zac(&current))]), ApiLimits::default()).await;
    assert_eq!(bed.get("/zac/").await.text, "1");
    symlink("2", dir.path().join("next")).unwrap();
    fs::rename(dir.path().join("next"), &current).unwrap();
    assert_eq!(bed.get("/zac/").await.text, "2");
    fs::remove_file(&current).unwrap();
    bed.get("/zac/").await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again() {
    let served = Served::new().await;
    let path = "/zac/main.js";
    let first = served.get(path, &[]).await;
    let (tag, time) = (first.header("etag").unwrap(), first.header("last-modified").unwrap());
    for headers in [[("if-none-match", tag)], [("if-modified-since", time)]] {
        let seen = served.get(path, &headers).await;
        assert_eq!((seen.status, seen.text.as_str()), (304, ""), "{headers:?}");
        assert_eq!((seen.header("etag"), seen.header("last-modified")), (Some(tag), Some(time)));
        assert_eq!(seen.header("cache-control"), Some("no-cache"));
    }
    served.get(path, &[("if-match", "\"x\"")]).await.is_error(412, "COULD_NOT_VALIDATE");
    // Each form has a tag of its own.
    let packed = served.get(path, &[("accept-encoding", "gzip")]).await;
    let packed_tag = packed.header("etag").unwrap();
    assert_ne!(packed_tag, tag);
    let both = |tag| [("accept-encoding", "gzip"), ("if-none-match", tag)];
    assert_eq!(served.get(path, &both(packed_tag)).await.status, 304);
    assert_eq!(served.get(path, &both(tag)).await.status, 200);

    fs::write(served.path("main.js"), "changed").unwrap();
    for (tag, encoding) in [(tag, "identity"), (packed_tag, "gzip")] {
        let seen = served.get(path, &[("if-none-match", tag), ("accept-encoding", encoding)]).await;
        assert_eq!((seen.status, seen.text.as_str()), (200, "changed"));
    }
    // A package that gives all its files the same time replaces the old version nevertheless.
    let file = fs::File::options().write(true).open(served.path("main.js")).unwrap();
    let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    file.set_modified(epoch).unwrap();
    let old = served.get(path, &[]).await;
    assert_eq!(old.header("last-modified"), None);
    fs::write(served.path("main.js"), "CHANGED").unwrap();
    file.set_modified(epoch).unwrap();
    let new = served.get(path, &[("if-none-match", old.header("etag").unwrap())]).await;
    assert_eq!((new.status, new.text.as_str()), (200, "CHANGED"));
}

#[tokio::test]
async fn parts_of_a_file() {
    let served = Served::new().await;
    let path = "/zac/small.js";
    let get = async |range: &'static str| served.get(path, &[("range", range)]).await;
    for (range, part, shown) in [
        ("bytes=0-5", "export", "bytes 0-5/26"),
        ("bytes=7-11", "const", "bytes 7-11/26"),
        ("bytes=-4", "42;\n", "bytes 22-25/26"),
        ("bytes=22-1000", "42;\n", "bytes 22-25/26"),
    ] {
        let seen = get(range).await;
        assert_eq!((seen.status, seen.text.as_str()), (206, part), "{range}");
        assert_eq!(seen.header("content-range"), Some(shown), "{range}");
        assert_eq!(seen.header("content-length").unwrap(), part.len().to_string());
    }
    let seen = get("bytes=26-").await;
    seen.is_error(416, "COULD_NOT_VALIDATE");
    assert_eq!(seen.header("content-range"), Some("bytes */26"));
    for range in ["bytes=0-1,4-5", "lines=1-2", "bytes=x"] {
        let seen = get(range).await;
        assert_eq!((seen.status, seen.text.as_str()), (200, SCRIPT), "{range}");
    }
    let tag = get("bytes=0-5").await.header("etag").unwrap().to_owned();
    for (condition, status) in [(tag.as_str(), 206), ("\"other\"", 200)] {
        let headers = [("range", "bytes=0-5"), ("if-range", condition)];
        assert_eq!(served.get(path, &headers).await.status, status, "{condition}");
    }
    // A range is of the unencoded file.
    let headers = [("range", "bytes=0-5"), ("accept-encoding", "gzip")];
    let seen = served.get("/zac/main.js", &headers).await;
    assert_eq!((seen.status, seen.text.as_str()), (206, "export"));
    assert_eq!(seen.header("content-encoding"), None);
}

/// A sparse file that is larger than any socket buffer.
fn huge(served: &Served) {
    fs::File::create(served.path("huge.bin")).unwrap().set_len(8 << 30).unwrap();
}

#[tokio::test]
async fn huge_files_are_read_while_they_are_sent() {
    let served = Served::new().await;
    huge(&served);
    let begin = async {
        let mut answer = served.bed.request(Method::GET, "/zac/huge.bin").send().await.unwrap();
        assert_eq!(answer.headers()["content-length"], (8_u64 << 30).to_string().as_str());
        answer.chunk().await.unwrap().unwrap()
    };
    let first = tokio::time::timeout(LONG, begin).await.unwrap();
    assert!(!first.is_empty() && first.iter().all(|byte| *byte == 0));
    let seen = served.get("/zac/huge.bin", &[("range", "bytes=-10")]).await;
    assert_eq!((seen.status, seen.bytes.len()), (206, 10));
}

#[tokio::test]
async fn one_address_may_have_so_many_files_at_once() {
    let limits = ApiLimits { files_per_source: 2, ..ApiLimits::default() };
    let served = Served::with(limits, WebOptions::default()).await;
    huge(&served);
    let mut held = Vec::new();
    for _ in 0..2 {
        let answer = served.bed.request(Method::GET, "/zac/huge.bin").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        held.push(answer);
    }
    let seen = served.get("/zac/small.js", &[]).await;
    seen.is_error(429, "SERVER_TOO_MANY_REQUESTS");
    assert_eq!(seen.header("retry-after"), Some("1"));
    assert_eq!(served.bed.get("/version").await.status, 200, "the APIs have places of their own");
    drop(held);
    let free = async { while served.get("/zac/small.js", &[]).await.status != 200 {} };
    tokio::time::timeout(LONG, free).await.expect("the places are given back");
}

#[tokio::test]
async fn who_does_not_take_a_file_is_cut() {
    let limits =
        ApiLimits { files_per_source: 1, file_time: Duration::ZERO, ..ApiLimits::default() };
    let short = Duration::from_millis(500);
    let options = WebOptions { write_timeout: short, ..WebOptions::default() };
    let served = Served::with(limits, options).await;
    fs::write(served.path("some.bin"), vec![7; 40_000]).unwrap();
    // The window of a stream stays shut, while the connection is in use.
    let tls = client_config(&ClientTls::anonymous(served.bed.bundle().clone(), &[b"h2"])).unwrap();
    let narrow = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .http2_initial_stream_window_size(1000)
        .timeout(LONG)
        .build()
        .unwrap();
    let answer = narrow.get(served.bed.url("/zac/some.bin")).send().await.unwrap();
    assert_eq!(answer.version(), reqwest::Version::HTTP_2);
    served.get("/zac/small.js", &[]).await.is_error(429, "SERVER_TOO_MANY_REQUESTS");
    let cut = async {
        while served.get("/zac/small.js", &[]).await.status != 200 {
            let _ = narrow.get(served.bed.url("/version")).send().await;
        }
    };
    tokio::time::timeout(LONG, cut).await.expect("the place is given back");
    assert!(answer.bytes().await.is_err());
}

#[tokio::test]
async fn the_order_of_the_file_decides_who_answers() {
    let dir = TempDir::new().unwrap();
    write(&dir.path().join("index.html"), "INDEX");
    let app = |path: &str| {
        WebApi::Files(FileOptions { path: path.into(), assets_at_root: false, ..zac(dir.path()) })
    };
    let bed = Bed::with(web(&[app("version"), app("edge"), app("console")]), ApiLimits::default());
    let bed = bed.await;
    for path in ["/version", "/edge/client/v1/version"] {
        assert_eq!(bed.get(path).await.json()["meta"]["apiVersion"], "0.0.1", "{path}");
    }
    assert_eq!(bed.get("/console/x").await.text, "INDEX");
    bed.get("/assets/x").await.is_error(404, "NOT_FOUND");

    let mut alone = section();
    alone.apis = vec![WebApi::EdgeManagement, app("console")];
    let bed = Bed::with(alone, ApiLimits::default()).await;
    assert_eq!(bed.get("/anything").await.text, "INDEX", "the last one takes what nobody claims");
    assert_eq!(bed.get("/").await.json()["meta"]["apiVersion"], "0.0.1");
}
