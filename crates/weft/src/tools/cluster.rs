//! `weft cluster`: the controllers of a network, and the members of etcd in which they share it.

use serde_json::{Value, json};
use weft_client::ManagementClient;
use weft_contract::Api;
use weft_contract::resource::cluster::{ClusterDetail, ClusterUpgrade, ControllerInvitation};

use super::row;
use crate::ask;
use crate::cli::{ClusterArgs, ClusterCommand};
use crate::failure::{Failure, Result};
use crate::output::{self, Format, counted, quoted};

/// The members of a controller that the list shows.
const SHOWN: [&str; 8] =
    ["id", "state", "leads", "revision", "clock", "version", "joinedAt", "address"];
/// The members of a member of etcd that are shown.
const SHOWN_ETCD: [&str; 6] = ["address", "state", "leads", "version", "file", "answeredIn"];

/// Milliseconds by which clocks of controllers may differ.
const CLOCKS: u64 = 2_000;

/// Runs the subcommand.
pub(crate) async fn cluster(args: ClusterArgs) -> Result<()> {
    let client = args.session.client().await?;
    let format = args.output.format();
    match args.command {
        ClusterCommand::List => list(&client, format).await,
        ClusterCommand::Status => status(&client, format).await,
        ClusterCommand::Invite { name } => invite(&client, &name, format).await,
        ClusterCommand::Remove { name, yes } => remove(&client, &name, yes).await,
        ClusterCommand::Upgrade { yes } => upgrade(&client, yes, format).await,
        ClusterCommand::Readmit { name } => {
            let operation = row(Api::Weft, "readmitController")?;
            let body = json!({"name": name});
            let _: Value = client.call_in(Api::Weft, operation, &[], &[], Some(&body)).await?;
            output::line(format_args!("{name} may come back: start it again"));
            Ok(())
        }
    }
}

async fn detail(client: &ManagementClient) -> Result<(ClusterDetail, Value)> {
    let operation = row(Api::Weft, "detailCluster")?;
    let answer: Value = client.call_in(Api::Weft, operation, &[], &[], None).await?;
    let read = serde_json::from_value(answer.clone())
        .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
    Ok((read, answer))
}

async fn list(client: &ManagementClient, format: Format) -> Result<()> {
    let (cluster, answer) = detail(client).await?;
    match format {
        Format::Table => output::list(format, controllers(&cluster), &SHOWN, "no controller"),
        format => output::value(format, &answer["controllers"], String::new),
    }
    Ok(())
}

fn controllers(cluster: &ClusterDetail) -> Vec<Value> {
    let shown = |it: &weft_contract::resource::cluster::ClusterController| {
        let has_started = it.joined_at.millis() > 0;
        let state = match (it.is_online, it.removed, &it.left_at) {
            (_, true, Some(at)) => format!("removed {at}"),
            (false, _, Some(at)) if !has_started => format!("invited {at}"),
            (_, false, Some(at)) => format!("left {at}"),
            (true, ..) => "online".to_owned(),
            (false, ..) => "away".to_owned(),
        };
        // While etcd is away, nobody tells the revisions of the others.
        let is_told = it.is_online && it.revision > 0;
        let revision = if is_told { json!(it.revision) } else { json!("") };
        let clock = it.clock_ahead_millis.map_or_else(String::new, shown_clock);
        let joined = if has_started { it.joined_at.to_string() } else { String::new() };
        json!({"id": it.id, "state": state, "leads": if it.is_leader { "yes" } else { "" },
            "revision": revision, "clock": clock, "version": it.version, "joinedAt": joined, "address": it.address})
    };
    cluster.controllers.iter().map(shown).collect()
}

async fn status(client: &ManagementClient, format: Format) -> Result<()> {
    let (cluster, answer) = detail(client).await?;
    if format == Format::Table {
        standing(&cluster).iter().for_each(output::line);
        if !cluster.etcd.is_empty() {
            output::list(format, members(&cluster), &SHOWN_ETCD, "");
        }
    } else {
        output::value(format, &answer, String::new);
    }
    let is_unwell = |line: &String| line.starts_with('✗');
    let is_any = standing(&cluster).iter().any(is_unwell);
    match is_any || cluster.etcd.iter().any(|member| member.error.is_some()) {
        true => Err(Failure::new("not everything is well")),
        false => Ok(()),
    }
}

/// How the controller stands to the others, a line each.
fn standing(cluster: &ClusterDetail) -> Vec<String> {
    let revision = cluster.revision;
    let writes = match (&cluster.obstacle, cluster.etcd.is_empty()) {
        (_, true) => {
            format!("✓ the controller is alone, with its network in a file, at revision {revision}")
        }
        (None, false) => format!("✓ the controller writes, and is at revision {revision}"),
        (Some(why), false) => {
            format!("✗ the controller cannot write, and is at revision {revision}: {why}")
        }
    };
    let lag = usize::try_from(cluster.lag).unwrap_or_default();
    let behind =
        (lag > 0).then(|| format!("✗ it lacks {} of others", counted(lag, "change", "changes")));
    let present = cluster.controllers.iter().filter(|it| it.left_at.is_none());
    let away: Vec<&str> =
        present.clone().filter(|it| !it.is_online).map(|it| it.id.as_str()).collect();
    let away = (!away.is_empty()).then(|| format!("✗ away: {}", away.join(", ")));
    let newest = present.clone().map(|it| it.reads).min().filter(|newest| *newest > cluster.format);
    let upgrade = newest.map(|newest| {
        let format = cluster.format;
        format!(
            "· the network has format {format}, and all controllers read {newest}: `weft cluster upgrade`"
        )
    });
    let clocks = present.filter_map(|it| {
        let ahead = it.clock_ahead_millis.filter(|ahead| ahead.unsigned_abs() > CLOCKS)?;
        Some(format!(
            "✗ the clock of {} differs by {} from the one of this controller",
            it.id,
            shown_clock(ahead)
        ))
    });
    let awaited = cluster.network_key_waits_for.join(", ");
    let key = (!awaited.is_empty()).then(|| {
        format!(
            "✗ a controller was removed, and another key of the network waits for: {awaited} (start it, or remove it as well)"
        )
    });
    [Some(writes), behind, away, key, upgrade].into_iter().flatten().chain(clocks).collect()
}

/// By how much a clock is ahead.
fn shown_clock(ahead: i64) -> String {
    format!("{:+.1} s", ahead as f64 / 1e3)
}

fn members(cluster: &ClusterDetail) -> Vec<Value> {
    let size = |bytes: i64| format!("{:.1} MB", bytes as f64 / 1e6);
    let shown = |it: &weft_contract::resource::cluster::EtcdMember| {
        json!({"address": it.address,
            "state": it.error.clone().unwrap_or_else(|| "well".to_owned()),
            "leads": if it.is_leader { "yes" } else { "" },
            "version": it.version,
            "file": format!("{} ({} in use)", size(it.file_bytes), size(it.bytes_in_use)),
            "answeredIn": format!("{:.1} ms", it.round_trip_micros as f64 / 1e3)})
    };
    cluster.etcd.iter().map(shown).collect()
}

async fn invite(client: &ManagementClient, name: &str, format: Format) -> Result<()> {
    let operation = row(Api::Weft, "inviteController")?;
    let body = json!({"name": name});
    let answer: Value = client.call_in(Api::Weft, operation, &[], &[], Some(&body)).await?;
    let invitation: ControllerInvitation = serde_json::from_value(answer.clone())
        .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
    output::value(format, &answer, || invitation.token.clone());
    output::note(format_args!(
        "{name} may join once, until {}: weft controller join FILE --home DIR --address HOST, where FILE holds the token",
        invitation.expires_at
    ));
    Ok(())
}

async fn upgrade(client: &ManagementClient, yes: bool, format: Format) -> Result<()> {
    let (cluster, _) = detail(client).await?;
    let question = format!(
        "The network has format {}. Upgrade it to the newest one that its controllers read? Older programs cannot be \
         controllers of it then.",
        cluster.format
    );
    let cannot = "there is no terminal for the question: agree with --yes";
    if !yes && !ask::confirm(&question, cannot).await? {
        return Err(Failure::new("nothing was changed"));
    }
    let operation = row(Api::Weft, "upgradeCluster")?;
    let answer: Value = client.call_in(Api::Weft, operation, &[], &[], None).await?;
    let upgrade: ClusterUpgrade = serde_json::from_value(answer.clone())
        .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
    output::value(format, &answer, || match upgrade.format > upgrade.former {
        true => format!("the network has format {} now", upgrade.format),
        false => format!("the network has format {}, and there is no newer one", upgrade.format),
    });
    Ok(())
}

async fn remove(client: &ManagementClient, name: &str, yes: bool) -> Result<()> {
    let (cluster, _) = detail(client).await?;
    let known = cluster.controllers.iter().find(|it| it.id == name);
    let known = known.ok_or_else(|| {
        let names: Vec<&str> = cluster.controllers.iter().map(|it| it.id.as_str()).collect();
        Failure::not_found(format!("there is no controller {}", quoted(name)))
            .and(format!("the controllers are: {}", names.join(", ")))
    })?;
    if !known.removed && !yes {
        let what = if known.is_online { "runs, and will end" } else { "is away" };
        let question = format!("{name} {what}. Take it out of the network?");
        let cannot = "there is no terminal for the question: agree with --yes";
        if !ask::confirm(&question, cannot).await? {
            return Err(Failure::new("nothing was changed"));
        }
    }
    let operation = row(Api::Fabric, "clusterMemberRemove")?;
    let body = json!({"id": name});
    let _: Value = client.call_in(Api::Fabric, operation, &[], &[], Some(&body)).await?;
    output::line(format_args!("{name} is removed: its keys count no more, and it ends if it runs"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(of: Value) -> ClusterDetail {
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn it_says_who_is_there_and_what_is_not_well() {
        let at = "2026-01-31T12:00:00.000Z";
        let controller = |id: &str, online: bool, leader: bool| {
            json!({"id": id, "address": "tls:x:1", "isOnline": online, "isLeader": leader,
                "joinedAt": at, "removed": false, "reads": 1, "revision": 7, "version": "v1"})
        };
        let mut gone = controller("d", false, false);
        gone["leftAt"] = json!(at);
        gone["removed"] = json!(true);
        let mut late = controller("c", true, false);
        late["clockAheadMillis"] = json!(-2_040);
        let known = cluster(json!({"controllers": [controller("a", true, true),
            controller("b", false, false), late, gone], "lag": 1, "obstacle": "etcd cannot be reached",
            "format": 1, "networkKey": 1, "networkKeyWaitsFor": ["b"],
            "revision": 9, "etcd": [{"address": "e:1", "bytesInUse": 1_000_000, "fileBytes": 2_500_000,
            "isLeader": true, "roundTripMicros": 1_234, "version": "3.4.23"}]}));
        let rows = controllers(&known);
        let states: Vec<&Value> = rows.iter().map(|row| &row["state"]).collect();
        assert_eq!(states, ["online", "away", "online", &format!("removed {at}")]);
        assert_eq!((&rows[0]["clock"], &rows[2]["clock"]), (&json!(""), &json!("-2.0 s")));
        assert_eq!((&rows[0]["leads"], &rows[0]["revision"]), (&json!("yes"), &json!(7)));
        assert_eq!(rows[1]["revision"], "");
        let lines = standing(&known);
        assert_eq!(
            lines[0],
            "✗ the controller cannot write, and is at revision 9: etcd cannot be reached"
        );
        assert_eq!(lines[1], "✗ it lacks 1 change of others");
        assert_eq!(lines[2], "✗ away: b");
        assert!(lines[3].contains("waits for: b ("), "{}", lines[3]);
        assert_eq!(lines[4], "✗ the clock of c differs by -2.0 s from the one of this controller");
        let etcd = members(&known);
        assert_eq!(etcd[0]["file"], "2.5 MB (1.0 MB in use)");
        assert_eq!((&etcd[0]["state"], &etcd[0]["answeredIn"]), (&json!("well"), &json!("1.2 ms")));
        let mut newer = known;
        newer.controllers.iter_mut().for_each(|it| it.reads = 2);
        assert!(standing(&newer)[4].contains("all controllers read 2"));
        let alone = cluster(json!({"controllers": [controller("a", true, true)], "lag": 0,
            "format": 1, "networkKey": 0, "networkKeyWaitsFor": [], "revision": 3, "etcd": []}));
        assert_eq!(
            standing(&alone),
            ["✓ the controller is alone, with its network in a file, at revision 3"]
        );
    }
}
