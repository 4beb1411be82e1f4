//! Questions at the terminal, answered and interrupted.

use std::fs;

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::program::{text, weft};
use crate::terminal::Terminal;
use crate::wait::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_or_interrupted() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let url = format!("https://localhost:{}", place.control);

    // Two questions, the certificate and the password: one signal ends either.
    let login = ["login", &url, "-u", USER, "--name", "main"];
    interrupted(&place, &login, "[y/N]").await;
    let mut at = Terminal::start(&place, &login);
    at.says("[y/N]").await;
    at.types("y\n");
    at.says("Password of admin:").await;
    assert!(!at.shows_what_is_typed(), "the password would be seen");
    at.signal("INT");
    assert_eq!(at.ended().await.code(), Some(130));
    assert!(at.shows_what_is_typed(), "the echo is gone");
    at.says("weft: interrupted").await;
    let logins = text(&weft(place.folder(), &["logins", "--output", "json"]).await);
    assert_eq!(logins.trim(), "[]");
    // Both questions are answered.
    let mut at = Terminal::start(&place, &login);
    at.says("[y/N]").await;
    at.types("y\n");
    at.says("Password of admin:").await;
    at.types(&format!("{PASSWORD}\n"));
    assert!(at.ended().await.success());
    at.says("logged in").await;
    assert!(at.shows_what_is_typed() && !at.said().contains(PASSWORD));

    let mut at = Terminal::start(&place, &["password"]);
    at.says("Password of admin:").await;
    at.types(&format!("{PASSWORD}\n"));
    at.says("New password of admin:").await;
    at.types("one-long-secret\n");
    at.says("Once more:").await;
    at.signal("TERM");
    assert_eq!(at.ended().await.code(), Some(130));
    assert!(at.shows_what_is_typed(), "the echo is gone");

    // After a signal nothing is done, whatever is typed then.
    fs::write(place.folder().join("web.yaml"), "services:\n  - name: web\n").unwrap();
    interrupted(&place, &["apply", "web.yaml"], "[y/N]").await;
    let none = text(&weft(place.folder(), &["list", "services"]).await);
    assert!(none.contains("0 services"), "{none}");
    let mut at = Terminal::start(&place, &["apply", "web.yaml"]);
    at.says("[y/N]").await;
    at.types("y\n");
    assert!(at.ended().await.success());
    let delete = ["delete", "services", "--where", "true"];
    interrupted(&place, &delete, "[y/N]").await;
    let mut at = Terminal::start(&place, &delete);
    at.says("[y/N]").await;
    at.types("n\n");
    assert_eq!(at.ended().await.code(), Some(1));
    let kept = text(&weft(place.folder(), &["list", "services"]).await);
    assert!(kept.contains("1 service"), "{kept}");
    assert!(network.stop().await.success());
}

/// Waits for the question and sends one signal; text typed afterwards has no effect.
async fn interrupted(place: &NetworkFolder, args: &[&str], question: &str) {
    let mut at = Terminal::start(place, args);
    at.says(question).await;
    at.signal("INT");
    assert_eq!(at.ended().await.code(), Some(130), "weft {args:?}");
    at.types("y\n");
    at.says("weft: interrupted").await;
    // The message is on a line of its own.
    assert!(!at.said().contains("[y/N] weft"), "{}", at.said());
}
