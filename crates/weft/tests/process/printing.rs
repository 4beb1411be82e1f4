//! Output of commands, in a terminal and without one.

use std::fs;

use serde_json::Value;

use crate::network::NetworkFolder;
use crate::program::{WEFT, text, weft};
use crate::terminal::Terminal;

/// A login file that cannot be read causes a long line.
fn place() -> NetworkFolder {
    let place = NetworkFolder::empty();
    let folder = place.folder().join("logins/logins");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a-network-far-away.json"), "{").unwrap();
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_fit_into_the_terminal_and_are_whole_in_a_pipe() {
    let place = place();
    let whole = text(&weft(place.folder(), &["logins"]).await);
    let widest = |text: &str| text.lines().map(|line| line.trim_end().chars().count()).max();
    assert!(widest(&whole) > Some(120), "{whole}");
    assert!(whole.contains("EXPIRES AT") && !whole.contains('…'), "{whole}");
    for columns in [40, 79, 80] {
        let mut at = Terminal::start_in(&place, Some(columns), &["logins"]);
        assert!(at.ended().await.success());
        at.says("--output json shows everything").await;
        let said = at.said();
        let table: Vec<&str> = said.lines().filter(|line| !line.contains("--output")).collect();
        let table = table.join("\n");
        assert!(widest(&table) <= Some(columns.into()), "{table}");
        assert!(table.contains("a-network"), "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_says_of_which_commit_it_is() {
    let place = NetworkFolder::empty();
    let shown = text(&weft(place.folder(), &["version", "-o", "json"]).await);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    let line = text(&weft(place.folder(), &["version"]).await);
    assert_eq!(text(&weft(place.folder(), &["--version"]).await), line);
    if let Some(commit) = shown["commit"].as_str() {
        assert!(line.contains(&commit[..12]), "{line}");
        assert!(line.contains(shown["buildDate"].as_str().unwrap()), "{line}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_printed_is_a_failure() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut weft = std::process::Command::new(WEFT);
    let done = weft.arg("--help").stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot print"), "{said}");
}
