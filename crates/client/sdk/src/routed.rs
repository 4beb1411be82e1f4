//! A connection whose flow control is at the router: data messages in both directions
//! (docs/protocol/sdk.md 10).
//!
//! There is no window. Data of the application waits in a small queue for the channel. Data that arrives
//! can only be held, never dropped; when too much of it is held, the whole channel is not read.

use std::collections::VecDeque;

use bytes::Bytes;
use weft_wire::Message;
use weft_wire::edge::{Data, StateClosed, data_flags};
use weft_wire::payload::Payload;
use weft_xgress::{CircuitCloseReason, Delivery, ITEM_COST, WriteError};

/// Most bytes of the application that wait for the channel.
const SEND_LIMIT: usize = 256 * 1024;
/// Most bytes that wait for the application while the channel is read.
const HELD_LIMIT: usize = 1 << 20;
/// The channel is read again once fewer bytes than this wait.
const HELD_RESUME: usize = HELD_LIMIT / 2;

/// A connection with flow control at the router.
#[derive(Debug)]
pub(crate) struct Routed {
    conn_id: u32,
    /// Messages that wait for the channel.
    out: VecDeque<Data>,
    out_bytes: usize,
    /// True once the application has ended its direction.
    finished: bool,
    /// True once the application is gone: the router is told when all data is sent.
    closing: bool,
    /// True once this side has given the connection up: the router is told that data may be missing.
    gave_up: bool,
    /// True if data was dropped that waited for the channel.
    lost_data: bool,
    /// Messages that wait for the application.
    held: VecDeque<Data>,
    held_bytes: usize,
    /// True while the channel must not be read because of this connection.
    over: bool,
    /// True once the peer has ended its direction.
    fin_arrived: bool,
    /// True once that end was delivered to the application.
    fin_read: bool,
    /// True if the last message also ended the direction: that end is the next delivery.
    fin_next: bool,
    closed: Option<CircuitCloseReason>,
    closed_read: bool,
}

impl Routed {
    pub(crate) fn new(conn_id: u32) -> Self {
        Self {
            conn_id,
            out: VecDeque::new(),
            out_bytes: 0,
            finished: false,
            closing: false,
            gave_up: false,
            lost_data: false,
            held: VecDeque::new(),
            held_bytes: 0,
            over: false,
            fin_arrived: false,
            fin_read: false,
            fin_next: false,
            closed: None,
            closed_read: false,
        }
    }

    pub(crate) fn can_write(&self) -> bool {
        !self.is_sending_over() && self.out_bytes < SEND_LIMIT
    }

    pub(crate) fn is_sending_over(&self) -> bool {
        self.finished || self.closing || self.closed.is_some()
    }

    /// Takes one payload, with or without room for it.
    pub(crate) fn write(&mut self, data: Bytes) -> Result<(), WriteError> {
        if self.is_sending_over() {
            return Err(WriteError::Ended);
        }
        self.push(0, data);
        Ok(())
    }

    /// True if a message of the application was not sent yet.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.out.is_empty()
    }

    /// The application writes no more.
    pub(crate) fn finish(&mut self) {
        if !self.is_sending_over() {
            self.push(data_flags::FIN, Bytes::new());
            self.finished = true;
        }
    }

    /// The application is gone.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.held.clear();
        self.held_bytes = 0;
    }

    /// Gives the connection up: data that waits is dropped, and the router is told that some may be
    /// missing.
    pub(crate) fn abort(&mut self) {
        self.gave_up = true;
        self.lost_data |= self.has_data();
        self.drop_out();
        self.close();
    }

    /// Ends the connection: nothing more is sent.
    pub(crate) fn end(&mut self, reason: CircuitCloseReason) {
        if self.closed.is_none() {
            self.closed = Some(reason);
            // A peer whose application has closed the connection takes no more data.
            self.lost_data |= !reason.is_orderly() && self.has_data();
            self.drop_out();
        }
    }

    /// Drops what waits for the channel.
    fn drop_out(&mut self) {
        self.out.clear();
        self.out_bytes = 0;
    }

    fn has_data(&self) -> bool {
        self.out.iter().any(|message| !message.data.is_empty())
    }

    /// True if the router has taken all data that was written, or the peer has closed the connection.
    pub(crate) fn is_delivered(&self) -> bool {
        !self.lost_data && !self.has_data()
    }

    pub(crate) fn closed(&self) -> Option<CircuitCloseReason> {
        self.closed
    }

    /// Takes a data message of the router.
    pub(crate) fn on_data(&mut self, data: Data) {
        if self.fin_arrived || self.closing || self.closed.is_some() {
            return;
        }
        self.fin_arrived = data.is_fin();
        if !data.data.is_empty() || data.is_fin() {
            self.held_bytes += data.data.len() + ITEM_COST;
            self.held.push_back(data);
        }
    }

    /// The next delivery for the application.
    pub(crate) fn read(&mut self) -> Option<Delivery> {
        if std::mem::take(&mut self.fin_next) {
            return Some(self.fin());
        }
        if let Some(data) = self.held.pop_front() {
            self.held_bytes -= data.data.len() + ITEM_COST;
            if data.data.is_empty() {
                return Some(self.fin());
            }
            self.fin_next = data.is_fin();
            let headers = match data.flags & data_flags::MULTIPART_MSG {
                0 => Vec::new(),
                flag => vec![Payload::edge_flags_header(flag)],
            };
            return Some(Delivery::Data { headers, data: data.data });
        }
        let reason = self.closed.filter(|_| !self.closed_read)?;
        self.closed_read = true;
        Some(Delivery::Closed(reason))
    }

    fn fin(&mut self) -> Delivery {
        self.fin_read = true;
        Delivery::Fin { headers: Vec::new() }
    }

    pub(crate) fn wants_read(&self) -> bool {
        self.fin_next || !self.held.is_empty() || (self.closed.is_some() && !self.closed_read)
    }

    pub(crate) fn wants_transmit(&self) -> bool {
        self.closed.is_none() && (!self.out.is_empty() || self.closing)
    }

    /// The next message for the router.
    pub(crate) fn transmit(&mut self) -> Option<Message> {
        if self.closed.is_some() {
            return None;
        }
        if let Some(data) = self.out.pop_front() {
            self.out_bytes -= data.data.len() + ITEM_COST;
            return Some(data.to_message());
        }
        if !self.closing {
            return None;
        }
        let (reason, closed) = if self.gave_up {
            (
                CircuitCloseReason::Aborted,
                StateClosed::gave_up(self.conn_id, "given up by the application"),
            )
        } else {
            (
                CircuitCloseReason::Finished,
                StateClosed::new(self.conn_id, "closed by the application"),
            )
        };
        self.end(reason);
        Some(closed.to_message())
    }

    /// Whether the channel must be held back, if that has changed.
    pub(crate) fn over_changed(&mut self) -> Option<bool> {
        let limit = if self.over { HELD_RESUME } else { HELD_LIMIT };
        let over = self.closed.is_none() && self.held_bytes > limit;
        (over != self.over).then(|| {
            self.over = over;
            over
        })
    }

    fn push(&mut self, flags: u32, data: Bytes) {
        self.out_bytes += data.len() + ITEM_COST;
        self.out.push_back(Data { conn_id: self.conn_id, flags, uuid: None, data });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(bytes: usize, flags: u32) -> Data {
        Data { conn_id: 1, flags, uuid: None, data: vec![0; bytes].into() }
    }

    #[test]
    fn data_then_end_then_close_in_order() {
        let mut conn = Routed::new(1);
        conn.on_data(data(3, 0));
        conn.on_data(data(2, data_flags::FIN));
        conn.on_data(data(9, 0));
        conn.end(CircuitCloseReason::PeerClosed);
        let mut read = Vec::new();
        while let Some(delivery) = conn.read() {
            read.push(match delivery {
                Delivery::Data { data, .. } => data.len().to_string(),
                Delivery::Fin { .. } => "fin".to_owned(),
                Delivery::Closed(_) => "closed".to_owned(),
            });
        }
        assert_eq!(read, ["3", "2", "fin", "closed"]);
        assert!(!conn.wants_read());
    }

    #[test]
    fn the_close_goes_behind_what_was_written() {
        let mut conn = Routed::new(7);
        conn.write(Bytes::from_static(b"x")).unwrap();
        conn.finish();
        assert_eq!(conn.write(Bytes::from_static(b"y")), Err(WriteError::Ended));
        conn.close();
        let sent: Vec<i32> =
            std::iter::from_fn(|| conn.transmit()).map(|message| message.content_type).collect();
        use weft_wire::edge::content_type::{DATA, STATE_CLOSED};
        assert_eq!(sent, [DATA, DATA, STATE_CLOSED]);
        assert_eq!(conn.closed(), Some(CircuitCloseReason::Finished));
    }

    #[test]
    fn a_connection_that_is_given_up_says_so_and_sends_nothing_before() {
        let mut conn = Routed::new(7);
        conn.write(Bytes::from_static(b"x")).unwrap();
        conn.abort();
        let closed = StateClosed::from_message(&conn.transmit().unwrap()).unwrap();
        assert!(closed.error.is_some(), "{closed:?}");
        assert!(conn.transmit().is_none());
        assert_eq!(conn.closed(), Some(CircuitCloseReason::Aborted));
    }

    #[test]
    fn both_queues_have_their_limits() {
        let mut conn = Routed::new(1);
        while conn.can_write() {
            conn.write(vec![0; 32 * 1024].into()).unwrap();
        }
        assert!(conn.out_bytes < SEND_LIMIT + 64 * 1024);
        while conn.over_changed().is_none() {
            conn.on_data(data(1000, 0));
        }
        while conn.read().is_some() {
            if let Some(over) = conn.over_changed() {
                assert!(!over && conn.held_bytes > 0);
            }
        }
    }
}
