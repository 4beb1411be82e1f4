//! A web server that listens at no port: its requests come over a service, from identities that a policy allows.
//!
//! ```sh
//! cargo run -p weft-sdk --example http_server -- server.json greeter
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::process::ExitCode;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming as RequestBody;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use weft_sdk::{Endpoint, Incoming, chain};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [identity, service] => serve(identity, service).await,
        _ => Err("usage: http_server IDENTITY SERVICE".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("http_server: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Hosts the service for as long as it may.
async fn serve(identity: &str, service: &str) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::load(identity).await?;
    let mut listener = endpoint.bind(service).await?;
    println!("serving {service}");
    loop {
        let incoming = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(error) = answer(incoming).await {
                eprintln!("http_server: a connection broke: {}", chain(&*error));
            }
        });
    }
}

/// Answers the requests of one connection. A connection of the overlay is a stream like any other.
async fn answer(incoming: Incoming) -> Result<(), Box<dyn Error + Send + Sync>> {
    let dialer = incoming.dialer_name().unwrap_or("somebody").to_owned();
    let connection = incoming.accept().await?;
    let greet = service_fn(move |request: Request<RequestBody>| {
        // The network has verified who asks: no cookie, no password.
        let text = format!("hello {dialer}, this is {}\n", request.uri().path());
        async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text)))) }
    });
    let http = hyper::server::conn::http1::Builder::new();
    http.serve_connection(TokioIo::new(connection), greet).await?;
    Ok(())
}
