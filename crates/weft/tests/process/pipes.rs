//! Pipes in place of files: a command reads them, and a signal ends a command that waits for one.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;

use crate::network::NetworkFolder;
use crate::program::Program;
use crate::wait::{PATIENCE, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_waits_for_a_pipe_ends_by_one_signal() {
    let place = NetworkFolder::empty();
    let pipe = place.folder().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = pipe.to_str().unwrap();
    let login =
        ["login", "https://localhost:1", "--username", "a", "--password", "b", "--ca", path];
    for arguments in [&["enroll", path][..], &login] {
        let mut program = Program::start(&place.folder().join("out"), arguments);
        // A pipe is opened for writing without waiting once somebody reads it.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let open = async || File::options().write(true).custom_flags(nonblocking).open(&pipe);
        let (_kept_open, _) = until("the command reads the pipe", PATIENCE, open).await;
        program.signal("TERM");
        assert_eq!(program.ended().await.code(), Some(130), "{}", program.said());
    }
}
