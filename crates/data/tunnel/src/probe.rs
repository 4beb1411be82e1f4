//! Runs the health checks of a terminator.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{MissedTickBehavior, interval, timeout};
use weft_channel::Asker;

use crate::config::{CheckProbe, TerminatorCheck};
use crate::http_check::Requests;
use crate::{CheckOutcome, CostAndPrecedence, TerminatorHealth, http_check};

/// Runs the checks of a terminator until dropped, and calls `follow` after each: with the outcome,
/// and whether the check passed.
pub async fn watch(
    baseline: CostAndPrecedence,
    checks: &[TerminatorCheck],
    mut follow: impl FnMut(CheckOutcome, bool),
) {
    let mut health = TerminatorHealth::new(baseline, checks);
    let prober = Prober::new();
    let mut running: FuturesUnordered<_> = checks
        .iter()
        .enumerate()
        .map(|(index, check)| {
            let mut turns = interval(check.interval);
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            next(&prober, index, check, turns)
        })
        .collect();
    while let Some((index, check, turns, result)) = running.next().await {
        let passed = result.is_ok();
        if let Err(problem) = result {
            tracing::debug!(%problem, "a health check failed");
        }
        let outcome = health.result(index, passed, Instant::now());
        if outcome != CheckOutcome::default() {
            follow(outcome, passed);
        }
        running.push(next(&prober, index, check, turns));
    }
}

async fn next<'c>(
    prober: &Prober,
    index: usize,
    check: &'c TerminatorCheck,
    mut turns: tokio::time::Interval,
) -> (usize, &'c TerminatorCheck, tokio::time::Interval, Result<(), String>) {
    turns.tick().await;
    let result = timeout(check.timeout, prober.make(&check.probe)).await;
    let result = result.unwrap_or_else(|_| Err(format!("no answer within {:?}", check.timeout)));
    (index, check, turns, result)
}

/// Makes the checks of one terminator, whose lookups of names have a share of their own.
struct Prober {
    share: Arc<str>,
    http: OnceLock<Result<Requests, String>>,
}

impl Prober {
    fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let share = format!("terminator {}", LAST.fetch_add(1, Ordering::Relaxed));
        Self { share: share.into(), http: OnceLock::new() }
    }

    /// Runs a check once.
    async fn make(&self, probe: &CheckProbe) -> Result<(), String> {
        match probe {
            CheckProbe::Port(address) => {
                let found = resolve(&self.share, address).await;
                let found = found.map_err(|error| format!("cannot resolve {address}: {error}"))?;
                let connected = weft_channel::connect(found, None).await;
                connected.map(drop).map_err(|error| format!("cannot connect to {address}: {error}"))
            }
            CheckProbe::Http(check) => {
                let requests = self.http.get_or_init(|| http_check::requests(self.share.clone()));
                http_check::request(requests.as_ref().map_err(Clone::clone)?, check).await
            }
        }
    }
}

/// The addresses of `host:port`.
async fn resolve(share: &str, address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let parts = address.rsplit_once(':');
    let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.ok_or(io::ErrorKind::InvalidInput)?;
    weft_channel::resolve_for(Asker::Check(share), host, port).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use weft_wire::ctrl::TerminatorPrecedence;

    use super::*;
    use crate::config::{CheckAction, Effect, HttpCheck, Trigger};

    fn http(at: &str, expect: Option<&str>) -> CheckProbe {
        CheckProbe::Http(HttpCheck {
            url: at.parse().unwrap(),
            method: "POST",
            body: Some("ping".into()),
            expect_status: 201,
            expect_in_body: expect.map(str::to_owned),
        })
    }

    #[tokio::test]
    async fn an_answer_is_looked_at_as_the_check_says() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}/health", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"ping") {
                    request.push(stream.read_u8().await.unwrap());
                }
                let request = String::from_utf8(request).unwrap();
                let good = request.starts_with("POST /health HTTP/1.1\r\n");
                let status = if good { 201 } else { 500 };
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 7\r\n\r\nall good");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let prober = Prober::new();
        assert_eq!(prober.make(&http(&at, None)).await, Ok(()));
        assert_eq!(prober.make(&http(&at, Some("all goo"))).await, Ok(()));
        let other = prober.make(&http(&at, Some("bad"))).await.unwrap_err();
        assert!(other.contains("does not contain"), "{other}");
        let status = prober.make(&http(&at.replace("health", "x"), None)).await.unwrap_err();
        assert!(status.contains("answered 500, not 201"), "{status}");
        serving.abort();
    }

    #[tokio::test]
    async fn checks_are_made_until_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let action = |trigger, effect| CheckAction {
            trigger,
            consecutive_events: None,
            duration: None,
            effect,
        };
        let checks = [TerminatorCheck {
            probe: CheckProbe::Port(listener.local_addr().unwrap().to_string()),
            interval: Duration::from_millis(10),
            timeout: Duration::from_secs(5),
            actions: vec![
                action(Trigger::Fail, Effect::MarkUnhealthy),
                action(Trigger::Change, Effect::SendEvent),
            ],
        }];
        let (tell, mut told) = mpsc::unbounded_channel();
        let watching = watch(CostAndPrecedence::default(), &checks, |outcome, passed| {
            tell.send((outcome, passed)).unwrap();
        });
        let following = async {
            let (outcome, passed) = told.recv().await.unwrap();
            assert!(passed && outcome.event && outcome.terms.is_none());
            drop(listener);
            let (outcome, passed) = told.recv().await.unwrap();
            assert!(!passed && outcome.event);
            assert_eq!(outcome.terms.unwrap().precedence, TerminatorPrecedence::Failed);
        };
        tokio::select! {
            () = watching => panic!("it ended by itself"),
            () = following => {}
            () = tokio::time::sleep(Duration::from_secs(20)) => panic!("it took too long"),
        }
    }
}
