//! The renewal under way: the names that are asked for, and the task that waits for certificates.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weft_client::enroll::RouterNames;
use weft_wire::{Message, ProtoBody, edge_ctrl::EnrollmentCertsResponse};

use crate::controllers::Controller;

/// The renewal under way.
#[derive(Debug, Default)]
pub(crate) struct Renewal {
    pub(super) names: Option<RouterNames>,
    pub(super) waiting: Mutex<Option<oneshot::Sender<EnrollmentCertsResponse>>>,
}

impl Renewal {
    /// Renews with these names; without names there is no renewal.
    pub(crate) fn new(names: Option<RouterNames>) -> Self {
        Self { names, waiting: Mutex::default() }
    }

    /// Takes certificates that a controller sent.
    pub(crate) fn deliver(&self, from: &Arc<Controller>, message: Message) {
        let waiting = self.waiting.lock().take();
        match (waiting, EnrollmentCertsResponse::from_message(&message)) {
            // The task that waited may have given up.
            (Some(waiting), Ok(certs)) => drop(waiting.send(certs)),
            (None, _) => {
                tracing::debug!(
                    controller = %from.id,
                    "certificates came that the router did not ask for"
                )
            }
            (_, Err(problem)) => from.not_understood(&message, &problem),
        }
    }
}
