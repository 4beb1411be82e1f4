//! Keeps a listener bound: on several routers, and again after a router or controller was away
//! (docs/protocol/sdk.md 8).
//!
//! One task per listener follows the routers, and one per slot binds on a router and stays as long as
//! the bind stands. A router that is lost frees its slot for another one at once. The controller is
//! asked for the routers as rarely as the listener can do with ([`rereading`]).

mod binding;
mod following;
mod host;
mod rereading;
mod router_slots;

use std::sync::Arc;

use following::Following;
pub(crate) use host::{Host, HostState};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::inner::Inner;

impl Host {
    /// Keeps the listener bound until it is cancelled or cannot go on.
    pub(crate) async fn run(self: Arc<Self>, inner: Arc<Inner>, cancel: CancellationToken) {
        let work = async {
            if let Err(error) = Following::new(&self, &inner).run().await {
                self.state.send_modify(|state| {
                    state.over = Some(error);
                    state.established = 0;
                });
            }
        };
        tokio::select! {
            () = cancel.cancelled() => {}
            () = inner.cancel.cancelled() => {
                let closed = Error::Closed("the endpoint is closed".to_owned());
                self.state.send_modify(|state| state.over = Some(closed));
            }
            () = work => {}
        }
    }
}
