//! `weft controller restore`: a network goes on from a snapshot, or from what etcd has after it was put back to an older
//! state. What is lost by it is listed first.

use std::path::{Path, PathBuf};

use weft_config::controller::ClusterConfig;
use weft_config::{ControllerConfig, Loaded};
use weft_model::entity::ControllerMember;
use weft_model::{Snapshot, Timestamp};
use weft_store::Hold;

use super::import::since;
use crate::check::{self, Purpose};
use crate::cli::ControllerRestoreArgs;
use crate::compose::cluster;
use crate::failure::{Failure, Result};
use crate::output;
use crate::restore;

/// Most lost changes that are listed, if the network is restored; all are listed without that.
const MAX_LISTED: usize = 100;

/// Replaces the network of a controller that is stopped.
pub(super) async fn restore(args: &ControllerRestoreArgs) -> Result<()> {
    let mut examined = ControllerConfig::examine_path(&args.file)?;
    check::controller(&mut examined, Purpose::Advice);
    let Loaded { config, .. } = check::accept(examined)?;
    match (&config.storage.cluster, &args.snapshot) {
        (Some(cluster), snapshot) => {
            in_etcd((cluster, &config), snapshot.as_deref(), args.dry_run).await
        }
        (None, Some(snapshot)) => in_file(&config.storage.database, snapshot, args.dry_run),
        (None, None) => Err(Failure::usage(format!(
            "{} has no section `cluster`: the network is in a file, and --from-etcd does not apply; name a snapshot",
            args.file.display()
        ))),
    }
}

fn in_file(database: &Path, snapshot: &Path, is_dry: bool) -> Result<()> {
    restore::check(snapshot).map_err(unrestored)?;
    tell_lost(database, snapshot, is_dry)?;
    match is_dry {
        true => Ok(()),
        false => restore::restore(database, snapshot),
    }
}

async fn in_etcd(
    (cluster, config): (&ClusterConfig, &ControllerConfig),
    snapshot: Option<&Path>,
    is_dry: bool,
) -> Result<()> {
    let database = &config.storage.database;
    let held = Hold::take(database).map_err(|error| {
        unrestored(Failure::caused_by(&error).and("stop all controllers first"))
    })?;
    drop(held);
    let fetched = Fetched(restore::beside(database, "fetched"));
    let from = match snapshot {
        Some(snapshot) => {
            restore::check(snapshot).map_err(unrestored)?;
            snapshot
        }
        None => {
            output::note("reading what is in etcd");
            fetched.remove();
            cluster::fetch((cluster, config), &fetched.0).await.map_err(unrestored)?;
            &fetched.0
        }
    };
    tell_lost(database, from, is_dry)?;
    if is_dry {
        return Ok(());
    }
    output::note("writing the network to etcd");
    let head = cluster::restore((cluster, config), from).await.map_err(unrestored)?;
    output::line(format_args!(
        "the network in etcd goes on from revision {}, on timeline {}",
        head.revision, head.timeline
    ));
    output::line(
        "run the controllers: each takes everything anew, everybody logs in anew, and routers take the whole data model",
    );
    Ok(())
}

/// What was read from etcd, in a file that goes with the value.
struct Fetched(PathBuf);

impl Fetched {
    fn remove(&self) {
        for ending in ["", ".live"] {
            let mut file = self.0.clone().into_os_string();
            file.push(ending);
            // A file that stays is overwritten the next time.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        self.remove();
    }
}

fn unrestored(failure: Failure) -> Failure {
    failure.during("nothing was restored")
}

/// Lists what the present database has, and the restored one has not, or has otherwise.
fn tell_lost(database: &Path, restored: &Path, is_dry: bool) -> Result<()> {
    if !std::fs::metadata(database).is_ok_and(|found| found.len() > 0) {
        output::say(format_args!(
            "weft: {} is not there: what is lost cannot be said",
            database.display()
        ));
        return Ok(());
    }
    let before = since::load(restored).map_err(unrestored)?;
    let now = match since::load(database) {
        Ok(now) => now,
        // A damaged database is a reason to restore.
        Err(failure) => {
            output::say(format_args!("weft: what is lost cannot be said: {failure}"));
            return Ok(());
        }
    };
    let at = Timestamp::from_secs(time::OffsetDateTime::now_utc().unix_timestamp());
    let found = since::differences(&before, &now, at);
    let most = if is_dry { usize::MAX } else { MAX_LISTED };
    let mut text = format!(
        "{} is at revision {}, what is restored at {}. ",
        database.display(),
        now.revision(),
        before.revision()
    );
    if found.is_empty() {
        text.push_str("Nothing that a client or a router sees is lost.");
    } else {
        text.push_str("What is lost, and what to do about it:");
    }
    since::append_table(&mut text, &found, most);
    if found.len() > most {
        text.push_str("; --dry-run lists all");
    }
    text.push('\n');
    output::print(&text);
    for name in removed_since(&before, &now) {
        output::say(format_args!(
            "weft: controller {name} was removed since, and counts again: `weft cluster remove {name}`"
        ));
    }
    Ok(())
}

/// The controllers that were removed, and are none the less in the former state.
fn removed_since(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let removed = now.list::<ControllerMember>().filter(|it| it.is_removed);
    let is_back = |it: &&std::sync::Arc<ControllerMember>| {
        before.get::<ControllerMember>(&it.base.id).is_some_and(|former| !former.is_removed)
    };
    removed.filter(is_back).map(|it| it.base.id.to_string()).collect()
}
