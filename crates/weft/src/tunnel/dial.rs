//! `weft dial`: one connection, at standard input and output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use weft_sdk::{Connection, DialOptions};

use super::explain::{self, Use};
use super::identities;
use crate::cli::DialArgs;
use crate::codes::Codes;
use crate::failure::{Failure, Result};
use crate::output;
use crate::signals::until_interrupted;

/// Interval at which the controller is asked for changes of services. Long, because a dial needs none.
const REFRESH: Duration = Duration::from_secs(300);

/// Connects standard input and output with a service.
pub(crate) async fn dial(args: DialArgs) -> Result<()> {
    until_interrupted(connect(args)).await
}

async fn connect(args: DialArgs) -> Result<()> {
    let app_data = args.to.as_deref().map(app_data).transpose()?;
    let codes = Codes::new(&args.login.codes, std::slice::from_ref(&args.identity))?;
    let builder = identities::builder(REFRESH, &args.login, &codes, &args.identity);
    let endpoint = identities::log_in_with(&args.identity, builder).await?;
    let mut options = DialOptions::new().timeout(Duration::from_secs(args.timeout.into()));
    (options.instance, options.app_data) = (args.instance, app_data);
    let mut connection = match endpoint.dial_with(&args.service, options).await {
        Ok(connection) => connection,
        Err(error) => {
            if args.to.is_none()
                && let Some(failure) =
                    explain::lacks_address(&endpoint, &args.service, &error).await
            {
                return Err(failure);
            }
            return Err(explain::of_service(&endpoint, &args.service, Use::Dial, &error).await);
        }
    };
    codes.ask_no_more().await;
    if args.verbose {
        output::say(described(&mut connection).await);
    }
    let (input, output) = (tokio::io::stdin(), StandardOutput(tokio::io::stdout()));
    let carried = weft_tunneler::carry::pipe(connection, input, output).await;
    // Waits until everything written has arrived. A service may end the connection before it has read all.
    if let Err(problem) = endpoint.close().await {
        tracing::debug!(%problem, "the connection was ended before all data had arrived");
    }
    match carried {
        // The reader of standard output has seen enough.
        Err(error) if weft_tunneler::carry::output_is_closed(&error) => Ok(()),
        Err(error) => {
            Err(Failure::new(format!("the connection to {} broke: {error}", args.service)))
        }
        Ok(()) => Ok(()),
    }
}

/// The connection, and who is at its other end.
async fn described(connection: &mut Connection) -> String {
    // Known at once: a dial ends when the host has proved itself.
    let peer = connection.peer().await.ok().flatten().cloned();
    let info = connection.info();
    let end = match peer {
        Some(peer) => {
            format!("encrypted; the other end has proved that it is {} ({})", peer.name, peer.identity)
        }
        None if connection.is_encrypted() => {
            "encrypted; the other end has not proved who it is: it is not weft's, or a router on the path has prevented \
             the proof"
                .to_owned()
        }
        None => "not encrypted: routers on the path can read and change the data".to_owned(),
    };
    let circuit = info.circuit_id.as_deref().unwrap_or("that its router does not name");
    format!("connected to {} over circuit {circuit}: {end}", info.service)
}

/// Standard output, which is closed at the end of what the service says, so that its reader sees the end
/// although standard input may go on.
struct StandardOutput(tokio::io::Stdout);

impl AsyncWrite for StandardOutput {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_flush(context))?;
        Poll::Ready(close_output())
    }
}

/// Closes standard output. Later text would go to whatever file gets its number next; it goes nowhere instead.
#[cfg(unix)]
fn close_output() -> io::Result<()> {
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}

#[cfg(not(unix))]
fn close_output() -> io::Result<()> {
    Ok(())
}

/// Application data for a host that forwards addresses or ports: the address that the host connects to.
fn app_data(text: &str) -> Result<Bytes> {
    let wrong = || Failure::usage(format!("--to: `{text}` must be <host>:<port>"));
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() {
        return Err(wrong());
    }
    let key = if host.parse::<std::net::IpAddr>().is_ok() { "dst_ip" } else { "dst_hostname" };
    let data = serde_json::json!({
        "dst_protocol": "tcp", "dst_port": port.to_string(), key: host,
    });
    Ok(Bytes::from(data.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_told_what_is_wanted() {
        let told = |text: &str| -> serde_json::Value {
            serde_json::from_slice(&app_data(text).unwrap()).unwrap()
        };
        assert_eq!(told("web:80")["dst_hostname"], "web");
        assert_eq!(told("[::1]:80")["dst_ip"], "::1");
        assert_eq!(told("10.0.0.1:22")["dst_port"], "22");
        for wrong in ["web", "web:", ":80", "web:70000"] {
            assert!(app_data(wrong).is_err(), "{wrong}");
        }
    }
}
