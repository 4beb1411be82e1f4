//! The store of a controller that is one of several: its copy, and etcd, in which they share the model and the sessions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weft_config::ControllerConfig;
use weft_config::controller::ClusterConfig;
use weft_controller::{Clock as _, Controller, NetworkSecrets, REMOVED, SystemClock};
use weft_store::{ALIVE, Head, MoveError, Options, Presence, Replica, SharedLog as _};

use super::etcd::logs;
use super::session_key;
use crate::build;
use crate::check::Purpose;
use crate::failure::{Failure, Result};

/// An obstacle that is over after this time is not logged: another member of etcd has answered.
const BRIEF: Duration = Duration::from_millis(500);
/// The time for which another cause of the same obstacle is not logged.
const OTHER_CAUSE: Duration = Duration::from_secs(3);
/// Most kinds of causes that are logged before this controller reaches etcd again.
const MOST_CAUSES: usize = 16;
/// The time for the question whether there is a network in etcd.
const HEAD: Duration = Duration::from_secs(2);

/// Opens the copy at a path, and follows what is in etcd, for the controller of this name. A controller that starts needs a network there or in its copy;
/// otherwise a new one is begun.
pub(super) async fn open(
    config: &ClusterConfig,
    path: &Path,
    options: Options,
    (name, purpose): (&str, Purpose),
) -> Result<Replica> {
    let during = |failure: Failure| failure.during("cluster");
    let (model, sessions) = logs(config)?;
    let has_copy = std::fs::metadata(path).is_ok_and(|found| found.len() > 0);
    // A controller with a copy starts also while etcd does not answer.
    let may_wait = has_copy && purpose == Purpose::Start;
    let head = match tokio::time::timeout(HEAD, model.head()).await {
        Ok(head) => head.map_err(|error| Failure::caused_by(&error)),
        Err(_) => Err(Failure::new("etcd does not answer")),
    };
    match head {
        Ok(head) => {
            let refusal = refusal(config, head.is_some(), has_copy, purpose);
            refusal.map_or(Ok(()), |refusal| Err(during(refusal)))?;
        }
        Err(_) if may_wait => {}
        Err(failure) => return Err(during(failure)),
    }
    let model = Arc::new(model);
    let store = Replica::open_with_live(path, options, model, Arc::new(sessions)).await;
    let store = store.map_err(|error| Failure::caused_by(&error).during("cluster"))?;
    if purpose == Purpose::Start {
        let own = Presence::of_new_run(name, &build::of_controller().version);
        store.announce(own, Arc::new(|| SystemClock.now()));
    }
    tell_obstacles(&store);
    Ok(store)
}

/// Moves the network of the controller's file into etcd.
pub(crate) async fn publish(
    cluster: &ClusterConfig,
    config: &ControllerConfig,
) -> std::result::Result<Head, NotPublished> {
    let at_once = |failure| NotPublished { failure, is_certain: true };
    let (model, sessions) = logs(cluster).map_err(at_once)?;
    let (path, options) = (&config.storage.database, super::controller::options(config));
    let published = Replica::publish(path, options, (&model, &sessions)).await;
    published.map_err(|error| NotPublished {
        failure: Failure::caused_by(&error),
        is_certain: !matches!(error, MoveError::Unknown(_)),
    })
}

/// A network that was not moved into etcd.
pub(crate) struct NotPublished {
    pub(crate) failure: Failure,
    /// Whether it is certain that it is not there.
    pub(crate) is_certain: bool,
}

/// Whether the network was taken out of etcd into the controller's file, and the section `cluster` is left over.
pub(crate) async fn is_taken_back(
    cluster: &ClusterConfig,
    config: &ControllerConfig,
) -> Result<bool> {
    let (model, _) = logs(cluster)?;
    let head = model.head().await.map_err(|error| Failure::caused_by(&error))?;
    if head.is_some() {
        return Ok(false);
    }
    let options = super::controller::options(config);
    let taken = Replica::is_taken_back(&config.storage.database, options).await;
    taken.map_err(|error| Failure::caused_by(&error))
}

/// Moves the network out of etcd into the controller's file.
pub(crate) async fn take_back(cluster: &ClusterConfig, config: &ControllerConfig) -> Result<Head> {
    let (model, sessions) = logs(cluster)?;
    let (path, options) = (&config.storage.database, super::controller::options(config));
    let shared = (Arc::new(model.clone()), Arc::new(sessions.clone()));
    let store = Box::pin(Replica::open_with_live(path, options, shared.0, shared.1)).await;
    let store = store.map_err(|error| Failure::caused_by(&error))?;
    let taken = Box::pin(store.take_back((&model, &sessions))).await;
    taken.map_err(|error| Failure::caused_by(&error))
}

/// Reads what is in etcd into a new file.
pub(crate) async fn fetch(
    (cluster, config): (&ClusterConfig, &ControllerConfig),
    into: &Path,
) -> Result<Head> {
    let (model, _) = logs(cluster)?;
    let options = super::controller::options(config);
    let fetched = Box::pin(Replica::fetch(into, options, Arc::new(model))).await;
    fetched.map_err(|error| match error {
        MoveError::Empty => Failure::new(format!(
            "there is no network under {} in etcd: `weft controller move` brings the copy of this controller there",
            cluster.prefix
        )),
        error => Failure::caused_by(&error),
    })
}

/// Has the network in etcd go on from the state of a file, on a new timeline.
pub(crate) async fn restore(
    (cluster, config): (&ClusterConfig, &ControllerConfig),
    from: &Path,
) -> Result<Head> {
    let (model, sessions) = logs(cluster)?;
    let (own, options) = (&config.storage.database, super::controller::options(config));
    let restored = Replica::restore(from, own, options, (&model, &sessions)).await;
    restored.map_err(|error| match error {
        MoveError::Unknown(why) => Failure::new(format!(
            "it is not known whether the network was restored ({why}): call this again"
        )),
        error => Failure::caused_by(&error),
    })
}

/// What a further controller gets from this one.
pub(super) fn shared(config: &ControllerConfig) -> Result<Option<NetworkSecrets>> {
    let Some(cluster) = &config.storage.cluster else { return Ok(None) };
    let scheme = if cluster.has_tls { "https" } else { "http" };
    let session_key = config.edge.as_ref().map(session_key::path).transpose()?.flatten();
    Ok(Some(NetworkSecrets {
        root: cluster.root.clone(),
        network_key: cluster.key.clone(),
        session_key,
        etcd: cluster.members.iter().map(|it| format!("{scheme}://{it}")).collect(),
        prefix: cluster.prefix.clone(),
        etcd_authorities: cluster.authorities.clone(),
        etcd_certificate: cluster.client.is_some(),
        login: cluster.login.as_ref().map(|login| (login.user.clone(), login.password.clone())),
    }))
}

/// Waits until this controller must end: somebody has removed it, or another one with its name was there before.
pub(super) async fn must_end(controller: &Controller) -> Failure {
    let name = controller.kernel().settings().id.clone();
    tokio::select! {
        () = controller.auth().removed() => Failure::new(REMOVED),
        () = until_second(controller) => Failure::new(format!(
            "another controller runs with the name {name}, which is the common name of the certificate of `identity`: \
             each controller of a network has another one"
        )),
    }
}

/// Waits until it is certain that another controller with this name was there before and still is: it says again that it is
/// alive. One that has died is heard of for some seconds, and for longer if etcd stands still meanwhile.
async fn until_second(controller: &Controller) {
    let store = &controller.kernel().settings().store;
    let Some(mut alive) = store.alive() else { return std::future::pending().await };
    let own = store.presence();
    loop {
        let known = alive.wait_for(|alive| alive.former_run(&own).is_some()).await;
        let Ok(Some(former)) = known.map(|alive| alive.former_run(&own).cloned()) else {
            return std::future::pending().await;
        };
        tokio::time::sleep(ALIVE * 2).await;
        let spoke_again = |it: &Presence| it.run == former.run && it.said_at != former.said_at;
        if alive.borrow_and_update().former_run(&own).is_some_and(spoke_again) {
            return;
        }
    }
}

/// Why nothing is opened, if so.
fn refusal(
    config: &ClusterConfig,
    is_in_etcd: bool,
    has_copy: bool,
    purpose: Purpose,
) -> Option<Failure> {
    let place = format!("under {} in etcd", config.prefix);
    match (is_in_etcd, has_copy, purpose) {
        (false, false, Purpose::Start) => Some(Failure::new(format!(
            "there is no network {place}: is the prefix right? A new network is made by `weft controller init`"
        ))),
        (false, true, _) => Some(Failure::new(format!(
            "there is no network {place}, but the file that `db` names has one. If it has never been there, or etcd has lost it, \
             `weft controller move` brings it there; if it was moved into the file of another controller, this copy is of no \
             use any more"
        ))),
        _ => None,
    }
}

/// Logs when the controller cannot write, why, and when it can again.
fn tell_obstacles(store: &Replica) {
    let mut obstacles = store.obstacles();
    tokio::spawn(async move {
        let (mut known, mut told) = (None, Vec::new());
        loop {
            let obstacle = obstacles.current();
            let pause = match (&known, &obstacle) {
                (_, Some(cause)) if is_new(&mut told, cause) => {
                    tracing::error!(%cause, "this controller is cut off from the others, and changes nothing; reads, logins and dials go on");
                    OTHER_CAUSE
                }
                (Some(_), None) => {
                    tracing::info!("this controller reaches etcd again");
                    told.clear();
                    BRIEF
                }
                _ => BRIEF,
            };
            known = obstacle;
            if !obstacles.changed().await {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    });
}

/// True for the first cause of its kind, which is noted. Causes that differ only in numbers, such as the ports of members of
/// etcd, are of one kind.
fn is_new(told: &mut Vec<String>, cause: &str) -> bool {
    let kind: String = cause.chars().filter(|one| !one.is_ascii_digit()).collect();
    let is_new = told.len() < MOST_CAUSES && !told.contains(&kind);
    if is_new {
        told.push(kind);
    }
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_cause_is_told_once() {
        let mut told = Vec::new();
        let refused = |port: u16| format!("etcd cannot be reached (127.0.0.1:{port}: refused)");
        assert!(is_new(&mut told, &refused(2379)) && !is_new(&mut told, &refused(32379)));
        assert!(is_new(&mut told, "it was restored from an older snapshot"));
        assert!(!is_new(&mut told, &refused(2379)));
        let others = ('a'..='z').filter(|one| is_new(&mut told, &one.to_string())).count();
        assert_eq!(others, MOST_CAUSES - 2);
        assert_eq!(told.len(), MOST_CAUSES);
    }
}
