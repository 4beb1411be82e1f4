//! A request to a web server behind a service, without a port or a name for it on this machine.
//!
//! ```sh
//! cargo run -p weft-sdk --example http_client -- laptop.json greeter /some/path
//! ```

use std::error::Error;
use std::process::ExitCode;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use weft_sdk::{Endpoint, chain};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [identity, service, path] => get(identity, service, path).await,
        _ => Err("usage: http_client IDENTITY SERVICE PATH".into()),
    };
    match done {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("http_client: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The page at a path.
async fn get(identity: &str, service: &str, path: &str) -> Result<String, Box<dyn Error>> {
    let endpoint = Endpoint::load(identity).await?;
    let connection = endpoint.dial(service).await?;
    let (mut sender, http) =
        hyper::client::conn::http1::handshake(TokioIo::new(connection)).await?;
    let http = tokio::spawn(http);
    let request = Request::get(path).header("host", service).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    // Without a sender the connection ends.
    drop(sender);
    http.await??;
    endpoint.close().await?;
    match status.is_success() {
        true => Ok(String::from_utf8(body.into())?),
        false => Err(format!("{service} answered {status}").into()),
    }
}
