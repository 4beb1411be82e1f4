//! Compressing: what is worth it, and how it is done beside the tasks that serve connections.
//!
//! Work on large bodies goes to the threads for blocking work, on as many of them as there are
//! cores. When all of these are busy an answer goes out as it is: a flood costs bandwidth then, and
//! not everybody's time.

use std::io::{self, Read, Write};
use std::num::NonZero;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::encodings::Encoding;
use crate::kept::{Kept, Key, Room};

/// The encodings that are made here.
pub(crate) const MADE: &[Encoding] = &[Encoding::Gzip, Encoding::Deflate];
/// Smaller bodies are sent as they are: with their headers they fit into one packet anyway.
pub(crate) const WORTH_IT: u64 = 1024;
/// Bodies up to here are compressed where they are; it takes less than a millisecond.
const AT_ONCE: usize = 32 * 1024;
/// Bytes that compressed forms may take up while they are kept or sent.
const KEPT: u64 = 32 * 1024 * 1024;
/// Streams that are compressed while they are sent; each takes some 300 KiB.
const STREAMS: usize = 16;
/// Bytes read at once.
pub(crate) const CHUNK: usize = 64 * 1024;

/// Whether compressing makes bodies of this media type smaller: images, fonts and archives are
/// compressed already.
pub(crate) fn is_compressible(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim();
    let (kind, form) = media.split_once('/').unwrap_or_default();
    match kind {
        "text" => true,
        "application" => {
            let forms = ["json", "javascript", "xml", "yaml", "wasm", "vnd.ms-fontobject"];
            forms.contains(&form) || form.ends_with("+json") || form.ends_with("+xml")
        }
        "image" => matches!(form, "svg+xml" | "bmp" | "x-icon" | "vnd.microsoft.icon"),
        "font" => matches!(form, "ttf" | "otf"),
        _ => false,
    }
}

/// Compresses for all connections.
#[derive(Debug)]
pub(crate) struct Compressor {
    /// Threads that may be at it.
    slots: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    kept: Arc<Kept>,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            slots: Arc::new(Semaphore::new(cores)),
            streams: Arc::new(Semaphore::new(STREAMS)),
            kept: Kept::new(KEPT),
        }
    }

    /// The compressed form of a body that is there once; none if it is not smaller, or if all
    /// threads are busy.
    pub(crate) async fn once(&self, body: &Bytes, encoding: Encoding) -> Option<Bytes> {
        if body.len() <= AT_ONCE {
            return compressed(body, encoding);
        }
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let body = body.clone();
        let work = move || {
            let _slot = slot;
            compressed(&body, encoding)
        };
        spawn_blocking(work).await.ok()?
    }

    /// The compressed form of what is asked for again and again, made once for all who ask; none
    /// if there is no room for it or its source fails.
    pub(crate) async fn kept(&self, key: Key, source: impl Read + Send + 'static) -> Option<Bytes> {
        let (slots, encoding) = (Arc::clone(&self.slots), key.encoding);
        let make = |room: Room| async move {
            let slot = slots.acquire_owned().await.ok()?;
            let work = move || {
                let _slot = slot;
                squeezed(source, encoding, room)
            };
            spawn_blocking(work).await.ok()?
        };
        self.kept.get(key, make).await
    }

    /// Compresses a stream while it is sent; none if too many are already.
    pub(crate) fn stream<R: Read>(&self, source: R, encoding: Encoding) -> Option<Stream<R>> {
        let slot = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        let encoder = Encoder::new(encoding, Compression::fast());
        Some(Stream { source, encoder: Some(encoder), _slot: slot })
    }
}

/// A body, compressed fast; none if it is not smaller then.
fn compressed(body: &[u8], encoding: Encoding) -> Option<Bytes> {
    let mut encoder = Encoder::new(encoding, Compression::fast());
    encoder.write_all(body).ok()?;
    let out = encoder.finish().ok()?;
    (out.len() < body.len()).then(|| Bytes::from(out))
}

/// A source, compressed well, as far as there is room for it.
fn squeezed(mut source: impl Read, encoding: Encoding, mut room: Room) -> Option<Bytes> {
    let mut encoder = Encoder::new(encoding, Compression::default());
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = source.read(&mut chunk).ok()?;
        if count == 0 {
            break;
        }
        encoder.write_all(&chunk[..count]).ok()?;
        if !room.holds(encoder.out().capacity()) {
            return None;
        }
    }
    let mut out = encoder.finish().ok()?;
    out.shrink_to_fit();
    room.fill(out)
}

/// A stream and its compressed form, piece by piece.
#[derive(Debug)]
pub(crate) struct Stream<R> {
    source: R,
    /// None at the end.
    encoder: Option<Encoder>,
    _slot: OwnedSemaphorePermit,
}

impl<R: Read> Stream<R> {
    /// The next piece; none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        let Some(mut encoder) = self.encoder.take() else { return Ok(None) };
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = self.source.read(&mut chunk)?;
            if count == 0 {
                return encoder.finish().map(|out| Some(Bytes::from(out)));
            }
            encoder.write_all(&chunk[..count])?;
            if encoder.out().len() >= CHUNK {
                let piece = std::mem::take(encoder.out());
                self.encoder = Some(encoder);
                return Ok(Some(Bytes::from(piece)));
            }
        }
    }
}

#[derive(Debug)]
enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
}

impl Encoder {
    /// Brotli is not made here ([`MADE`]).
    fn new(encoding: Encoding, level: Compression) -> Self {
        match encoding {
            Encoding::Gzip | Encoding::Brotli => Self::Gzip(GzEncoder::new(Vec::new(), level)),
            Encoding::Deflate => Self::Deflate(ZlibEncoder::new(Vec::new(), level)),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Deflate(encoder) => encoder.write_all(bytes),
        }
    }

    /// What has come out so far.
    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Deflate(encoder) => encoder.get_mut(),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Deflate(encoder) => encoder.finish(),
        }
    }
}
