//! Requests of SDKs, each handled in a task of its own, and their refusals.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_wire::Message;
use weft_wire::edge::{StateClosed, content_type, header};

use super::connection::SdkConnection;
use super::patience::Asked;
use crate::seam::Use;

/// A request in work.
pub(super) struct Request {
    pub(super) message: Message,
    came: Instant,
    /// Its place among the requests of the channel; given back when the request is decided.
    place: Option<OwnedSemaphorePermit>,
    _bytes: OwnedSemaphorePermit,
}

impl SdkConnection {
    /// Handles a request in a task of its own.
    pub(super) fn request(self: &Arc<Self>, message: Message) {
        // A listener is taken down here, in the order of arrival and however many requests wait: the next
        // message may bind its connection id again, and no one would take it down later.
        let unbound = match message.content_type {
            content_type::UNBIND => self.unbind(&message),
            _ => None,
        };
        let mut request = match self.take_up(message) {
            Ok(request) => request,
            Err(message) => {
                let id = message.headers.get_u32(header::CONN_ID).unwrap_or(0);
                let closed = StateClosed::new(id, "too many requests at once on this channel");
                let _ = self.channel.try_send(closed.to_message().in_reply_to(&message));
                return;
            }
        };
        let message = &request.message;
        self.note_early(message.wire_len());
        let this = Arc::clone(self);
        // Connection ids are reserved here, in the order of arrival, so that later messages find
        // them.
        let reserved = match message.content_type {
            content_type::CONNECT | content_type::BIND => {
                message.headers.get_u32(header::CONN_ID).map(|id| self.ids.reserve(id))
            }
            _ => None,
        };
        self.binding.options.control_runtime.spawn(async move {
            match request.message.content_type {
                content_type::CONNECT => this.connect(&mut request, reserved).await,
                content_type::BIND => this.bind(&mut request, reserved).await,
                content_type::UPDATE_TOKEN => this.update_token(&request.message).await,
                _ => {
                    if let Some(reply) = unbound {
                        this.send_hosting(reply).await;
                    }
                }
            }
        });
    }

    /// Takes a message up as a request, if there is room among those in work.
    pub(super) fn take_up(&self, message: Message) -> Result<Request, Message> {
        let room = || {
            let bytes = u32::try_from(message.wire_len()).ok()?;
            let bytes = Arc::clone(&self.request_bytes).try_acquire_many_owned(bytes).ok()?;
            Some((Arc::clone(&self.requests).try_acquire_owned().ok()?, bytes))
        };
        match room() {
            Some((place, bytes)) => {
                Ok(Request { message, came: Instant::now(), place: Some(place), _bytes: bytes })
            }
            None => Err(message),
        }
    }

    /// Waits until the refusal of a request may be sent. The request no longer takes the place of others, unless too
    /// many refusals of the SDK wait already; its bytes count until it is answered. The wait ends when the SDK takes the
    /// request back.
    pub(super) async fn hold_refusal(
        &self,
        request: &mut Request,
        purpose: Use,
        reserved: Option<&CancellationToken>,
    ) {
        let Some(session) = self.session() else { return };
        let held = self.held_refusals.try_acquire();
        if held.is_ok() {
            request.place = None;
        }
        let never = CancellationToken::new();
        let over = reserved.unwrap_or(&never);
        let patience = &self.binding.patience;
        patience.hold(&session.identity, Asked::Use(purpose), request.came, over).await;
    }

    /// Waits until a channel that came at this time, and is refused, may be closed.
    pub(super) async fn refused_channel(&self, came: Instant) {
        let certificates = &self.channel.peer().certificates;
        let Some(leaf) = certificates.first() else { return };
        let sender = weft_identity::fingerprint(leaf);
        let never = CancellationToken::new();
        self.binding.patience.hold(&sender, Asked::Channel, came, &never).await;
    }
}
