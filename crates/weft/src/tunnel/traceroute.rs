//! `weft traceroute`: the hops that a connection with a service goes over.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use weft_sdk::{Connection, DialOptions};

use super::explain::{self, Use};
use super::identities;
use crate::cli::TracerouteArgs;
use crate::codes::Codes;
use crate::failure::{Failure, Result};
use crate::output;
use crate::signals::until_interrupted;

/// Interval at which the controller is asked for changes of services. Long, because the command is short.
const REFRESH: Duration = Duration::from_secs(300);

/// Dials a service and shows the hops on the way.
pub(crate) async fn traceroute(args: TracerouteArgs) -> Result<()> {
    until_interrupted(trace(args)).await
}

async fn trace(args: TracerouteArgs) -> Result<()> {
    // Routers do the flow control: OpenZiti's up to 2.0 answer only SDKs without flow control of their own.
    let codes = Codes::new(&args.login.codes, std::slice::from_ref(&args.identity))?;
    let builder = identities::builder(REFRESH, &args.login, &codes, &args.identity);
    let builder = builder.router_flow_control();
    let endpoint = identities::log_in_with(&args.identity, builder).await?;
    let timeout = Duration::from_secs(args.timeout.into());
    let mut options = DialOptions::new().timeout(timeout);
    options.instance = args.instance;
    let connection = match endpoint.dial_with(&args.service, options).await {
        Ok(connection) => connection,
        Err(error) => {
            return Err(explain::of_service(&endpoint, &args.service, Use::Dial, &error).await);
        }
    };
    let (mut hops, mut outcome) = (Vec::new(), Ok(()));
    for number in 1..=args.hops {
        match next(&connection, number, timeout).await {
            Ok(Some(hop)) => hops.push(hop),
            Ok(None) => break,
            Err(failure) => {
                outcome = Err(failure);
                break;
            }
        }
    }
    drop(connection);
    // The connection carried nothing.
    let _ = endpoint.close().await;
    let members = ["hop", "kind", "id", "milliseconds"];
    output::list(args.output.format(), hops, &members, "no hops: none has answered");
    outcome
}

/// The hop of this number; `None` if the way is shorter.
async fn next(connection: &Connection, number: u32, timeout: Duration) -> Result<Option<Value>> {
    let hop = connection.hop(number, timeout).await.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => {
            Failure::unreachable(format!("hop {number} did not answer within {timeout:?}")).and(
                "hint: SDKs and routers that know no traced routes do not answer; the connection \
                 may work all the same",
            )
        }
        _ => Failure::new(format!("hop {number}: {error}")),
    })?;
    match &hop.error {
        Some(error) => Err(Failure::unreachable(format!("the way ends at hop {number}: {error}"))),
        None => {
            Ok((hop.missing == 0).then(|| row(number, (&hop.kind, hop.id.as_deref()), hop.time)))
        }
    }
}

fn row(number: u32, (kind, id): (&str, Option<&str>), time: Duration) -> Value {
    // Hundredths of a millisecond.
    let milliseconds = (time.as_secs_f64() * 1e5).round() / 1e2;
    json!({"hop": number, "kind": kind, "id": id.unwrap_or_default(), "milliseconds": milliseconds})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_shown_with_its_time_in_milliseconds() {
        let expected = json!({"hop": 2, "kind": "forwarder", "id": "r1", "milliseconds": 1.23});
        assert_eq!(row(2, ("forwarder", Some("r1")), Duration::from_micros(1234)), expected);
    }
}
