//! The messages that one connection writes next: frames, collected without copying their bodies.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use weft_wire::{Message, frame};

use crate::heartbeat::now_ns;
use crate::shared::Shared;

/// Bytes after which a batch is full. One message may exceed it.
pub const BATCH_BYTES: usize = 64 * 1024;
/// Messages after which a batch is full.
pub const BATCH_FRAMES: usize = 64;

/// Longest body, in bytes, that is copied after its headers; longer ones are written from their own
/// memory.
const INLINE_BODY: usize = 256;

/// Gives one connection messages when it has room for them.
///
/// The connection asks on its own task whenever it can write. An outbox that was empty and gets a
/// message wakes the connection through its [`UnderlayWaker`](crate::UnderlayWaker).
pub trait Outbox: Send {
    /// Takes note of ready flows. Every outbox is asked before the first one fills a batch: a flow
    /// that becomes ready later waits for the next batch. Otherwise it could overtake a message
    /// that was queued earlier on one of the channel's lanes, when that lane had been emptied
    /// already. The order holds for flows, not for messages: a noticed flow may hand out messages
    /// that it got since. A message that must follow another one on a lane therefore belongs to a
    /// flow that is listed only after that one was queued.
    fn notice(&mut self) {}

    /// Puts messages into `batch` until it is full or there are none.
    fn fill(&mut self, batch: &mut Batch);

    /// The time at which the connection asks again, although it was not woken.
    fn wake_at(&self) -> Option<Instant>;

    /// Called when everything taken by the last [`fill`](Self::fill) has been handed to the socket.
    fn flushed(&mut self) {}

    /// Called when the connection closed before these messages, in order, were known to be written
    /// completely. They have their sequence numbers. Peers may have received some of them.
    fn give_back(&mut self, unsent: Vec<Message>) {
        let _ = unsent;
    }
}

/// The frames that are on their way to the socket, limited in number and bytes.
#[derive(Debug)]
pub struct Batch {
    channel: Arc<Shared>,
    /// Heads, headers and small bodies.
    arena: Vec<u8>,
    frames: Vec<Message>,
    segments: Vec<Segment>,
    bytes: usize,
    /// Bytes already given to TLS.
    taken: usize,
    now_ns: u64,
}

#[derive(Debug)]
enum Segment {
    Arena(Range<usize>),
    /// The body of the frame with this index.
    Body(usize),
}

impl Batch {
    pub(crate) fn new(channel: Arc<Shared>) -> Self {
        Self {
            channel,
            arena: Vec::new(),
            frames: Vec::new(),
            segments: Vec::new(),
            bytes: 0,
            taken: 0,
            now_ns: now_ns(),
        }
    }

    /// Bytes that may be added before the batch is full. A longer message may still be added while
    /// the batch is not full.
    pub fn room(&self) -> usize {
        if self.frames.len() >= BATCH_FRAMES { 0 } else { BATCH_BYTES.saturating_sub(self.bytes) }
    }

    /// True if nothing more should be added.
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Adds a message: gives it its sequence number and, when due, heartbeat headers. Returns the
    /// sequence number. Nothing of the message reaches the peer before the outbox has returned from
    /// filling.
    pub fn push(&mut self, mut message: Message) -> i32 {
        message.sequence = self.channel.next_sequence();
        let extra = self.channel.heartbeat.stamp(self.now_ns);
        let start = self.arena.len();
        frame::encode_head(&message, message.sequence, &extra, &mut self.arena);
        let inline = message.body.len() <= INLINE_BODY;
        if inline {
            self.arena.extend_from_slice(&message.body);
        }
        self.extend_arena(start);
        if !inline {
            self.bytes += message.body.len();
            self.segments.push(Segment::Body(self.frames.len()));
        }
        let sequence = message.sequence;
        self.frames.push(message);
        sequence
    }

    fn extend_arena(&mut self, start: usize) {
        let end = self.arena.len();
        self.bytes += end - start;
        match self.segments.last_mut() {
            Some(Segment::Arena(range)) => range.end = end,
            _ => self.segments.push(Segment::Arena(start..end)),
        }
    }

    /// Empties the batch for the next use.
    pub(crate) fn reset(&mut self) {
        self.arena.clear();
        self.frames.clear();
        self.segments.clear();
        self.bytes = 0;
        self.taken = 0;
        self.now_ns = now_ns();
    }

    /// Frees its memory while it is empty.
    pub(crate) fn give_back(&mut self) {
        if self.frames.is_empty() {
            self.arena = Vec::new();
            self.frames = Vec::new();
            self.segments = Vec::new();
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The number of messages in the batch.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// The messages from this index on.
    pub fn from(&self, place: usize) -> &[Message] {
        self.frames.get(place..).unwrap_or_default()
    }

    /// True if the batch has no messages.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// True if TLS has taken the whole batch.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken == self.bytes
    }

    /// The bytes that TLS has not taken yet.
    pub(crate) fn rest(&self) -> SmallVec<[IoSlice<'_>; 2 * BATCH_FRAMES + 1]> {
        let mut skip = self.taken;
        let mut slices = SmallVec::new();
        for segment in &self.segments {
            let bytes = match segment {
                Segment::Arena(range) => self.arena.get(range.clone()).unwrap_or_default(),
                Segment::Body(at) => self.frames.get(*at).map_or(&[][..], |frame| &frame.body),
            };
            if skip >= bytes.len() {
                skip -= bytes.len();
                continue;
            }
            slices.push(IoSlice::new(bytes.get(skip..).unwrap_or_default()));
            skip = 0;
        }
        slices
    }

    /// Notes that TLS has taken this many more bytes.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Takes out the messages, to give them back.
    pub(crate) fn take_frames(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.frames)
    }
}
