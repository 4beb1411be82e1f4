//! The state that all SDK channels share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weft_channel::TraceFile;
use weft_config::router::EdgePerIdentity;
use weft_limits::{Budget, LogLines};
use weft_spans::Spans;
use weft_wire::VersionInfo;
use weft_wire::edge::ErrorCode;
use weft_xgress::Options;

use super::connection::SdkConnection;
use super::hosted::{Hosted, Hosts};
use super::live::OpenChannels;
use super::patience::Patience;
use super::trust::Trust;
use crate::forwarder::Forwarder;
use crate::seam::{Access, ApiSession, Control, Refusal, RetryHint};

/// The options of the binding.
#[derive(Clone, Debug)]
pub(crate) struct EdgeOptions {
    /// The id of the router.
    pub(crate) router_id: String,
    /// The release that the router announces.
    pub(crate) version: VersionInfo,
    /// Flow control of the ends of circuits to hosting SDKs.
    pub(crate) end: Options,
    /// How long the end of a direction for an old native SDK waits for the close that may follow
    /// it.
    pub(crate) fin_hold: Duration,
    /// What each identity may fill.
    pub(crate) per_identity: EdgePerIdentity,
    /// The threads that read and write the channels.
    pub(crate) threads: weft_channel::Threads,
    /// The runtime on which requests of SDKs are handled.
    pub(crate) control_runtime: tokio::runtime::Handle,
    /// The file for traced messages.
    pub(crate) trace: Option<TraceFile>,
    /// The recorder for spans of dials.
    pub(crate) spans: Spans,
}

/// The options of a listener for circuits that its SDKs dial.
#[derive(Debug)]
pub(crate) struct Dialed {
    /// Flow control of this router's ends.
    pub(crate) end: Options,
    /// Time limit for making a circuit.
    pub(crate) timeout: Duration,
}

/// The state that all SDK channels share.
pub(crate) struct EdgeBinding {
    pub(super) forwarder: Arc<Forwarder>,
    pub(super) control: Arc<dyn Control>,
    pub(super) access: Arc<dyn Access>,
    pub(super) options: EdgeOptions,
    pub(super) budget: Budget,
    pub(super) connections: Mutex<OpenChannels<SdkConnection>>,
    /// Held while the count of an identity changes and is reported, so that the last report has the
    /// latest count.
    pub(super) counting: Mutex<()>,
    /// Counts events about sessions and rights.
    pub(super) heard: AtomicU64,
    pub(super) hosts: Mutex<Hosts>,
    /// True once nothing new is accepted.
    pub(super) draining: AtomicBool,
    /// The limits for traces that SDKs ask for.
    pub(super) trust: Trust,
    /// The refusals that SDKs were sent lately.
    pub(super) patience: Patience,
    /// The lines of the log about refused SDKs.
    pub(super) refusals: Mutex<LogLines>,
    /// The lines of the log about identities that have as much as they may have.
    full: Mutex<LogLines>,
    /// The lines of the log about terminators that a controller refused.
    terminators: Mutex<LogLines>,
}

impl EdgeBinding {
    pub(crate) fn new(
        forwarder: Arc<Forwarder>,
        control: Arc<dyn Control>,
        access: Arc<dyn Access>,
        options: EdgeOptions,
    ) -> Arc<Self> {
        let budget = forwarder.budget().child(u64::MAX);
        Arc::new(Self {
            forwarder,
            control,
            access,
            options,
            budget,
            connections: Mutex::default(),
            counting: Mutex::default(),
            heard: AtomicU64::new(0),
            hosts: Mutex::default(),
            draining: AtomicBool::new(false),
            trust: Trust::default(),
            patience: Patience::default(),
            refusals: Mutex::new(LogLines::new(weft_circuit::now())),
            full: Mutex::new(LogLines::new(weft_circuit::now())),
            terminators: Mutex::new(LogLines::new(weft_circuit::now())),
        })
    }

    /// Tokens of opaque sessions with an open connection, each once.
    pub(crate) fn open_session_tokens(&self) -> Vec<String> {
        let mut tokens: Vec<String> = self
            .live()
            .iter()
            .filter_map(|connection| connection.session())
            .filter(|session| session.legacy)
            .map(|session| session.token.clone())
            .collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    /// True if a terminator of an SDK is alive on this router.
    pub(crate) fn hosts(&self, terminator: &str) -> bool {
        self.hosts.lock().of(terminator).is_some()
    }

    /// True once nothing new is accepted.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Closes all connections.
    pub(crate) fn close_all(&self, reason: &str) {
        for connection in self.live() {
            connection.close(reason);
        }
    }

    /// The open channels.
    pub(super) fn live(&self) -> Vec<Arc<SdkConnection>> {
        self.connections.lock().all()
    }

    /// The open channel of this number.
    pub(super) fn connection(&self, number: u64) -> Option<Arc<SdkConnection>> {
        self.connections.lock().get(number)
    }

    /// How many channels and listeners were refused to identities that had as many as they may have.
    #[cfg(test)]
    pub(super) fn full_count(&self) -> u64 {
        self.forwarder.measures().edge.full.get()
    }

    /// The number of listeners of an identity.
    #[cfg(test)]
    pub(super) fn listeners_of(&self, identity: &str) -> usize {
        self.hosts.lock().count_of(identity)
    }

    /// The number of open channels.
    pub(crate) fn connections(&self) -> usize {
        self.connections.lock().len()
    }

    /// The count of events; it goes up before an event has any effect.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    /// Notes by `change` that a channel begins or ceases to belong to a session, and reports how
    /// many channels the identity of the session then has, unless `change` refuses.
    pub(super) fn count<E>(
        &self,
        change: impl FnOnce(&mut OpenChannels<SdkConnection>) -> Result<usize, E>,
        session: &ApiSession,
    ) -> Result<(), E> {
        let _turn = self.counting.lock();
        let count = change(&mut self.connections.lock())?;
        self.control.identity_connections(&session.identity, count);
        Ok(())
    }

    /// Logs that a controller refused the terminator of a listener, unless there are many such lines already.
    pub(super) fn note_refused_terminator(&self, hosted: &Hosted, refusal: &Refusal) {
        let (terminator, service) = (&hosted.terminator, &hosted.grant.service);
        match self.terminators.lock().due(weft_circuit::now()) {
            Some(left_out) => tracing::info!(
                terminator, service, %refusal,
                "a terminator was refused; {left_out} more were refused since the last such line"
            ),
            None => tracing::debug!(terminator, service, %refusal, "a terminator was refused"),
        }
    }

    /// The refusal of one more of something of which an identity has as many as it may have. It is counted, and the log
    /// has a line unless it has many already.
    pub(super) fn full(&self, session: &ApiSession, most: u32, what: &str, key: &str) -> Refusal {
        let id = &session.identity;
        let whose = match &session.identity_name {
            Some(name) => format!("{name} ({id})"),
            None => id.clone(),
        };
        let text = format!(
            "identity {whose} has {most} {what} at this router, as many as it may have; close some, or raise \
             edge.perIdentity.{key} in the router's file"
        );
        self.forwarder.measures().edge.full.one();
        if let Some(left_out) = self.full.lock().due(weft_circuit::now()) {
            tracing::warn!(
                "refused: {text} ({left_out} more such refusals since the last such line)"
            );
        }
        Refusal::new(ErrorCode::INTERNAL, RetryHint::DEFAULT, text)
    }
}
