//! A port of this machine that leads to a service, for programs that know nothing of the overlay.
//!
//! ```sh
//! cargo run -p weft-sdk --example proxy -- laptop.json greeter 127.0.0.1:8080
//! curl http://127.0.0.1:8080/
//! ```

use std::error::Error;
use std::process::ExitCode;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use weft_sdk::{Endpoint, chain};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [identity, service, address] => serve(identity, service, address).await,
        _ => Err("usage: proxy IDENTITY SERVICE ADDRESS:PORT".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("proxy: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Leads connections to an address of this machine to the service.
async fn serve(identity: &str, service: &str, address: &str) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::load(identity).await?;
    let port = TcpListener::bind(address).await?;
    println!("{} leads to {service}", port.local_addr()?);
    loop {
        let (near, _) = port.accept().await?;
        let (endpoint, service) = (endpoint.clone(), service.to_owned());
        tokio::spawn(async move {
            if let Err(error) = lead(near, &endpoint, &service).await {
                eprintln!("proxy: a connection broke: {}", chain(&*error));
            }
        });
    }
}

/// Passes data in both directions until both have ended.
async fn lead(
    mut near: TcpStream,
    endpoint: &Endpoint,
    service: &str,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut far = endpoint.dial(service).await?;
    copy_bidirectional(&mut near, &mut far).await?;
    // Data that was written last may still be on its way.
    far.close().await?;
    Ok(())
}
