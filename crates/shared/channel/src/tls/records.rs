//! The records of TLS 1.3 after the handshake (RFC 8446, sections 4.6, 5 and 6).
//!
//! A record is five bytes of head and a sealed body. The body has the text, one byte for the kind of the text, padding
//! of zeros, and a tag. Besides data there are alerts, which end the session, and two messages of the handshake: tickets
//! for later sessions, and changes of keys.

use std::ops::Range;

use rustls::{AlertDescription, Error, ExtractedSecrets};

use super::fault::Fault;
use super::keys::{Key, TAG};
use super::outgoing::Outgoing;
use super::unbuffered::Successor;

/// Bytes of the head of a record.
const HEAD: usize = 5;
/// Most bytes of text in a record.
const MOST_TEXT: usize = 16 * 1024;
/// Most bytes of a body.
pub(super) const MOST_BODY: usize = MOST_TEXT + 256;
/// Longest message of the handshake, in bytes; tickets are the longest.
const MOST_MESSAGE: usize = 4 + 0xffff;
/// Most records without data, one after the other: they cost work and carry nothing.
const MOST_BARREN: u8 = 32;

/// Kinds of text.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// Kinds of messages of the handshake.
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// Alerts that are no errors.
const CLOSE_NOTIFY: u8 = 0;
const USER_CANCELED: u8 = 90;

/// The content of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Data, at this place in the record.
    Data(Range<usize>),
    Nothing,
    /// The peer sends nothing more.
    End,
}

/// A session of TLS 1.3 whose records are opened and sealed here.
#[derive(Debug)]
pub(crate) struct Records {
    receiving: Key,
    sending: Key,
    successor: Successor,
    /// The beginning of a message of the handshake whose rest is in later records.
    message: Vec<u8>,
    /// Records without data since the last one with data.
    barren: u8,
    /// True if the peer waits for a new key of this side.
    owes_key: bool,
}

/// The length of the first record of `input`, with its head, if its body has `most` bytes at most; `None` until the head
/// is there.
pub(super) fn first_record(input: &[u8], most: usize) -> Result<Option<usize>, Fault> {
    let Some(&[_, _, _, high, low]) = input.get(..HEAD) else { return Ok(None) };
    let body = usize::from(u16::from_be_bytes([high, low]));
    if body > most { Err(Fault::oversized()) } else { Ok(Some(HEAD + body)) }
}

impl Records {
    pub(super) fn new(secrets: ExtractedSecrets, successor: Successor) -> Result<Self, Error> {
        Ok(Self {
            receiving: Key::new(secrets.rx)?,
            sending: Key::new(secrets.tx)?,
            successor,
            message: Vec::new(),
            barren: 0,
            owes_key: false,
        })
    }

    /// Opens a whole record in place.
    pub(crate) fn open(&mut self, record: &mut [u8]) -> Result<Opened, Fault> {
        let Some((head, body)) = record.split_first_chunk_mut::<HEAD>() else {
            return Err(Fault::malformed("a record without a head"));
        };
        if head[0] != DATA {
            return Err(Fault::unexpected("a record that is not sealed"));
        }
        let text = self.receiving.open(*head, body).ok_or_else(Fault::forged)?;
        if text.len() > MOST_TEXT + 1 {
            return Err(Fault::oversized());
        }
        let Some(end) = text.iter().rposition(|byte| *byte != 0) else {
            return Err(Fault::unexpected("a record without a kind"));
        };
        let (text, kind) = text.split_at_mut(end);
        let kind = kind.first().copied().unwrap_or_default();
        if kind != HANDSHAKE && !self.message.is_empty() {
            return Err(Fault::unexpected("a message of the handshake without its end"));
        }
        if kind == DATA && !text.is_empty() {
            self.barren = 0;
            return Ok(Opened::Data(HEAD..HEAD + end));
        }
        self.barren += 1;
        if self.barren > MOST_BARREN {
            return Err(Fault::unexpected("too many records without data"));
        }
        match (kind, &*text) {
            (DATA, _) => Ok(Opened::Nothing),
            (ALERT, &[_, CLOSE_NOTIFY]) => Ok(Opened::End),
            (ALERT, &[_, USER_CANCELED]) => Ok(Opened::Nothing),
            (ALERT, &[_, alert]) => {
                let error = Error::AlertReceived(AlertDescription::from(alert));
                Err(Fault { alert: CLOSE_NOTIFY, error })
            }
            (ALERT | HANDSHAKE, []) => Err(Fault::unexpected("an alert or message without text")),
            (ALERT, _) => Err(Fault::malformed("an alert of a wrong length")),
            (HANDSHAKE, text) => {
                self.message.extend_from_slice(text);
                self.take_messages()
            }
            _ => Err(Fault::unexpected("a record of an unknown kind")),
        }
    }

    /// Takes the messages of the handshake that are whole.
    fn take_messages(&mut self) -> Result<Opened, Fault> {
        while let Some(&[kind, high, middle, low]) = self.message.get(..4) {
            let end = 4 + u32::from_be_bytes([0, high, middle, low]) as usize;
            if end > MOST_MESSAGE {
                return Err(Fault::malformed("a message of the handshake that is too long"));
            }
            let Some(body) = self.message.get(4..end) else { break };
            match kind {
                NEW_SESSION_TICKET => match self.successor.ticket(body) {
                    Some(Ok(())) => {}
                    Some(Err(error)) => return Err(Fault { alert: 50, error }),
                    None => return Err(Fault::unexpected("a ticket of a client")),
                },
                KEY_UPDATE => {
                    // The next record has the new key: nothing may follow in this one.
                    if self.message.len() != end {
                        return Err(Fault::unexpected("text after a change of keys"));
                    }
                    match body {
                        [0] => {}
                        [1] => self.owes_key = true,
                        [_] => return Err(Fault::illegal("a change of keys of an unknown kind")),
                        _ => return Err(Fault::malformed("a change of keys of a wrong length")),
                    }
                    let next = self.successor.receiving().map_err(Fault::internal)?;
                    self.receiving = Key::new(next).map_err(Fault::internal)?;
                }
                _ => return Err(Fault::unexpected("a message of the handshake after its end")),
            }
            self.message.drain(..end);
        }
        if self.message.is_empty() {
            // Such messages are rare.
            self.message = Vec::new();
        }
        Ok(Opened::Nothing)
    }

    /// Changes the key for sending, if the peer waits for that or the key has sealed enough. One change answers all
    /// requests that came meanwhile.
    pub(crate) fn settle(&mut self, out: &mut Outgoing) -> Result<(), Error> {
        if !self.owes_key && !self.sending.is_worn() {
            return Ok(());
        }
        if self.seal_small(HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 0], out)? {
            self.owes_key = false;
            self.sending = Key::new(self.successor.sending()?)?;
        }
        Ok(())
    }

    /// Seals as many of these bytes as there is room for, from the front, in records that are as long as
    /// possible. Returns their number.
    pub(crate) fn seal<'a>(
        &mut self,
        slices: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Outgoing,
    ) -> Result<usize, Error> {
        self.settle(out)?;
        let mut left = slices.clone().map(<[u8]>::len).sum::<usize>();
        let all = left;
        let mut rest = Rest { slices, current: &[] };
        while left > 0 {
            let length = left.min(MOST_TEXT);
            if out.room() < HEAD + length + 1 + TAG || self.sending.is_worn() {
                break;
            }
            let key = &mut self.sending;
            let sealed =
                add_record(length, out, |head, place, end| match rest.contiguous(length) {
                    Some(text) => key.seal(head, text, DATA, place, end),
                    None => {
                        rest.copy_to(place);
                        key.seal_in_place(head, place, DATA, end)
                    }
                });
            match sealed {
                Some(done) => done?,
                None => break,
            }
            left -= length;
        }
        Ok(all - left)
    }

    /// Lets the key for sending wear out after so many records more.
    #[cfg(test)]
    pub(super) fn wears_out_after(&mut self, records: u64) {
        self.sending.wears_out_after(records);
    }

    /// Takes the next key for sending without telling the peer.
    #[cfg(test)]
    pub(super) fn replace_key(&mut self) {
        self.sending = Key::new(self.successor.sending().unwrap()).unwrap();
    }

    /// Adds the alert that ends the session.
    pub(crate) fn alert(&mut self, alert: u8, out: &mut Outgoing) {
        let level = if alert == CLOSE_NOTIFY { 1 } else { 2 };
        // Without the alert, the peer learns of the end from the socket.
        let _ = self.seal_small(ALERT, &[level, alert], out);
    }

    /// Seals a text that is no data; false if there is no room for it.
    pub(super) fn seal_small(
        &mut self,
        kind: u8,
        text: &[u8],
        out: &mut Outgoing,
    ) -> Result<bool, Error> {
        let key = &mut self.sending;
        let sealed =
            add_record(text.len(), out, |head, place, end| key.seal(head, text, kind, place, end));
        sealed.transpose().map(|done| done.is_some())
    }
}

/// Adds a record with so much text: `seal` gets its head, the place of the sealed text, and that of kind and tag.
fn add_record(
    length: usize,
    out: &mut Outgoing,
    seal: impl FnOnce([u8; HEAD], &mut [u8], &mut [u8]) -> Result<(), Error>,
) -> Option<Result<(), Error>> {
    // No more than MOST_BODY.
    let [high, low] = ((length + 1 + TAG) as u16).to_be_bytes();
    let head = [DATA, 3, 3, high, low];
    out.add(HEAD + length + 1 + TAG, |place| {
        let (first, body) = place.split_at_mut(HEAD);
        first.copy_from_slice(&head);
        let (text, end) = body.split_at_mut(length);
        seal(head, text, end)
    })
}

/// The bytes of slices that are not sealed yet.
struct Rest<'a, I> {
    slices: I,
    current: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> Rest<'a, I> {
    /// The next bytes, if they stand together.
    fn contiguous(&mut self, count: usize) -> Option<&'a [u8]> {
        while self.current.is_empty() {
            self.current = self.slices.next()?;
        }
        let (text, rest) = self.current.split_at_checked(count)?;
        self.current = rest;
        Some(text)
    }

    /// Copies the next bytes.
    fn copy_to(&mut self, mut place: &mut [u8]) {
        while !place.is_empty() {
            while self.current.is_empty() {
                let Some(next) = self.slices.next() else { return };
                self.current = next;
            }
            let count = place.len().min(self.current.len());
            let (now, rest) = self.current.split_at(count);
            let (here, later) = place.split_at_mut(count);
            here.copy_from_slice(now);
            self.current = rest;
            place = later;
        }
    }
}
