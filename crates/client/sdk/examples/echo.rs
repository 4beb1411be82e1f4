//! An echo over a service. `serve` sends everything back, `say` says something and prints the answer.
//!
//! ```sh
//! cargo run -p weft-sdk --example echo -- serve server.json greeter
//! cargo run -p weft-sdk --example echo -- say laptop.json greeter hello
//! ```

use std::error::Error;
use std::process::ExitCode;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_sdk::{Endpoint, Incoming, chain};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["serve", identity, service] => serve(identity, service).await,
        ["say", identity, service, text] => say(identity, service, text).await,
        _ => Err("usage: echo serve IDENTITY SERVICE, or: echo say IDENTITY SERVICE TEXT".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Hosts the service until Ctrl-C.
async fn serve(identity: &str, service: &str) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::load(identity).await?;
    let mut listener = endpoint.bind(service).await?;
    println!("serving {service}");
    loop {
        tokio::select! {
            // Cancel safe: no connection is lost when the other branch is taken.
            incoming = listener.accept() => {
                let incoming = incoming?;
                tokio::spawn(async move {
                    if let Err(error) = echo(incoming).await {
                        eprintln!("echo: a connection broke: {}", chain(&*error));
                    }
                });
            }
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    // Waits until the answers have arrived.
    drop(listener);
    endpoint.close().await?;
    Ok(())
}

async fn echo(incoming: Incoming) -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("{} dials", incoming.dialer_name().unwrap_or("somebody"));
    let (mut reader, mut writer) = incoming.accept().await?.into_split();
    tokio::io::copy(&mut reader, &mut writer).await?;
    // The end of the data goes back, too.
    writer.shutdown().await?;
    Ok(())
}

/// Says a text, and prints what comes back.
async fn say(identity: &str, service: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::load(identity).await?;
    let mut connection = endpoint.dial(service).await?;
    connection.write_all(text.as_bytes()).await?;
    connection.shutdown().await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    println!("{answer}");
    connection.close().await?;
    endpoint.close().await?;
    Ok(())
}
