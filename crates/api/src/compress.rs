//! Compression of answers that are large enough, beside the tasks that serve connections.
//!
//! Large bodies are compressed on the threads for blocking work, on as many of them as there are
//! cores. While all of these are busy an answer goes out uncompressed: a flood then costs
//! bandwidth, and does not delay other clients.

use std::io::{Cursor, Read};
use std::num::NonZero;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::Response;
use hyper::body::Body as _;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use weft_contract::operation::SPEC_BODY;
use weft_contract::{Operation, Response as Gives};

use crate::answer::Answer;
use crate::encoder::{CHUNK, Encoder, Stream};
use crate::encodings::{Encoding, Encodings};
use crate::kept::{Held, Kept, Key, Room};

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

/// How an answer is to be compressed, if it is not like most others: what is read from the network
/// for one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Not at all.
    Never,
    /// Once: it is always the same for its name.
    Kept(String),
}

/// Answers that hold what somebody could log in with, or do something in the name of another one.
/// The length of a compressed answer says something of what is in it to whoever sees it pass by
/// and has a say in it. Nobody has here (no cookies, and browsers send no session by themselves);
/// these are short and gain little.
const SECRETS: &[&str] = &[
    "apiSessionDetail",
    "currentApiSessionDetail",
    "detailMfa",
    "detailMfaRecoveryCodes",
    "enrollmentDetail",
    "sessionCreated",
    "sessionDetail",
    "sessionManagementDetail",
    "totpToken",
];

impl Manner {
    /// That of an operation's answer at a path.
    pub(crate) fn of(row: &Operation, path: &str) -> Option<Self> {
        match row.response {
            Gives::List(of) | Gives::Detail(of) if SECRETS.contains(&of) => Some(Self::Never),
            // The same for everybody, and long.
            _ if row.id == SPEC_BODY => Some(Self::Kept(path.to_owned())),
            _ => None,
        }
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

    /// An answer in the form that its client likes best.
    pub(crate) async fn answer(&self, mut answer: Answer, encodings: &Encodings) -> Answer {
        let manner = answer.extensions_mut().remove::<Manner>();
        let media = answer.headers().get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let media = media.unwrap_or_default().to_owned();
        let is_long = answer.body().size_hint().lower() >= WORTH_IT;
        if manner == Some(Manner::Never) || !is_long || !is_compressible(&media) {
            return answer;
        }
        answer.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
        let Some(encoding) = encodings.best(MADE) else { return answer };
        let (mut head, body) = answer.into_parts();
        let Ok(body) = body.collect().await.map(Collected::to_bytes);
        let made = match manner {
            Some(Manner::Kept(name)) => {
                let source = Cursor::new(body.clone());
                self.kept(Key { name, version: media, encoding }, source).await
            }
            _ => self.once(&body, encoding).await,
        };
        if made.is_some() {
            let name = HeaderValue::from_static(encoding.name());
            head.headers.insert(CONTENT_ENCODING, name);
        }
        Response::from_parts(head, Full::new(made.unwrap_or(body)))
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
        Some(Stream::new(source, encoding, slot))
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
fn squeezed(mut source: impl Read, encoding: Encoding, mut room: Room) -> Option<Arc<Held>> {
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

#[cfg(test)]
mod tests {
    use weft_contract::resource::operations;

    use super::*;
    use crate::routes::REST;

    #[test]
    fn what_is_compressed_already_is_left_alone() {
        for media in [
            "application/json",
            "text/html; charset=utf-8",
            "image/svg+xml",
            "application/manifest+json",
            "text/yaml",
        ] {
            assert!(is_compressible(media), "{media}");
        }
        for media in ["image/png", "font/woff2", "application/gzip", "application/pkcs7-mime", ""] {
            assert!(!is_compressible(media), "{media}");
        }
    }

    #[test]
    fn secrets_are_what_operations_answer() {
        let answered =
            |of: &&str| {
                let mut rows = REST.into_iter().flat_map(operations);
                rows.any(|row| Manner::of(row, "").is_some_and(|manner| manner == Manner::Never)
                && matches!(row.response, Gives::List(own) | Gives::Detail(own) if own == *of))
            };
        assert_eq!(SECRETS.iter().find(|of| !answered(of)), None);
    }

    #[tokio::test]
    async fn when_all_are_busy_long_answers_go_out_as_they_are() {
        let compressor = Compressor::new();
        let (short, long) = (vec![b'a'; AT_ONCE].into(), vec![b'a'; AT_ONCE + 1].into());
        let cores = compressor.slots.available_permits() as u32;
        let busy = Arc::clone(&compressor.slots).try_acquire_many_owned(cores).unwrap();
        assert!(compressor.once(&short, Encoding::Gzip).await.is_some());
        assert!(compressor.once(&long, Encoding::Gzip).await.is_none());
        drop(busy);
        assert!(compressor.once(&long, Encoding::Gzip).await.is_some());
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..5000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        assert!(compressor.once(&noise.into(), Encoding::Deflate).await.is_none(), "not smaller");
    }

    #[test]
    fn so_many_streams_are_compressed_at_once() {
        let compressor = Compressor::new();
        let begin = || compressor.stream(&b"text"[..], Encoding::Gzip);
        let mut streams: Vec<_> = (0..STREAMS).map(|_| begin().unwrap()).collect();
        assert!(begin().is_none());
        let last = streams.pop().map(|mut stream| (stream.next().unwrap(), stream.next().unwrap()));
        assert!(matches!(last, Some((Some(_), None))));
        assert!(begin().is_some());
    }
}
