//! The announcements of this router to controllers: its hello, its listeners, and the notice that
//! it is about to stop.

use weft_channel::Lane;
use weft_identity::{MAX_ROUTER_KEYS, PublicKey};
use weft_wire::ctrl::{self, CtrlChanListeners, Listener, Listeners, RouterHello};
use weft_wire::{Capabilities, Message, ProtoBody, router_capability};

use super::shared::Core;
use crate::controllers::Controller;
use crate::seam::LinkListener;

/// The capabilities that this router announces; only those that work.
fn capabilities() -> Capabilities {
    Capabilities::NONE
        .with(router_capability::MULTI_CHANNEL)
        .with(router_capability::BIND_SUCCESS)
        .with(router_capability::SESSION_LISTS)
        .with(router_capability::TAKES_CLAIMS)
        .with(router_capability::ROUTER_DATA_MODEL)
}

/// The hello of this router to controllers.
pub(super) fn hello(core: &Core) -> RouterHello {
    let controllers = core.listens.get().map(|listens| listens.controllers.clone());
    RouterHello {
        version: Some(core.options.version.clone()),
        capabilities: capabilities(),
        listeners: listeners(core, &core.link_listeners.lock().0),
        ctrl_chan_listeners: CtrlChanListeners { listeners: controllers.unwrap_or_default() },
    }
}

/// The listeners for links, as controllers are told of them, and the keys that all listeners of this router prove.
fn listeners(core: &Core, listeners: &[LinkListener]) -> Listeners {
    let listener = |one: &LinkListener| Listener {
        address: one.address.clone(),
        protocol: one.protocol.clone(),
        groups: one.groups.clone(),
        local_binding: one.local_binding.clone(),
    };
    let identity = core.identity.current();
    let keys = identity.servers().iter().filter_map(|server| server.leaf().public_key().ok());
    Listeners {
        listeners: listeners.iter().map(listener).collect(),
        server_keys: keys.map(PublicKey::print).take(MAX_ROUTER_KEYS).collect(),
    }
}

/// Asks a controller to lead no new circuit over this router. Only weft's controllers know this
/// message. Any other controller gets a failure for each route of a new circuit.
pub(super) fn of_the_end(controller: &Controller) {
    if !controller.is_of_weft() {
        return;
    }
    let drains = Message::new(ctrl::content_type::ROUTER_DRAINS, "");
    if let Err(problem) = controller.channel.try_send_on(Lane::High, drains) {
        tracing::debug!(controller = %controller.id, %problem, "the controller was not told that this router drains");
    }
}

/// Tells a controller of the listeners for links and the keys after its hello.
pub(super) fn of_listeners(core: &Core, controller: &Controller, link_listeners: &[LinkListener]) {
    let message = listeners(core, link_listeners).to_message();
    if let Err(problem) = controller.channel.try_send(message) {
        // The controller knows the listeners from the router's hello, so that another hello is needed.
        tracing::warn!(
            controller = %controller.id, %problem,
            "the controller could not be sent the listeners for links; its channel is closed"
        );
        controller.channel.close("the listeners for links could not be sent");
    }
}
