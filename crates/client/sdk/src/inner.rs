//! The state that the tasks of an endpoint share.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_client::chain;
use weft_identity::LiveIdentity;
use weft_limits::Budget;

use crate::account::Account;
use crate::channel::Figures;
use crate::circuit::{Circuit, Timers};
use crate::ends::Ends;
use crate::jitter::jittered;
use crate::posture;
use crate::relisting::Relisting;
use crate::routers::Routers;
use crate::settings::Settings;
use crate::unproved::Unproved;

/// Most stickiness tokens that are remembered.
const MAX_STICKY: usize = 4096;

/// The owner of an endpoint's tasks; ends them when dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) inner: Arc<Inner>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inner.cancel.cancel();
    }
}

/// The state that the tasks of an endpoint share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) account: Account,
    pub(crate) ends: Ends,
    pub(crate) identity: Arc<LiveIdentity>,
    pub(crate) routers: Routers,
    pub(crate) figures: Figures,
    pub(crate) cancel: CancellationToken,
    /// Why the services could not be read the last time.
    pub(crate) problem: Mutex<Option<crate::Error>>,
    /// Wakes the reading of services, for an application that follows them.
    pub(crate) reads_services: Notify,
    /// Connections whose other end has not proved itself.
    unproved: Unproved,
    sticky: Mutex<Sticky>,
}

impl Inner {
    /// Makes the state of an endpoint whose account is logged in with the key of `ends`, and starts to keep its services and
    /// routers up to date.
    pub(crate) fn start(
        settings: Settings,
        account: Account,
        ends: Ends,
        identity: Arc<LiveIdentity>,
    ) -> Arc<Self> {
        let figures = Figures {
            options: settings.options.clone(),
            budget: Budget::new(settings.memory_limit),
            timers: Timers::start(&tokio::runtime::Handle::current()),
            spans: settings.spans.clone(),
            undelivered: Arc::default(),
        };
        let inner = Arc::new(Self {
            settings,
            account,
            ends,
            identity,
            routers: Routers::default(),
            figures,
            cancel: CancellationToken::new(),
            problem: Mutex::default(),
            reads_services: Notify::new(),
            unproved: Unproved::default(),
            sticky: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&inner).keep_demands());
        tokio::spawn(Arc::clone(&inner).keep_fresh());
        tokio::spawn(Arc::clone(&inner).keep_answering());
        tokio::spawn(Arc::clone(&inner).keep_certificate());
        tokio::spawn(Arc::clone(&inner).keep_session());
        if inner.settings.login.codes.is_some() {
            tokio::spawn(Arc::clone(&inner).keep_proving());
        }
        inner
    }

    /// Keeps session and services up to date, and forgets routers that are gone.
    async fn keep_fresh(self: Arc<Self>) {
        let mut is_refused = false;
        let mut relisting = Relisting::new(self.settings.refresh_interval);
        loop {
            let interval = self.account.refresh_interval(self.settings.refresh_interval);
            tokio::select! {
                () = self.cancel.cancelled() => return,
                () = tokio::time::sleep(jittered(interval)) => {}
                () = self.reads_services.notified() => {}
            }
            let work = async {
                self.account.refresh().await?;
                if relisting.note_lost(self.routers.lost(), Instant::now(), rand::random()) {
                    let listed = self.account.edge_routers().await?;
                    self.routers.forget_unlisted(&listed);
                }
                Ok::<_, crate::Error>(())
            };
            let done = tokio::select! {
                () = self.cancel.cancelled() => return,
                done = work => done,
            };
            let identity = self.account.identity_name();
            *self.problem.lock() = done.as_ref().err().cloned();
            match done {
                Ok(()) if is_refused => {
                    is_refused = false;
                    tracing::info!(identity, "the controller accepts the identity again");
                }
                Ok(()) => {}
                Err(problem @ (crate::Error::NotLoggedIn(_) | crate::Error::SecondFactor(_)))
                    if problem.is_final() =>
                {
                    if !is_refused {
                        tracing::warn!(
                            identity,
                            problem = chain(&problem),
                            "the controller refuses the identity, which may have been deleted or \
                             disabled, or needs a code of its second factor: it has no services until \
                             it is accepted again"
                        );
                    }
                    is_refused = true;
                    self.account.forget_services();
                }
                Err(problem) => {
                    tracing::debug!(
                        problem = chain(&problem),
                        "the services of the identity could not be read again"
                    )
                }
            }
        }
    }

    /// Ends connections without a proof once their service demands one.
    async fn keep_demands(self: Arc<Self>) {
        let mut services = self.account.service_changes();
        loop {
            tokio::select! {
                () = self.cancel.cancelled() => return,
                changed = services.changed() => if changed.is_err() { return },
            }
            let count = self.unproved.end(|service| self.account.demands_proof(service));
            if count > 0 {
                tracing::warn!(
                    count,
                    "connections end, because their services now demand that both ends prove who they are, and these have \
                     not: dial again"
                );
            }
        }
    }

    /// Takes a connection of a service whose other end has not proved itself. False if the service demands that: the
    /// connection is over.
    pub(crate) fn admits_unproved(&self, service_id: &str, circuit: &Arc<Circuit>) -> bool {
        self.unproved.add(service_id, circuit);
        // The demand may have come before the connection was known.
        let demands = self.account.demands_proof(service_id);
        if demands {
            circuit.abort();
        }
        !demands
    }

    /// Keeps the session from its end.
    async fn keep_session(self: Arc<Self>) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.account.keep_session() => {}
        }
    }

    /// Waits for codes of the second factor that posture checks have asked for.
    async fn keep_proving(self: Arc<Self>) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.account.keep_proving() => {}
        }
    }

    /// Keeps the certificate of the identity from its end.
    async fn keep_certificate(self: Arc<Self>) {
        loop {
            let kept = async {
                self.account.follow_files().await;
                self.account.renew_certificate().await;
            };
            tokio::select! {
                () = self.cancel.cancelled() => return,
                () = kept => {}
            }
            let interval = jittered(self.settings.refresh_interval);
            tokio::select! {
                () = self.cancel.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
        }
    }

    /// Keeps the controller's knowledge of this device up to date, for posture checks.
    async fn keep_answering(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.cancel.cancelled() => return,
                () = tokio::time::sleep(jittered(posture::INTERVAL)) => {}
            }
            let answered = tokio::select! {
                () = self.cancel.cancelled() => return,
                answered = self.account.answer_posture_checks() => answered,
            };
            if let Err(problem) = answered {
                tracing::debug!(
                    problem = chain(&problem),
                    "the posture checks of services were not answered"
                );
            }
        }
    }

    /// Fails once the endpoint is closed.
    pub(crate) fn check_open(&self) -> crate::Result<()> {
        match self.cancel.is_cancelled() {
            true => Err(crate::Error::Closed("the endpoint is closed".to_owned())),
            false => Ok(()),
        }
    }

    /// The token by which a dial reaches the host of the last one.
    pub(crate) fn stickiness(&self, service: &str, instance: &str) -> Option<Bytes> {
        self.sticky.lock().tokens.get(&(service.to_owned(), instance.to_owned())).cloned()
    }

    /// Keeps the token by which a later dial reaches the host of this one.
    pub(crate) fn set_stickiness(&self, service: &str, instance: &str, token: Option<Bytes>) {
        let mut sticky = self.sticky.lock();
        let key = (service.to_owned(), instance.to_owned());
        match token {
            Some(token) => sticky.keep(key, token),
            None => sticky.forget(&key),
        }
    }
}

/// The stickiness tokens of services and instances.
#[derive(Debug, Default)]
struct Sticky {
    tokens: HashMap<(String, String), Bytes>,
    /// The keys of the tokens, the oldest one first.
    order: VecDeque<(String, String)>,
}

impl Sticky {
    /// Keeps a token. At the limit, the oldest one is forgotten.
    fn keep(&mut self, key: (String, String), token: Bytes) {
        if self.tokens.insert(key.clone(), token).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > MAX_STICKY
            && let Some(oldest) = self.order.pop_front()
        {
            self.tokens.remove(&oldest);
        }
    }

    fn forget(&mut self, key: &(String, String)) {
        if self.tokens.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_stickiness_token_displaces_the_oldest() {
        let key = |number: usize| (number.to_string(), String::new());
        let mut sticky = Sticky::default();
        for number in 0..MAX_STICKY {
            sticky.keep(key(number), Bytes::from_static(b"old"));
        }
        sticky.forget(&key(0));
        for number in [1, MAX_STICKY, MAX_STICKY + 1] {
            sticky.keep(key(number), Bytes::from_static(b"new"));
        }
        assert_eq!((sticky.tokens.len(), sticky.order.len()), (MAX_STICKY, MAX_STICKY));
        assert_eq!(sticky.tokens.get(&key(1)), None);
        assert_eq!(sticky.tokens[&key(2)], "old");
        assert_eq!(sticky.tokens[&key(MAX_STICKY + 1)], "new");
    }
}
