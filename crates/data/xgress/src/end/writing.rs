//! The data that the application writes to an end.

use bytes::Bytes;
use weft_wire::payload::{Flags, PayloadHeaders};

use super::{End, Sending, WriteError};
use crate::chunk::{self, Piece};
use crate::fin::has_fin;
use crate::sender::Outgoing;

impl End {
    /// True if the next data of the application can be taken. It cannot while the window and the
    /// send buffer are full, nor at the terminating end before the circuit has begun.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.started && self.sending == Sending::Open && self.sender.has_room()
    }

    /// Takes one payload of the application's data. Payloads keep their borders.
    ///
    /// Ask [`can_write`](Self::can_write) before each write. Its room may be gone by then, because
    /// the window shrinks and other ends use up the budget: the one payload is taken nevertheless,
    /// because its data has left the application already. Data of more than 256 KiB, or than the `mtu`, is cut. A payload that is written before the circuit
    /// has begun, like the last ones of a direction that ends so early, waits for the beginning.
    ///
    /// # Errors
    ///
    /// This direction has ended.
    pub fn write(&mut self, data: Bytes) -> Result<(), WriteError> {
        self.write_with(Vec::new(), data)
    }

    /// Takes one payload with headers, as an SDK's data message has them. A header for the end of
    /// the direction does not end it: [`finish`](Self::finish) does, without sending the end twice.
    pub fn write_with(&mut self, headers: PayloadHeaders, data: Bytes) -> Result<(), WriteError> {
        if self.sending != Sending::Open {
            return Err(WriteError::Ended);
        }
        self.fin_written |= has_fin(&headers);
        if data.len() <= self.most {
            self.push(Piece { flags: Flags::NONE, headers, data });
        } else {
            chunk::cut(headers, data, self.most).into_iter().for_each(|piece| self.push(piece));
        }
        Ok(())
    }

    /// True if data of this length is cut into several payloads.
    #[must_use]
    pub fn is_cut(&self, length: usize) -> bool {
        length > self.most
    }

    /// Cuts data with headers into pieces of one payload each, so that the window and the budget decide on
    /// each of them. [`write_piece`](Self::write_piece) takes them, in order and without other data
    /// between them.
    #[must_use]
    pub fn cut(&self, headers: PayloadHeaders, data: Bytes) -> Vec<Piece> {
        chunk::cut(headers, data, self.most)
    }

    /// Takes one piece of data; see [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// This direction has ended.
    pub fn write_piece(&mut self, piece: Piece) -> Result<(), WriteError> {
        if self.sending != Sending::Open {
            return Err(WriteError::Ended);
        }
        self.fin_written |= has_fin(&piece.headers);
        self.push(piece);
        Ok(())
    }

    fn push(&mut self, Piece { flags, headers, data }: Piece) {
        self.sender.push(Outgoing { flags, headers, data });
    }
}
