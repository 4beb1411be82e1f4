//! What one connection writes next: messages become frames, gathered without copying their bodies.

use crate::heartbeat::now_ns;
use crate::shared::Shared;
use smallvec::SmallVec;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use weft_wire::{Message, frame};

/// Bytes after which a batch is full. One message may exceed it.
pub const BATCH_BYTES: usize = 64 * 1024;
/// Messages after which a batch is full.
pub const BATCH_FRAMES: usize = 64;

/// Bodies up to this length are copied next to their heads: cheaper than a slice of their own.
const INLINE_BODY: usize = 256;

/// Gives one connection messages when it has room for them.
///
/// The connection asks on its own task whenever it can write; an outbox that got something after
/// it had nothing wakes the connection through its [`UnderlayWaker`](crate::UnderlayWaker).
pub trait Outbox: Send {
    /// Takes note of what is ready. Every outbox is asked before the first one fills a batch: what
    /// becomes ready later must wait for the next batch. Otherwise it could overtake a message that
    /// was queued before it on one of the channel's lanes, which had been emptied already. It is
    /// flows that are ordered so, not messages: a flow that was noticed may hand out what became
    /// ready in it since. What must follow a message on a lane therefore belongs to a flow that is
    /// listed only after that message was queued.
    fn notice(&mut self) {}

    /// Puts messages into `batch` until it is full or there are none.
    fn fill(&mut self, batch: &mut Batch);

    /// Everything taken by the last [`fill`](Self::fill) has been handed to the socket.
    fn flushed(&mut self) {}

    /// The connection ended before these messages, in order, were known to be written whole. They
    /// carry the sequences they were given. Peers may have seen some of them.
    fn give_back(&mut self, unsent: Vec<Message>) {
        let _ = unsent;
    }
}

/// A bounded run of frames under way to the socket.
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
    /// The body of a frame, by its place.
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

    /// Bytes that may be put in before the batch is full. A message longer than this may still be
    /// put in while the batch is not full.
    pub fn room(&self) -> usize {
        if self.frames.len() >= BATCH_FRAMES { 0 } else { BATCH_BYTES.saturating_sub(self.bytes) }
    }

    /// True if nothing more should be put in.
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Puts a message in: gives it its sequence and, when due, heartbeat headers. Returns the
    /// sequence. Nothing of it reaches the peer before the outbox has returned from filling.
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

    /// Empties the batch for the next filling.
    pub(crate) fn reset(&mut self) {
        self.arena.clear();
        self.frames.clear();
        self.segments.clear();
        self.bytes = 0;
        self.taken = 0;
        self.now_ns = now_ns();
    }

    /// Gives its memory back while it is empty.
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

    /// How many messages are in it.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// The messages from this place on.
    pub fn from(&self, place: usize) -> &[Message] {
        self.frames.get(place..).unwrap_or_default()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// True if TLS has taken all of it.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken == self.bytes
    }

    /// What TLS has not taken yet.
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

    /// TLS has taken this many more bytes.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// The messages in it, for giving them back.
    pub(crate) fn take_frames(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.frames)
    }
}
