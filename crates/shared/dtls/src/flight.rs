//! The messages that one side sends at once, and their repetition until the other side answers
//! (RFC 6347 4.2.4).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::messages;
use crate::reader::{Reader, Write};
use crate::record::{self, Sealer};

/// Most bytes of a datagram of the handshake.
pub(crate) const DATAGRAM: usize = 1200;
/// Most bytes of a message in one record, so that a sealed one fits.
const PIECE: usize = DATAGRAM - record::OVERHEAD - messages::HEAD;
/// The wait before the first repetition. It doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(4);

/// A part of a flight.
#[derive(Debug, Clone)]
enum Part {
    Message { message: Vec<u8>, epoch: u16 },
    ChangeCipherSpec,
}

/// The messages that were sent last.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    parts: Vec<Part>,
    wait: Duration,
    /// The time of the next repetition; `None` if none is needed.
    pub(crate) due: Option<Instant>,
}

impl Flight {
    pub(crate) fn add(&mut self, message: Vec<u8>, epoch: u16) {
        self.parts.push(Part::Message { message, epoch });
    }

    pub(crate) fn change_cipher_spec(&mut self) {
        self.parts.push(Part::ChangeCipherSpec);
    }

    /// Begins the time for an answer.
    pub(crate) fn expects_answer(&mut self, now: Instant) {
        self.wait = FIRST;
        self.due = Some(now + FIRST);
    }

    /// Doubles the time for an answer.
    pub(crate) fn waits_longer(&mut self, now: Instant) {
        self.wait = (self.wait * 2).min(LONGEST);
        self.due = Some(now + self.wait);
    }

    /// Puts the messages into datagrams.
    pub(crate) fn send(
        &self,
        sealer: &mut Sealer,
        out: &mut VecDeque<Vec<u8>>,
    ) -> Result<(), Error> {
        let mut datagram = Vec::new();
        for part in &self.parts {
            match part {
                Part::ChangeCipherSpec => {
                    let kind = record::kind::CHANGE_CIPHER_SPEC;
                    append(sealer, &mut datagram, out, kind, 0, &[1])?;
                }
                Part::Message { message, epoch } => {
                    for piece in pieces(message) {
                        let kind = record::kind::HANDSHAKE;
                        append(sealer, &mut datagram, out, kind, *epoch, &piece)?;
                    }
                }
            }
        }
        if !datagram.is_empty() {
            out.push_back(datagram);
        }
        Ok(())
    }
}

/// Appends a record to the datagram, or to a new one if it has no room.
fn append(
    sealer: &mut Sealer,
    datagram: &mut Vec<u8>,
    out: &mut VecDeque<Vec<u8>>,
    kind: u8,
    epoch: u16,
    data: &[u8],
) -> Result<(), Error> {
    if !datagram.is_empty() && datagram.len() + record::OVERHEAD + data.len() > DATAGRAM {
        out.push_back(std::mem::take(datagram));
    }
    sealer.append(datagram, kind, epoch, data)
}

/// A message in pieces that fit into datagrams.
fn pieces(message: &[u8]) -> Vec<Vec<u8>> {
    let mut fields = Reader(message);
    let (Some(kind), Some(_), Some(number)) = (fields.u8(), fields.u24(), fields.u16()) else {
        return Vec::new();
    };
    let body = message.get(messages::HEAD..).unwrap_or_default();
    if body.len() <= PIECE {
        return vec![message.to_vec()];
    }
    let piece = |(at, data): (usize, &[u8])| {
        let mut piece = vec![kind];
        piece.u24(body.len());
        piece.u16(number);
        piece.u24(at * PIECE);
        piece.u24(data.len());
        piece.extend_from_slice(data);
        piece
    };
    body.chunks(PIECE).enumerate().map(piece).collect()
}
