//! The controllers that this router stays connected to: their ids as far as they are known, and their
//! addresses.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_wire::Address;

use crate::seam::ControllerId;

/// The controllers that this router stays connected to.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(super) targets: Mutex<Vec<Arc<Target>>>,
    /// The revision of the list that was applied last.
    pub(super) index: Mutex<u64>,
}

impl Cluster {
    /// The target of a controller, other than `but`.
    pub(crate) fn target_of(&self, id: &str, but: &Arc<Target>) -> Option<Arc<Target>> {
        let targets = self.targets.lock();
        let other = |target: &&Arc<Target>| {
            !Arc::ptr_eq(target, but) && target.id().is_some_and(|known| *known == *id)
        };
        targets.iter().find(other).cloned()
    }

    /// The ids of the known controllers.
    pub(crate) fn ids(&self) -> Vec<ControllerId> {
        self.targets.lock().iter().filter_map(|target| target.id()).collect()
    }

    /// True if the connection to this controller is kept cut.
    pub(crate) fn is_cut(&self, id: &str) -> bool {
        let is_it = |target: &&Arc<Target>| target.id().is_some_and(|known| *known == *id);
        self.targets.lock().iter().find(is_it).is_some_and(|target| *target.held.borrow())
    }

    /// Removes a target.
    pub(crate) fn drop_target(&self, target: &Arc<Target>) {
        self.targets.lock().retain(|known| !Arc::ptr_eq(known, target));
    }

    /// Forgets the revision: another timeline has other revisions, so that the next list is applied
    /// in any case.
    pub(crate) fn forget_index(&self) {
        *self.index.lock() = 0;
    }
}

/// A controller to be connected to.
#[derive(Debug)]
pub(crate) struct Target {
    state: Mutex<TargetState>,
    /// Cancelled to end the connection and all attempts.
    pub(crate) stop: CancellationToken,
    /// True while the connection is kept cut, for debugging.
    pub(crate) held: watch::Sender<bool>,
}

#[derive(Debug)]
struct TargetState {
    /// The id, known after the first connection or from a list of controllers.
    id: Option<ControllerId>,
    addresses: Vec<Address>,
}

impl Target {
    /// A target with these addresses.
    pub(crate) fn new(id: Option<ControllerId>, addresses: Vec<Address>) -> Arc<Self> {
        let state = Mutex::new(TargetState { id, addresses });
        Arc::new(Self { state, stop: CancellationToken::new(), held: watch::Sender::new(false) })
    }

    /// Waits until the connection is not kept cut any more.
    pub(crate) async fn released(&self) {
        // The sender lives as long as the target.
        let _ = self.held.subscribe().wait_for(|held| !*held).await;
    }

    pub(crate) fn id(&self) -> Option<ControllerId> {
        self.state.lock().id.clone()
    }

    pub(crate) fn set_id(&self, id: ControllerId) {
        self.state.lock().id = Some(id);
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.state.lock().addresses.clone()
    }

    pub(crate) fn set_addresses(&self, addresses: Vec<Address>) {
        self.state.lock().addresses = addresses;
    }

    /// Adds addresses of the same controller.
    pub(crate) fn add_addresses(&self, more: Vec<Address>) {
        let addresses = &mut self.state.lock().addresses;
        for address in more {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
}
