//! Whoever is not authenticated fills no log: in the files that read from strangers, each line above the level `debug`
//! is one of a bounded number.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::sync::LazyLock;

use regex::Regex;
use weft_pages::files::{self, File};
use weft_pages::source::Reader;

/// Files and folders that read from strangers: they accept connections and datagrams, make handshakes, read hellos and
/// requests, and judge who a peer is.
const READERS: &[&str] = &[
    "crates/shared/agent/src/",
    "crates/shared/web/src/",
    "crates/shared/channel/src/",
    "crates/shared/dtls/src/",
    "crates/shared/proxy/src/",
    "crates/controller/api/src/",
    "crates/controller/auth/src/attempts.rs",
    "crates/controller/auth/src/enroll/",
    "crates/controller/auth/src/external_token.rs",
    "crates/controller/auth/src/guesses/",
    "crates/controller/auth/src/lockout.rs",
    "crates/controller/auth/src/login.rs",
    "crates/controller/auth/src/oidc/",
    "crates/controller/auth/src/refusals.rs",
    "crates/controller/auth/src/third_party_ca.rs",
    "crates/controller/auth/src/tickets.rs",
    "crates/shared/client/src/oidc/browser.rs",
    "crates/controller/control/src/gate.rs",
    "crates/router/src/bindings/edge/",
    "crates/router/src/bindings/ingress/",
    "crates/router/src/control/accept.rs",
    "crates/router/src/api_proxy.rs",
    "crates/router/src/link/accept.rs",
    "crates/router/src/link/refused.rs",
    "crates/router/src/web.rs",
    "crates/client/tunneler/src/hosting.rs",
    "crates/data/intercept/src/dns/",
    "crates/data/intercept/src/shared.rs",
    "crates/data/intercept/src/tcp.rs",
    "crates/data/intercept/src/udp.rs",
    "crates/data/tunnel/src/complaints.rs",
    "crates/data/tunnel/src/listen.rs",
];

/// Whether a file is the one that is named, or lies in the folder that is named, or is the module of that folder.
fn is_below(path: &str, named: &str) -> bool {
    let module = named.strip_suffix('/').unwrap_or(named);
    path.starts_with(named) || path.strip_suffix(".rs") == Some(module)
}

/// Lines that no stranger can cause in any number: file, beginning of the message, reason.
const OTHERS: &[(&str, &str, &str)] = &[
    // Faults of the program or its surroundings.
    (
        "crates/controller/api/src/exchange.rs",
        "an operation panicked",
        "no input is known that ends in a panic: each one is to be mended",
    ),
    (
        "crates/controller/auth/src/lockout.rs",
        "a password with too many wrong tries could not be locked",
        "as often as a password is locked",
    ),
    (
        "crates/controller/auth/src/tickets.rs",
        "an enrollment ticket could not be signed",
        "who asks for a ticket is logged in",
    ),
    // Start, stop, and files of the operator.
    (
        "crates/controller/api/src/files/policy.rs",
        "external JWT signers have more origins",
        "once for each change of a signer",
    ),
    (
        "crates/controller/api/src/oidc.rs",
        "no login or logout may end at this URI",
        "once for each change of the server's certificates",
    ),
    (
        "crates/controller/auth/src/oidc/tokens.rs",
        "a session ends, because somebody may have a copy",
        "each ends a session, which a right secret began",
    ),
    ("crates/controller/api/src/server.rs", "connections cut", "at the stop"),
    ("crates/controller/api/src/server.rs", "the stop waits for operations", "at the stop"),
    ("crates/controller/api/src/server.rs", "web server listens", "at the start"),
    (
        "crates/shared/channel/src/trace.rs",
        "messages are not traced any more",
        "once for each trace",
    ),
    ("crates/shared/channel/src/trace.rs", "messages were not traced", "once for each trace"),
    ("crates/shared/channel/src/trace.rs", "the end of the trace", "once for each trace"),
    (
        "crates/data/intercept/src/dns/server.rs",
        "another program has the DNS server's address",
        "at the start",
    ),
    ("crates/data/intercept/src/dns/server.rs", "DNS server", "at the start"),
    ("crates/router/src/web.rs", "a server of the section web has no certificate", "at the start"),
    (
        "crates/client/tunneler/src/hosting.rs",
        "health checks changed the cost",
        "as often as a health check turns",
    ),
    (
        "crates/client/tunneler/src/hosting.rs",
        "a service is hosted",
        "as often as a router takes the service",
    ),
    (
        "crates/client/tunneler/src/hosting.rs",
        "a service is not hosted",
        "of the bind itself, with growing waits",
    ),
    ("crates/router/src/web.rs", "web server listens", "at the start"),
    ("crates/router/src/web.rs", "the changed identity files cannot be used", "when files change"),
    (
        "crates/data/tunnel/src/listen.rs",
        "a template of the service's config",
        "when a service changes",
    ),
    (
        "crates/shared/web/src/scrape.rs",
        "another certificate may read metrics",
        "when a file changes",
    ),
    ("crates/shared/web/src/scrape.rs", "the new certificate for metrics", "when a file changes"),
    // Bounded by something else.
    (
        "crates/controller/auth/src/attempts.rs",
        "many wrong codes of a second factor",
        "once until the next right code; guesses wait",
    ),
    (
        "crates/controller/auth/src/lockout.rs",
        "too many wrong passwords: the password is locked",
        "a locked password is tried no more",
    ),
    (
        "crates/controller/auth/src/lockout.rs",
        "too many wrong passwords of the last administrator",
        "of one name: 10 guesses a minute",
    ),
    (
        "crates/data/intercept/src/dns/upstream.rs",
        "a DNS server answers again",
        "after it was silent, which takes 5 s",
    ),
    (
        "crates/data/intercept/src/dns/upstream.rs",
        "a DNS server gives no answer",
        "a server is silent after 5 s without an answer",
    ),
    (
        "crates/data/intercept/src/shared.rs",
        "warnings were left out",
        "it is itself the count of lines that were left out",
    ),
    (
        "crates/router/src/bindings/ingress.rs",
        "no circuit was made",
        "one in a second, the same one in 10 s",
    ),
    // About peers that were judged before.
    (
        "crates/controller/auth/src/login.rs",
        "the note whether the certificate came with its chain",
        "the login was right",
    ),
    (
        "crates/shared/channel/src/datagram/pump.rs",
        "messages of more than",
        "messages of this program itself",
    ),
    ("crates/shared/channel/src/shared.rs", "connection closed", "its peer was admitted"),
    (
        "crates/controller/control/src/gate.rs",
        "a router is refused",
        "it has shown the certificate of a router",
    ),
    ("crates/router/src/bindings/edge/bind.rs", "a terminator is removed", "the session may host"),
    (
        "crates/router/src/bindings/edge/messages.rs",
        "an SDK is disconnected",
        "its session was judged, and one line ends it",
    ),
    ("crates/router/src/link/accept.rs", "link accepted", "a controller knows the router"),
    (
        "crates/router/src/link/accept.rs",
        "the two connections of a split link",
        "a controller knows the router",
    ),
    (
        "crates/router/src/link/accept.rs",
        "the hello of a link is not understood",
        "a controller knows the router",
    ),
];

/// A line of a log, as it is written in a file.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    place: String,
    message: String,
}

/// What accepts connections or datagrams.
const DOORS: &str = r"\bimpl\s+HelloGate\s+for\b|\bTcpListener\s*::\s*bind\b|\bSharedListener\s*::\s*bind\b|\.\s*recv_from\s*\(";

/// Files with such a door that no stranger reaches, or that write no line about who comes: file, reason.
const NO_DOORS: &[(&str, &str)] = &[
    ("crates/weft/src/check/addresses.rs", "a port is tried, and closed at once"),
    ("crates/weft/src/quickstart/sockets.rs", "a port is tried, and closed at once"),
];

/// A line above `debug`.
static WRITTEN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?:warn|info|error|event)!\s*\(").unwrap());
/// What comes before a line that `complain` bounds.
static COMPLAINT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\bcomplain\(\s*(?:move\s*)?\|\|\s*\{?\s*(?:tracing\s*::\s*)?$").unwrap()
});
/// What tells whether a line is due, a parameter with what it has told, or something else.
static BINDINGS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\bSome\(left_out\)|\bleft_out\s*:\s*u64|\blet\s+(?:mut\s+)?left_out\b").unwrap()
});

/// The lines above `debug` of a file that are not limited.
///
/// Limited is a line that says how many were left out before it, as [`weft_limits::LogLines`] tells whether a line is
/// due (`Some(left_out)`), and one that is passed to a function `complain`, which bounds them. A number of another origin
/// bounds nothing.
fn unlimited(reader: &Reader, file: &File) -> Vec<Line> {
    // Comments, literals and tests are blank there, at the same places.
    let code = reader.read(&file.text).code;
    let mut found = Vec::new();
    for it in WRITTEN.find_iter(&code) {
        let end = end_of_call(&code, it.end());
        let call = &file.text[it.start()..end];
        let tells = code[it.start()..end].contains("left_out") || call.contains("{left_out}");
        let function = code[..it.start()].rfind("fn ").unwrap_or_default();
        let bound = BINDINGS.find_iter(&code[function..it.start()]).last();
        let is_due = bound.is_some_and(|it| !it.as_str().starts_with("let"));
        let is_limited = tells && is_due || COMPLAINT.is_match(&code[..it.start()]);
        if !is_limited {
            let line = files::line_of(&file.text, it.start());
            found.push(Line { place: format!("{}:{line}", file.path), message: message(call) });
        }
    }
    found
}

/// Where the arguments of a call end that begin at an offset.
fn end_of_call(code: &str, from: usize) -> usize {
    let mut depth = 1;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        depth += match byte {
            b'(' => 1,
            b')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// The last text of a call: its message.
fn message(call: &str) -> String {
    let text = Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).unwrap();
    let last = text.captures_iter(call).last();
    last.map_or_else(|| call.to_owned(), |it| it[1].to_owned())
}

#[test]
fn strangers_cause_a_bounded_number_of_log_lines() {
    let (reader, files) = (Reader::new().unwrap(), files::all().unwrap());
    let is_read = |file: &&File| {
        let path = file.path.as_str();
        let is_test =
            path.contains("/tests/") || path.ends_with("tests.rs") || path.ends_with("testing.rs");
        path.ends_with(".rs") && !is_test && READERS.iter().any(|it| is_below(path, it))
    };
    let read: Vec<&File> = files.iter().filter(is_read).collect();
    for reader in READERS {
        assert!(
            read.iter().any(|file| is_below(&file.path, reader)),
            "{reader} is not there any more"
        );
    }
    let doors = Regex::new(DOORS).unwrap();
    let is_test = |path: &str| {
        ["/tests/", "/examples/", "tests.rs", "testing.rs"].iter().any(|it| path.contains(it))
    };
    let open: Vec<&str> = files
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with(".rs"))
        .filter(|file| !is_test(&file.path) && doors.is_match(&reader.read(&file.text).code))
        .map(|file| file.path.as_str())
        .collect();
    let is_known = |path: &&&str| {
        READERS.iter().any(|it| is_below(path, it)) || NO_DOORS.iter().any(|(it, _)| it == *path)
    };
    let unknown: Vec<_> = open.iter().filter(|path| !is_known(path)).collect();
    assert!(
        unknown.is_empty(),
        "files that accept connections or datagrams: add them to READERS, or say in NO_DOORS why no stranger \
         comes there\n{unknown:?}"
    );
    for (path, reason) in NO_DOORS {
        assert!(!reason.is_empty() && open.contains(path), "{path} has no door any more");
    }
    let found: Vec<Line> = read.iter().flat_map(|file| unlimited(&reader, file)).collect();
    let is_other = |line: &Line, (path, begins, _): &(&str, &str, &str)| {
        line.place.rsplit_once(':').is_some_and(|(own, _)| own == *path)
            && line.message.starts_with(begins)
    };
    let wrong: Vec<String> = found
        .iter()
        .filter(|line| !OTHERS.iter().any(|other| is_other(line, other)))
        .map(|line| format!("{}: {:?}", line.place, line.message))
        .collect();
    assert!(
        wrong.is_empty(),
        "lines of the log that a stranger may cause without bound: let `weft_limits::LogLines` say when one is due, \
         and name `left_out` in it; or say in OTHERS why no stranger causes many\n{}",
        wrong.join("\n")
    );
    for other in OTHERS {
        assert!(!other.2.is_empty(), "{other:?} has no reason");
        assert!(found.iter().any(|line| is_other(line, other)), "{other:?} is no line any more");
    }
}

#[test]
fn a_line_is_limited_if_it_says_how_many_were_left_out() {
    let reader = Reader::new().unwrap();
    let unlimited = |text: &str| {
        let file = File { path: "x.rs".to_owned(), text: text.to_owned() };
        unlimited(&reader, &file).into_iter().map(|line| line.message).collect::<Vec<_>>()
    };
    for limited in [
        "fn f() { if let Some(left_out) = lines.due(now) { warn!(%peer, left_out, \"refused\"); } }",
        "fn f(left_out: u64) { tracing::info!(%peer, \"refused; {left_out} more\"); }",
        "fn f() { self.complain(|| tracing::warn!(%peer, \"refused\")); }",
        "fn f() { shared.complain(|| {\n    tracing::warn!(%peer, \"refused\");\n}); }",
        "fn f() { tracing::debug!(%peer, \"refused\"); } // warn!(\"x\")",
        "fn f() { let text = \"warn!(x)\"; }",
        "#[cfg(test)]\nmod tests { fn f() { tracing::warn!(\"x\"); } }",
    ] {
        assert_eq!(unlimited(limited), [""; 0], "{limited}");
    }
    for (text, messages) in [
        ("fn f() { tracing::warn!(%peer, \"refused\"); }", &["refused"][..]),
        ("fn f() { info!(\"a\"); error!(x = \"b\", \"c \\\"d\\\"\"); }", &["a", "c \\\"d\\\""]),
        ("fn f() { tracing::event!(Level::WARN, \"a (b\"); let left_out = 1; }", &["a (b"]),
        ("fn f() { let left_out = 0; tracing::warn!(left_out, \"a\"); }", &["a"]),
        ("fn f() { let left_out = 0; warn!(\"a {left_out}\"); }", &["a {left_out}"]),
        ("fn f() { Some(left_out) => {} } fn g() { warn!(left_out, \"a\"); }", &["a"]),
        ("fn f() { complain(|| g()); tracing::warn!(\"a\"); }", &["a"]),
    ] {
        assert_eq!(unlimited(text), messages, "{text}");
    }
}
