//! What browsers let an application do.

use serde_json::json;
use weft_config::ContentPolicy;

use super::*;
use crate::tests::MANAGEMENT;

/// A page with inline scripts and a handler, as builds of the console have them.
const PAGE: &str = "<!doctype html><head>\
    <link rel=stylesheet href=styles.css media=print onload=\"this.media='all'\">\
    <script src=main.js></script><script>window.isSPA = true;</script></head>";
/// Made with `openssl dgst -sha256 -binary | base64`.
const HANDLER: &str = "'sha256-MhtPZXr7+LpJUY5qtMutB+qWfQtMaPccfe7QXtCcEYc='";
const SCRIPT_OF_PAGE: &str = "'sha256-eOmJMvUzsulIVM38gA1N9qTFjAX8q0FTnGe8B+hlO1s='";
const SCRIPT_AFTER: &str = "'sha256-HvBSu6Bt3gTy+3CuBxhN8vst+x7pkkYVapgy44zugNU='";

fn directive<'s>(seen: &'s Seen, name: &str) -> &'s str {
    let policy = seen.header("content-security-policy").unwrap();
    let parts = policy.split("; ").filter_map(|part| part.split_once(' '));
    let mut own = parts.filter(|(own, _)| *own == name).map(|(_, sources)| sources);
    let sources = own.next().unwrap_or_else(|| panic!("no {name} in {policy}"));
    assert_eq!(own.next(), None, "{policy}");
    sources
}

#[tokio::test]
async fn only_scripts_of_the_page_itself_run() {
    let served = Served::new().await;
    fs::write(served.path("index.html"), PAGE).unwrap();
    let base = "'self' 'unsafe-eval' 'unsafe-hashes'";
    for path in ["/zac/", "/zac/identities", "/zac/identities/x"] {
        let seen = served.get(path, &[]).await;
        assert_eq!((seen.status, seen.text.as_str()), (200, PAGE));
        let scripts = format!("{base} {HANDLER} {SCRIPT_OF_PAGE}");
        assert_eq!(directive(&seen, "script-src"), scripts, "{path}");
        for (name, sources) in [
            ("default-src", "'self'"),
            ("base-uri", "'self'"),
            ("object-src", "'none'"),
            ("form-action", "'self'"),
            ("frame-ancestors", "'self'"),
            ("connect-src", "'self' https://127.0.0.1:1280"),
        ] {
            assert_eq!(directive(&seen, name), sources, "{path}");
        }
    }
    // A file that is no page has the policy, too: a picture can be opened as a document.
    let picture = served.get("/zac/assets/icons/a%20b.svg", &[]).await;
    assert_eq!(directive(&picture, "script-src"), base);
    // In every form, and when the browser has the page.
    let long = format!("{PAGE}<body>{}</body>", "text ".repeat(1000));
    fs::write(served.path("index.html"), &long).unwrap();
    let packed = served.get("/zac/", &[("accept-encoding", "gzip")]).await;
    assert_eq!((packed.header("content-encoding"), gunzip(&packed.bytes)), (Some("gzip"), long));
    assert!(directive(&packed, "script-src").ends_with(SCRIPT_OF_PAGE));
    let known = [("accept-encoding", "gzip"), ("if-none-match", packed.header("etag").unwrap())];
    let known = served.get("/zac/", &known).await;
    assert_eq!(known.status, 304);
    assert!(directive(&known, "script-src").ends_with(SCRIPT_OF_PAGE));

    // Another version of the page, with the same length.
    fs::write(served.path("index.html"), PAGE.replace("isSPA = true", "isSPA = 1234")).unwrap();
    let seen = served.get("/zac/", &[]).await;
    assert_eq!(directive(&seen, "script-src"), format!("{base} {SCRIPT_AFTER} {HANDLER}"));
    // Each page has scripts of its own.
    fs::write(served.path("silent.html"), "<script>window.isSPA = true;</script>").unwrap();
    let silent = served.get("/zac/silent.html", &[]).await;
    assert_eq!(directive(&silent, "script-src"), format!("{base} {SCRIPT_OF_PAGE}"));
}

#[tokio::test]
async fn an_application_connects_to_the_enabled_signers() {
    let served = Served::new().await;
    let admin = served.bed.admin().await;
    let own = "'self' https://127.0.0.1:1280";
    let first = served.get("/zac/", &[]).await;
    assert_eq!(directive(&first, "connect-src"), own);
    let signer = json!({
        "name": "login", "issuer": "https://login.example", "audience": "x", "enabled": true,
        "externalAuthUrl": "https://login.example/oauth2/v1",
        "jwksEndpoint": "https://keys.example:8443/keys",
    });
    let id = admin.create("external-jwt-signers", signer).await;
    let known = [("if-none-match", first.header("etag").unwrap())];
    let seen = served.get("/zac/", &known).await;
    assert_eq!(seen.status, 200, "the browser has the page with the policy of before");
    let both = "https://keys.example:8443 https://login.example";
    assert_eq!(directive(&seen, "connect-src"), format!("'self' https://127.0.0.1:1280 {both}"));
    let script = served.get("/zac/main.js", &[]).await;
    let at = format!("{MANAGEMENT}/external-jwt-signers/{id}");
    for (change, origins) in [
        (json!({"externalAuthUrl": "https://a;script-src/"}), " https://keys.example:8443"),
        (json!({"enabled": false}), ""),
    ] {
        let changed = admin.call(Method::PATCH, &at, &change).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let seen = served.get("/zac/", &[]).await;
        assert_eq!(directive(&seen, "connect-src"), format!("{own}{origins}"));
    }
    // A script is not taken again for a policy.
    let known = [("if-none-match", script.header("etag").unwrap())];
    assert_eq!(served.get("/zac/main.js", &known).await.status, 304);
}

#[tokio::test]
async fn a_file_may_have_its_own_policy() {
    let dir = TempDir::new().unwrap();
    write(&dir.path().join("index.html"), PAGE);
    let app = |path: &str, policy| {
        WebApi::Files(FileOptions { path: path.into(), policy, ..zac(dir.path()) })
    };
    let given = "default-src 'self'; script-src 'self' 'unsafe-inline'";
    let more = vec!["https://tokens.example".to_owned()];
    let bed = Bed::with(
        web(&[
            app("given", ContentPolicy::Given(given.to_owned())),
            app("more", ContentPolicy::Made(more)),
        ]),
        ApiLimits::default(),
    );
    let bed = bed.await;
    assert_eq!(bed.get("/given/").await.header("content-security-policy"), Some(given));
    let seen = bed.get("/more/").await;
    let origins = "'self' https://127.0.0.1:1280 https://tokens.example";
    assert_eq!(directive(&seen, "connect-src"), origins);
    assert!(directive(&seen, "script-src").ends_with(SCRIPT_OF_PAGE));
}
