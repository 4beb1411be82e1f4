//! A router as a service: messages to the service manager, effects of SIGHUP, and files of traces and
//! profiles.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::network::NetworkFolder;
use crate::program::{WEFT, text, weft};
use crate::wait::{PATIENCE, until};

/// Waits until the manager receives a message with a line that begins with these words.
async fn hears(socket: &UnixDatagram, words: &str) {
    let look = async || {
        let mut bytes = [0; 4096];
        while let Ok(length) = socket.recv(&mut bytes) {
            let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if said.lines().any(|line| line.starts_with(words)) {
                return Ok(());
            }
        }
        Err("not yet")
    };
    until(&format!("the manager hears {words}"), PATIENCE, look).await;
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_hears_of_start_reload_and_stop_and_files_are_left_behind() {
    let place = NetworkFolder::made().await;
    let in_folder = |name: &str| place.folder().join(name);
    let (trace, memory) = (in_folder("router.trace"), in_folder("memory.pb"));
    place.append_to_router_file(&format!(
        "\ntrace: {{path: {}}}\nprofile: {{memory: {{path: {}, intervalMs: 100}}}}\n",
        shown(&trace),
        shown(&memory)
    ));
    let _controller = place.start_controller();
    let (socket, levels) = (in_folder("notify"), in_folder("levels"));
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_nonblocking(true).unwrap();
    let mut router = place.start_shell(
        "router",
        &format!(
            "exec env NOTIFY_SOCKET={} WATCHDOG_USEC=400000 {WEFT} router run {} --log-levels {} \
             --log-format json --grace 1",
            shown(&socket),
            shown(&place.home().join("router.yaml")),
            shown(&levels)
        ),
    );
    hears(&manager, "READY=1").await;
    hears(&manager, "WATCHDOG=1").await;
    hears(&manager, "WATCHDOG=1").await;
    assert!(!router.said().contains(r#""level":"DEBUG""#), "nobody asked for so much");
    for line in router.said().lines() {
        let record: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(record.is_ok_and(|record| record["message"].is_string()), "{line}");
    }
    std::fs::write(&levels, "weft_router=debug,weft_channel=debug,info\n").unwrap();
    router.signal("HUP");
    hears(&manager, "RELOADING=1").await;
    hears(&manager, "READY=1").await;
    router.signal("TERM");
    hears(&manager, "STOPPING=1").await;
    assert!(router.ended().await.success());
    assert!(router.said().contains(r#""level":"DEBUG""#), "the levels were read again");

    let kept = std::fs::read(&memory).unwrap();
    assert!(kept.windows(8).any(|part| part == b"resident"), "a profile of the memory");
    let all = weft(place.folder(), &["trace", "show", "router.trace"]).await;
    assert!(text(&all).contains("ServerHello"), "{}", text(&all));
    let args = ["trace", "show", "router.trace", "--type", "serverhello", "-o", "json"];
    let picked = weft(place.folder(), &args).await;
    let picked: serde_json::Value = serde_json::from_slice(&picked.stdout).unwrap();
    let picked = picked.as_array().unwrap();
    assert!(!picked.is_empty() && picked.iter().all(|one| one["name"] == "ServerHello"));
    let none = weft(place.folder(), &["trace", "show", "router.trace", "--peer", "nobody"]).await;
    assert_eq!(text(&none), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_is_stopped_before_it_is_up_never_says_that_it_is() {
    let place = NetworkFolder::made().await;
    let socket = place.folder().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_nonblocking(true).unwrap();
    let mut router = place.start_shell(
        "router",
        &format!(
            "exec env NOTIFY_SOCKET={} {WEFT} router run {} --grace 1",
            shown(&socket),
            shown(&place.home().join("router.yaml"))
        ),
    );
    // There is no controller.
    router.says("router started", PATIENCE).await;
    router.signal("TERM");
    assert!(router.ended().await.success());
    let (mut said, mut bytes) = (String::new(), [0; 4096]);
    while let Ok(length) = manager.recv(&mut bytes) {
        said += &String::from_utf8_lossy(&bytes[..length]);
    }
    assert!(said.contains("STOPPING=1") && !said.contains("READY=1"), "{said}");
}
