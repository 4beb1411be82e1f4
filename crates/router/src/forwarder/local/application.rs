//! The application's side of an end on this router: a task with a socket, or an SDK connection without flow
//! control of its own.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use weft_wire::Message;
use weft_wire::edge::Data;
use weft_xgress::{Delivery, WriteError};

use super::state::{ForSdk, State};
use super::{App, EndFlow, LocalEnd, messages};

// A socket.
impl<F: EndFlow> LocalEnd<F> {
    /// Waits until data can be written; false once the direction or the circuit has ended.
    pub(crate) async fn writable(&self) -> bool {
        poll_fn(|cx| {
            let mut inner = self.inner.lock();
            let end = &inner.machine.end;
            if end.can_write() {
                return Poll::Ready(true);
            }
            if end.is_sending_over() {
                return Poll::Ready(false);
            }
            inner.wake_to_write(cx);
            Poll::Pending
        })
        .await
    }

    /// Takes one payload from the application; there must be room.
    pub(crate) fn write(&self, data: Bytes) -> Result<(), WriteError> {
        self.circuit.touch();
        self.change(|state, _| {
            self.came(data.len());
            state.end.write(data)
        })
    }

    /// Ends the direction: the application writes no more.
    pub(crate) fn finish(&self) {
        self.change(|state, now| state.end.finish(now));
    }

    /// Waits for the next delivery for the application.
    pub(crate) async fn read(&self) -> Delivery {
        poll_fn(|cx| {
            self.drive(|driver, _| {
                let Some(delivery) = driver.machine.end.read() else {
                    driver.wake_to_read(cx);
                    return Poll::Pending;
                };
                self.goes(&delivery);
                Poll::Ready(delivery)
            })
        })
        .await
    }

    /// The application takes no more data.
    pub(crate) fn delivery_failed(&self) {
        self.change(|state, now| state.end.delivery_failed(now));
    }

    /// The application is gone; what it wrote is still sent.
    pub(crate) fn close(&self) {
        self.change(|state, now| state.end.close(now));
    }
}

// An SDK connection.
impl<F: EndFlow> LocalEnd<F> {
    /// Takes a data message of the SDK; data without room in the end waits in the backlog.
    pub(crate) fn sdk_data(&self, data: Data) {
        self.circuit.touch();
        self.change(|state, now| {
            if let Some(bytes) = state.take_from_sdk(data, now) {
                self.came(bytes);
            }
        });
    }

    /// The SDK closed the connection: its earlier data is still sent.
    pub(crate) fn sdk_closed(&self) {
        self.change(State::close_by_sdk);
    }

    /// The SDK is gone: its earlier data is still sent, unless the circuit has no route yet. The route fails then.
    pub(crate) fn sdk_lost(&self) {
        match self.next() {
            Some(_) => self.change(State::lose_sdk),
            None => self.change(|state, _| {
                state.quiet = true;
                state.abort();
            }),
        }
    }

    /// The SDK gave the connection up: its earlier data may be incomplete, and what waits is dropped.
    pub(crate) fn sdk_gave_up(&self) {
        self.change(|state, _| {
            state.quiet = true;
            state.abort();
        });
    }

    /// The next message for the SDK, on its connection's task.
    pub(crate) fn pull_app(&self) -> Option<(Message, u64)> {
        let App::Sdk { conn_id, owner, .. } = &self.app else { return None };
        let next = self.change(|state, now| {
            let next = state.next_for_sdk(now);
            if let Some(ForSdk::Delivery(delivery)) = &next {
                self.goes(delivery);
            }
            next
        })?;
        let delivery = match next {
            ForSdk::Delivery(delivery) => delivery,
            ForSdk::Trace(message) => {
                let cost = weft_circuit::cost(&message);
                return Some((message, cost));
            }
        };
        if matches!(delivery, Delivery::Closed(_))
            && let Some(owner) = owner.upgrade()
        {
            owner.conn_closed(*conn_id);
        }
        let message = messages::of_delivery(*conn_id, delivery);
        let cost = weft_circuit::cost(&message);
        Some((message, cost))
    }
}
