//! `weft host`: hosts one application of this machine as a service.

use std::sync::Arc;
use std::time::Duration;

use weft_tunnel::{CostAndPrecedence, HostConfig, Protocol};
use weft_tunneler::{HostedTerminator, TrafficRegistry};
use weft_wire::ctrl::TerminatorPrecedence;
use weft_wire::host_port;

use super::ending::Ending;
use super::explain::{self, Use};
use super::identities;
use crate::cli::{HostArgs, HostPrecedence};
use crate::failure::{Failure, Result};
use crate::{output, signals};

/// Interval at which the controller is asked for changes of services.
const REFRESH: Duration = Duration::from_secs(60);

/// Hosts a service until it is told to stop.
pub(crate) async fn host(args: HostArgs) -> Result<()> {
    let stages = signals::stages()?;
    let stop = &stages.stop;
    let (endpoint, hosted, traffic) = tokio::select! {
        biased;
        () = stop.cancelled() => return Err(Failure::interrupted()),
        begun = begin(&args) => begun?,
    };
    stop.cancelled().await;
    drop(hosted);
    let drain = Duration::from_secs(args.drain.into());
    let ending = Ending::drained(&stages, || traffic.open(), drain).await;
    ending.leave(vec![endpoint]).await;
    ending.result()
}

async fn begin(
    args: &HostArgs,
) -> Result<(weft_sdk::Endpoint, HostedTerminator, Arc<TrafficRegistry>)> {
    let (protocol, host, port) = address(&args.address)?;
    let endpoint = identities::log_in(&args.identity, REFRESH, &args.login).await?;
    let services = endpoint.services().await.map_err(|error| explain::failure(&error))?;
    explain::check(&endpoint, &services, &args.service, Use::Bind)?;
    let precedence = match args.precedence {
        HostPrecedence::Default => TerminatorPrecedence::Default,
        HostPrecedence::Required => TerminatorPrecedence::Required,
        HostPrecedence::Failed => TerminatorPrecedence::Failed,
    };
    let traffic = Arc::<TrafficRegistry>::default();
    let hosted = HostedTerminator::start(
        endpoint.clone(),
        &args.service,
        HostConfig::fixed(protocol, host.clone(), port),
        &args.instance,
        CostAndPrecedence { cost: args.cost, precedence },
        Duration::from_secs(args.silence.udp_idle.into()),
        traffic.of(&args.service),
    );
    hosted.established().await.map_err(Failure::refused)?;
    output::line(format!(
        "hosting {}: dials go to {protocol}:{}; Ctrl-C ends",
        args.service,
        host_port(&host, port)
    ));
    Ok((endpoint, hosted, traffic))
}

/// Reads the address of an application: `8000`, `host:8000`, `tcp:host:8000`, `udp:host:53`.
fn address(text: &str) -> Result<(Protocol, String, u16)> {
    let wrong = || {
        Failure::usage(format!(
            "`{text}` is not the address of an application: write <port>, <host>:<port> or \
             udp:<host>:<port>"
        ))
    };
    let (protocol, rest) = match text.split_once(':') {
        Some(("tcp", rest)) if rest.contains(':') => (Protocol::Tcp, rest),
        Some(("udp", rest)) => (Protocol::Udp, rest),
        _ => (Protocol::Tcp, text),
    };
    let (host, port) = rest.rsplit_once(':').unwrap_or(("localhost", rest));
    let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    // IPv6 addresses contain colons and need brackets.
    if bare.is_none() && host.contains(':') {
        return Err(wrong());
    }
    let host = bare.unwrap_or(host);
    let host = if host.is_empty() { "localhost" } else { host };
    Ok((protocol, host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_short_where_they_can_be() {
        let read = |text: &str| {
            address(text).ok().map(|(protocol, host, port)| format!("{protocol} {host} {port}"))
        };
        let is = |text: &str, expected: &str| assert_eq!(read(text).as_deref(), Some(expected));
        is("8000", "tcp localhost 8000");
        is(":8000", "tcp localhost 8000");
        is("web:80", "tcp web 80");
        is("tcp:web:80", "tcp web 80");
        is("tcp:80", "tcp tcp 80");
        is("udp:53", "udp localhost 53");
        is("udp:[::1]:53", "udp ::1 53");
        is("[::1]:53", "tcp ::1 53");
        for wrong in ["", "web", "web:0", "::1:80", "http://web:80", "web:99999"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
