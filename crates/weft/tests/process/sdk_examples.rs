//! The README of the Rust SDK word by word, and all of the SDK's examples as programs of their own.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::network::NetworkFolder;
use crate::program::{Program, WEFT, text};
use crate::wait::{PATIENCE, until, within};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/sdk/README.md");
/// How the README runs an example.
const RUN: &str = "cargo run -p weft-sdk --example ";

/// The shell blocks of the README.
fn blocks() -> Vec<String> {
    let readme = fs::read_to_string(README).unwrap();
    let blocks = readme.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// The program of an example. The tests of the whole workspace build it beside `weft`.
fn example(name: &str) -> PathBuf {
    let path = Path::new(WEFT).with_file_name("examples").join(format!("{name}{EXE_SUFFIX}"));
    assert!(
        path.exists(),
        "{} is missing: `cargo build -p weft-sdk --examples` makes it, and so does `cargo test --workspace`",
        path.display()
    );
    path
}

/// Starts an example that runs on, with these arguments.
fn start(place: &NetworkFolder, log: &str, name: &str, arguments: &str) -> Program {
    place.start_shell(log, &format!("exec {} {arguments}", example(name).display()))
}

/// What an example prints that ends by itself.
async fn printed(folder: &Path, name: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(example(name));
    command.args(arguments).current_dir(folder).kill_on_drop(true);
    let done = within(name, PATIENCE, command.output()).await.unwrap();
    match done.status.success() {
        true => Ok(String::from_utf8(done.stdout).unwrap()),
        false => Err(text(&done)),
    }
}

/// The page at a path, over a port of this machine.
async fn page(at: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_of_the_sdk_and_its_examples_work() {
    let place = NetworkFolder::empty();
    let [network, commands, examples]: [String; 3] = blocks().try_into().unwrap();
    let ports = [place.control, place.router].map(|port| port.to_string());
    let mut words: Vec<&str> = network.split_whitespace().skip(1).collect();
    words.extend(["--ctrl-port", &ports[0], "--router-port", &ports[1]]);
    let mut quickstart = place.start("quickstart", &words);
    quickstart.says("The network is up", PATIENCE).await;

    let commands = commands.replace("localhost:1280", &format!("localhost:{}", place.control));
    let script = format!("set -euo pipefail\nweft() {{ '{WEFT}' \"$@\"; }}\n{commands}");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(place.folder()).kill_on_drop(true);
    shell.env("WEFT_CONFIG_DIR", place.folder().join("logins"));
    let done = within("the commands", 2 * PATIENCE, shell.output()).await.unwrap();
    assert!(done.status.success(), "{}", text(&done));

    let lines: Vec<&str> = examples.lines().map(|line| line.trim_end_matches(" &")).collect();
    let [serve, say] = lines[..] else { panic!("{examples}") };
    let [serve, say] = [serve, say].map(|line| line.strip_prefix(RUN).unwrap());
    let [serve, say] = [serve, say].map(|line| line.strip_prefix("echo -- ").unwrap());
    let mut host = start(&place, "echo", "echo", serve);
    host.says("serving greeter", PATIENCE).await;
    let words: Vec<&str> = say.split_whitespace().collect();
    let said = async || printed(place.folder(), "echo", &words).await;
    let (said, _) = until("the echo answers", PATIENCE, said).await;
    assert_eq!(said, "hello\n");
    host.says("laptop dials", PATIENCE).await;
    host.signal("INT");
    assert!(host.ended().await.success(), "{}", host.said());
    let nobody = printed(place.folder(), "echo", &words).await.unwrap_err();
    assert!(nobody.contains("echo: `greeter` has no host now: "), "{nobody}");

    let mut server = start(&place, "server", "http_server", "server.json greeter");
    server.says("serving greeter", PATIENCE).await;
    let path = ["laptop.json", "greeter", "/some/path"];
    let asked = async || printed(place.folder(), "http_client", &path).await;
    let (answer, _) = until("the web server answers", PATIENCE, asked).await;
    assert_eq!(answer, "hello laptop, this is /some/path\n");

    let mut proxy = start(&place, "proxy", "proxy", "laptop.json greeter 127.0.0.1:0");
    proxy.says(" leads to greeter", PATIENCE).await;
    let at: SocketAddr = proxy.said().split(' ').next().unwrap().parse().unwrap();
    let (answer, _) = until("the proxy leads there", PATIENCE, async || page(at, "/x").await).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("this is /x\n"), "{answer}");
}
