//! Exchange of keys and certificates while the controller runs. Files are checked every second. When
//! the keys and certificates of all sections fit together, TLS and everything that signs use the
//! changed ones from the same moment; otherwise nothing changes. A section whose files cannot be used
//! keeps its former ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use weft_config::ControllerConfig;
use weft_controller::Controller;
use weft_identity::{Changed, LiveIdentity};

use super::keys::{self, Material};
use crate::failure::Result;

/// Interval of checking the files.
const LOOK: Duration = Duration::from_secs(1);

/// The identities of a controller's file.
pub(super) struct Files {
    pub(super) own: Arc<LiveIdentity>,
    pub(super) signer: Arc<LiveIdentity>,
    /// Identities of servers that have their own, in the order of the file.
    pub(super) web: Vec<Arc<LiveIdentity>>,
}

impl Files {
    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<LiveIdentity>> {
        [&self.own, &self.signer].into_iter().chain(&self.web).cloned().collect()
    }

    /// The identities, each with the new material of its files if these have changed.
    fn look(&self) -> Vec<(Arc<LiveIdentity>, weft_identity::Result<Option<Changed>>)> {
        let look = |identity: Arc<LiveIdentity>| {
            let looked = identity.look();
            (identity, looked)
        };
        self.all().into_iter().map(look).collect()
    }
}

/// Begins to follow the files, until the returned value is dropped.
pub(super) fn follow(config: ControllerConfig, files: Files, controller: Controller) -> Following {
    let mut follower = Follower { config, files, controller, complaints: BTreeMap::new() };
    let (ask, mut asked) = mpsc::channel::<oneshot::Sender<()>>(1);
    let task = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let done = tokio::select! {
                () = tokio::time::sleep(LOOK) => None,
                done = asked.recv() => done,
            };
            let looked = tokio::task::spawn_blocking(move || {
                follower.look();
                follower
            });
            // The check panicked, or the runtime ends: the files are not followed any more.
            let Ok(back) = looked.await else { return };
            follower = back;
            // The caller may be gone.
            if let Some(done) = done {
                let _ = done.send(());
            }
        }
    }));
    Following { ask, _task: task }
}

/// Follows the identity files until it is dropped.
pub(super) struct Following {
    ask: mpsc::Sender<oneshot::Sender<()>>,
    _task: AbortOnDropHandle<()>,
}

impl Following {
    /// Checks the files at once, and returns when that is done.
    pub(super) async fn now(&self) {
        let (done, is_done) = oneshot::channel();
        if self.ask.send(done).await.is_ok() {
            let _ = is_done.await;
        }
    }
}

struct Follower {
    config: ControllerConfig,
    files: Files,
    controller: Controller,
    /// Last complaint about each section, which is logged once and not every second.
    complaints: BTreeMap<String, String>,
}

impl Follower {
    fn look(&mut self) {
        let mut changed = Vec::new();
        let mut now = Vec::new();
        for (identity, looked) in self.files.look() {
            let section = identity.section().section().to_owned();
            match looked {
                Ok(Some(new)) => {
                    now.push(Arc::clone(new.identity()));
                    changed.push((section, identity, new));
                }
                Ok(None) => {
                    now.push(identity.current());
                    self.complaints.remove(&section);
                }
                Err(error) => {
                    now.push(identity.current());
                    self.complain(section, &error.to_string());
                }
            }
        }
        let mut now = now.into_iter();
        let (Some(own), Some(signer)) = (now.next(), now.next()) else { return };
        if changed.is_empty() {
            return;
        }
        let material = Material { own, signer, web: now.collect() };
        if let Err(problem) = self.exchange(&material, changed) {
            self.complain("keys and certificates".to_owned(), &problem.to_string());
        }
    }

    /// Uses all new material, or none.
    fn exchange(
        &mut self,
        material: &Material,
        changed: Vec<(String, Arc<LiveIdentity>, Changed)>,
    ) -> Result<()> {
        let keys = keys::of(&self.config, material)?;
        self.controller.auth().exchange_keys(keys)?;
        for (section, identity, new) in changed {
            identity.adopt(new);
            tracing::info!(section, "changed identity files are in use");
        }
        self.complaints.clear();
        Ok(())
    }

    fn complain(&mut self, about: String, problem: &str) {
        let last = self.complaints.entry(about.clone()).or_default();
        if *last != problem {
            problem.clone_into(last);
            tracing::warn!(
                section = about,
                problem,
                "the changed identity files cannot be used; the former certificates stay in use"
            );
        }
    }
}
