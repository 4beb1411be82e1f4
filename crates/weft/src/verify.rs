//! `weft verify traffic`: proves that data gets through a network, and measures how fast.
//!
//! A `scene` of throw-away entities is created over the management API, two applications in this
//! process use it (`traffic`), and everything is removed again, whatever happened. `weft
//! quickstart` checks itself with the same code.

mod scene;
mod traffic;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
pub(crate) use scene::Terms;
use scene::{Scene, with};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
pub(crate) use traffic::{Amount, Measured};
use weft_client::ManagementClient;
use weft_contract::resource::edge_router::{self, EdgeRouterDetail};

use crate::cli::TrafficArgs;
use crate::failure::{Failure, Result};
use crate::output::{self, Format, bytes};
use crate::signals;
use crate::spans::Export;

const MIB: u64 = 1 << 20;
/// Time for removing everything at the end.
const REMOVAL: Duration = Duration::from_secs(30);
/// Time for a request that is in progress at an interruption. If the request was abandoned at once, its
/// entity could be created after the removal.
const LAST_REQUEST: Duration = Duration::from_secs(10);

/// The results of a check, and what it was made with.
pub(crate) struct Checked {
    pub(crate) measured: Measured,
    /// Names of the routers over which the service could be dialed.
    routers: Vec<String>,
    /// Names of the other edge routers.
    others: Vec<String>,
}

/// Runs the command.
pub(crate) async fn traffic(args: TrafficArgs) -> Result<()> {
    let client = args.session.client().await?;
    let amount = Amount {
        bytes: u64::from(args.size) * MIB,
        round_trips: args.pings,
        patience: Duration::from_secs(args.timeout.into()),
    };
    let terms = terms(&args);
    let progress = progress(&args);
    let export = Export::start("weft-verify");
    let stop = signals::first()?;
    let checked = Box::pin(measure(&client, &amount, &terms, &export, &progress, &stop)).await;
    progress.finish_and_clear();
    export.end().await;
    let checked = checked?;
    match format(&args) {
        Format::Table => print(&checked, &terms),
        format => output::value(format, &as_json(&checked, &terms), String::new),
    }
    Ok(())
}

/// The attributes of the command line, which may be given as roles.
fn terms(args: &TrafficArgs) -> Terms {
    let names = |given: &[String]| -> Vec<String> {
        given.iter().map(|name| name.trim_start_matches('#').to_owned()).collect()
    };
    let dialer = names(&args.identity_attributes);
    Terms {
        host: args.host_attributes.as_deref().map_or_else(|| dialer.clone(), names),
        dialer,
        service: names(&args.service_attributes),
        all_routers: args.all_routers,
    }
}

/// Creates the scene, measures, and removes the scene, also after a failure or once `stop` is
/// cancelled.
pub(crate) async fn measure(
    client: &ManagementClient,
    amount: &Amount,
    terms: &Terms,
    export: &Export,
    progress: &ProgressBar,
    stop: &CancellationToken,
) -> Result<Checked> {
    progress.set_message("looking for edge routers");
    let all = edge_routers(client).await?;
    let scene = Scene::new(client, terms, stop);
    let played = Box::pin(play(&scene, amount, export, progress, stop)).await;
    let checked = played.map(|(measured, routers)| {
        let others = all.into_iter().filter(|name| !routers.contains(name)).collect();
        Checked { measured, others, routers }
    });
    progress.set_message("removing what was made");
    let removed = tokio::time::timeout(REMOVAL, scene.remove()).await;
    let removed = removed.unwrap_or_else(|_| {
        Err(Failure::new(format!("not everything was removed in {} s", REMOVAL.as_secs())))
    });
    match (checked, removed) {
        (checked, Ok(())) => checked,
        (Ok(_), Err(left)) => Err(left),
        (Err(failure), Err(left)) => {
            output::say(format!("weft: {left}"));
            Err(failure)
        }
    }
}

async fn play(
    scene: &Scene<'_>,
    amount: &Amount,
    export: &Export,
    progress: &ProgressBar,
    stop: &CancellationToken,
) -> Result<(Measured, Vec<String>)> {
    progress.set_message("making a service and two identities");
    let patience_is_over = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_REQUEST).await;
    };
    let cast = tokio::select! {
        cast = scene.make() => cast?,
        () = patience_is_over => return Err(Failure::interrupted()),
    };
    let routers = cast.routers.clone();
    tokio::select! {
        measured = traffic::run(cast, amount, export, progress) => Ok((measured?, routers)),
        () = stop.cancelled() => Err(Failure::interrupted()),
    }
}

/// The names of the edge routers. Fails at once if none is online.
async fn edge_routers(client: &ManagementClient) -> Result<Vec<String>> {
    let routers: Vec<EdgeRouterDetail> = client.list(&edge_router::KIND, None).await?;
    if routers.iter().any(|router| router.is_online) {
        return Ok(routers.into_iter().map(|router| router.name).collect());
    }
    Err(Failure::new(match routers.len() {
        0 => "there is no edge router; `weft create edge-router --help` says how to add one".into(),
        1 => "the only edge router is not online; start it".into(),
        count => format!("none of the {count} edge routers is online; start one"),
    }))
}

fn format(args: &TrafficArgs) -> Format {
    if args.json { Format::Json } else { args.output.format() }
}

fn progress(args: &TrafficArgs) -> ProgressBar {
    if format(args) != Format::Table {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template(
        "{spinner} {msg:36!} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}",
    );
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// What a check did not try, in words.
fn not_tried(checked: &Checked, terms: &Terms) -> Vec<String> {
    let mut all = vec![
        "the service policies, configs and posture checks of the network: the service was the check's own"
            .to_owned(),
        "tunnelers and the applications that they host".to_owned(),
    ];
    if terms.all_routers {
        all.insert(0, "the router policies of the network: every router was allowed".to_owned());
    }
    if !checked.others.is_empty() {
        all.push(format!(
            "edge routers that are offline or not allowed: {}",
            checked.others.join(", ")
        ));
    }
    all
}

fn print(checked: &Checked, terms: &Terms) {
    let Checked { measured, routers, .. } = checked;
    let rate = |time: Duration| format!("{}/s", bytes(per_second(measured.bytes, time)));
    let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    output::line(format_args!(
        "to the host    {:>10}  {:>14}  checksum right",
        bytes(measured.bytes),
        rate(measured.up)
    ));
    output::line(format_args!(
        "to the dialer  {:>10}  {:>14}  checksum right",
        bytes(measured.bytes),
        rate(measured.down)
    ));
    output::line(format_args!(
        "round trips    {:>10}  p50 {}, p99 {}",
        measured.round_trips,
        millis(measured.p50),
        millis(measured.p99)
    ));
    output::line(format_args!("first dial     {:>10}", millis(measured.dial)));
    let sealed =
        if measured.encrypted { "encrypted end to end" } else { "not encrypted end to end" };
    output::line(format_args!("{sealed}; everything that was made for this is removed again"));
    output::line(format_args!(
        "tried: an identity {} dials a service {} of a host {}, over the best of the routers {}",
        with(&terms.dialer),
        with(&terms.service),
        with(&terms.host),
        routers.join(", ")
    ));
    for what in not_tried(checked, terms) {
        output::line(format_args!("not tried: {what}"));
    }
}

fn as_json(checked: &Checked, terms: &Terms) -> Value {
    let measured = &checked.measured;
    let way = |time: Duration| {
        json!({
            "seconds": time.as_secs_f64(),
            "bytesPerSecond": per_second(measured.bytes, time),
        })
    };
    json!({
        "bytesEachWay": measured.bytes,
        "toHost": way(measured.up),
        "toDialer": way(measured.down),
        "roundTrips": {
            "count": measured.round_trips,
            "p50Micros": u64::try_from(measured.p50.as_micros()).unwrap_or(u64::MAX),
            "p99Micros": u64::try_from(measured.p99.as_micros()).unwrap_or(u64::MAX),
        },
        "firstDialMicros": u64::try_from(measured.dial.as_micros()).unwrap_or(u64::MAX),
        "encrypted": measured.encrypted,
        "tried": {
            "identityAttributes": terms.dialer,
            "hostAttributes": terms.host,
            "serviceAttributes": terms.service,
            "allRouters": terms.all_routers,
            "routers": checked.routers,
        },
        "notTried": not_tried(checked, terms),
    })
}

fn per_second(bytes: u64, time: Duration) -> u64 {
    (bytes as f64 / time.as_secs_f64().max(1e-9)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_are_told_in_stable_names() {
        let measured = Measured {
            bytes: 2 * MIB,
            up: Duration::from_secs(2),
            down: Duration::from_secs(1),
            round_trips: 3,
            p50: Duration::from_micros(150),
            p99: Duration::from_millis(2),
            dial: Duration::from_millis(5),
            encrypted: true,
        };
        let checked =
            Checked { measured, routers: vec!["paris".into()], others: vec!["oslo".into()] };
        let terms = Terms { dialer: vec!["staff".into()], ..Terms::default() };
        let told = as_json(&checked, &terms);
        assert_eq!(told["tried"]["identityAttributes"], json!(["staff"]));
        assert_eq!(told["tried"]["routers"], json!(["paris"]));
        let not_tried = told["notTried"].as_array().unwrap();
        assert!(not_tried.iter().any(|what| what.as_str().unwrap().ends_with("allowed: oslo")));
        assert_eq!(told["toHost"]["bytesPerSecond"], MIB);
        assert_eq!(told["toDialer"]["bytesPerSecond"], 2 * MIB);
        assert_eq!(told["roundTrips"], json!({"count": 3, "p50Micros": 150, "p99Micros": 2000}));
        assert_eq!(told["encrypted"], true);
    }
}
