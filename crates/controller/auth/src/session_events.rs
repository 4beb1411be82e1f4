//! Events of API sessions (docs/protocol/operations.md 4.3).

use weft_kernel::Kernel;
use weft_kernel::events::{ApiSessionEvent, Event, SessionChange};
use weft_model::entity::ApiSession;

/// Tells that a session has changed.
pub(crate) fn changed(
    kernel: &Kernel,
    session: &ApiSession,
    change: SessionChange,
    cert_generated: bool,
) {
    if !kernel.events().has_listeners() {
        return;
    }
    let remote = session.tokens.as_ref().map(|tokens| tokens.remote.clone());
    kernel.events().tell(Event::ApiSession(
        ApiSessionEvent {
            at: kernel.now(),
            change,
            session: session.base.id.clone(),
            is_by_tokens: session.tokens.is_some(),
            identity: session.identity_id.clone(),
            address: remote.unwrap_or_else(|| session.ip_address.clone()),
            cert_generated,
        }
        .into(),
    ));
}
