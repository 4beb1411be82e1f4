//! The state that the modules of the control half share, and the tasks that they run.

use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::future::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_channel::TraceFile;
use weft_identity::LiveIdentity;
use weft_wire::Message;
use weft_wire::ctrl::CtrlChanListener;

use super::online::Presence;
use super::options::{ControlOptions, EdgeAddresses};
use super::renewal::pending::Renewal;
use super::routes::state::Routes;
use super::targets::Cluster;
use super::terminators::table::Terminators;
use crate::access::AccessHalf;
use crate::controllers::{Controller, Controllers};
use crate::seam::{Data, LinkListener};

/// The state that the modules of the control half share.
pub(crate) struct Core {
    pub(super) options: ControlOptions,
    pub(super) trace: Option<TraceFile>,
    pub(super) identity: Arc<LiveIdentity>,
    pub(super) tls: Arc<rustls::ClientConfig>,
    pub(super) controllers: Arc<Controllers>,
    pub(super) access: AccessHalf,
    pub(super) data: OnceLock<Arc<dyn Data>>,
    pub(super) listens: OnceLock<Listens>,
    /// The listeners for links, and whether they have changed since the start.
    pub(super) link_listeners: Mutex<(Vec<LinkListener>, bool)>,
    pub(super) cluster: Cluster,
    pub(super) cluster_messages: mpsc::Sender<(Arc<Controller>, Message)>,
    pub(super) routes: Routes,
    pub(super) terminators: Terminators,
    pub(super) presence: Presence,
    pub(super) renewal: Renewal,
    pub(super) side_tasks: Arc<Semaphore>,
    /// True once the router is about to stop.
    pub(super) drains: AtomicBool,
    pub(super) runtime: runtime::Handle,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// The listeners of this router, as controllers are told of them.
#[derive(Debug, Default)]
pub(crate) struct Listens {
    /// For SDKs.
    pub(crate) edge: Vec<EdgeAddresses>,
    /// For other routers, at the start.
    pub(crate) links: Vec<LinkListener>,
    /// For controllers.
    pub(crate) controllers: Vec<CtrlChanListener>,
}

impl Core {
    /// Runs a task until it is done or the router stops.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        // A future that awaits the work would hold it twice: once as it was given, once as it is awaited.
        self.tasks.spawn_on(work.with_cancellation_token_owned(self.stop.clone()), &self.runtime);
    }

    /// Runs the answer to a question. If too many questions are being answered, this one is dropped.
    pub(super) fn spawn_side(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Ok(permit) = self.side_tasks.clone().try_acquire_owned() else {
            tracing::warn!("too many questions of controllers at once; this one is not answered");
            return;
        };
        self.spawn(async move {
            work.await;
            drop(permit);
        });
    }

    /// Queues a message about controllers, so that these keep their order. A message that finds the queue
    /// full is dropped.
    pub(super) fn queue_cluster(&self, from: &Arc<Controller>, message: Message) {
        if self.cluster_messages.try_send((from.clone(), message)).is_err() {
            tracing::warn!(
                controller = %from.id,
                "too many lists of controllers at once; this one is ignored"
            );
        }
    }
}
