//! Compresses large answers, away from the tasks that serve connections.
//!
//! Large bodies are compressed on threads for blocking work, as many as there are cores. While all
//! of these are busy an answer goes out uncompressed: a flood then costs bandwidth, and does not
//! delay other clients.

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

use crate::answer::BufferedResponse;
use crate::encoder::{CHUNK, Encoder, Stream};
use crate::encodings::{Encoding, Encodings};
use crate::kept::{Held, Kept, Key, Room};

/// The encodings in which answers are compressed here.
pub(crate) const MADE: &[Encoding] = &[Encoding::Gzip, Encoding::Deflate];
/// Bodies below this size, in bytes, are not compressed: with their headers they fit one packet in
/// any case.
pub(crate) const WORTH_IT: u64 = 1024;
/// Bodies up to this size, in bytes, are compressed on the task of the connection; that takes less
/// than a millisecond.
const AT_ONCE: usize = 32 * 1024;
/// Most bytes of compressed forms that are kept or being sent.
const KEPT: u64 = 32 * 1024 * 1024;
/// Most streams that are compressed while they are sent; each takes some 300 KiB of memory.
const STREAMS: usize = 16;

/// Whether bodies of this media type get smaller by compression; images, fonts and archives are
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

/// The manner of compressing an answer. An answer without a manner is compressed for its caller alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The answer is not compressed.
    Never,
    /// The answer is compressed once and kept under this name, because its body never changes.
    Kept(String),
}

/// Operations whose answers contain secrets (something to log in with, or to act as somebody else),
/// and are not compressed. The length of a compressed answer reveals something about its contents
/// to an attacker who sees the length and controls a part of the answer. Here attackers control no
/// part (there are no cookies, and browsers do not send sessions by themselves); these answers are
/// short and would gain little.
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
    /// The manner for an operation's answer; `ids` are the ids of the request path, unescaped: one
    /// description has one name, however its path was escaped.
    pub(crate) fn of(row: &Operation, ids: &[String]) -> Option<Self> {
        match row.response {
            Gives::List(of) | Gives::Detail(of) if SECRETS.contains(&of) => Some(Self::Never),
            // Descriptions are the same for all callers, and long.
            _ if row.id == SPEC_BODY => Some(Self::Kept(format!("{SPEC_BODY} {}", ids.join("/")))),
            _ => None,
        }
    }
}

/// Compresses answers of all connections. Clones share their limits.
#[derive(Debug, Clone)]
pub(crate) struct Compressor {
    /// Permits for the threads that compress.
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

    /// Compresses an answer in the encoding that its client prefers.
    pub(crate) async fn answer(
        &self,
        mut answer: BufferedResponse,
        encodings: &Encodings,
    ) -> BufferedResponse {
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

    /// Compresses a body for one answer; none if it does not get smaller, or if all threads are
    /// busy.
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

    /// Compresses a body that is requested repeatedly, once for all clients; none if there is no
    /// room for it or its source fails.
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

    /// Compresses a stream while it is sent; none if too many streams are compressed already.
    pub(crate) fn stream<R: Read>(&self, source: R, encoding: Encoding) -> Option<Stream<R>> {
        let slot = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        Some(Stream::new(source, encoding, slot))
    }
}

/// Compresses a body quickly; none if it does not get smaller.
fn compressed(body: &[u8], encoding: Encoding) -> Option<Bytes> {
    let mut encoder = Encoder::new(encoding, Compression::fast());
    encoder.write_all(body).ok()?;
    let out = encoder.finish().ok()?;
    (out.len() < body.len()).then(|| Bytes::from(out))
}

/// Compresses a source well, while there is room for the result.
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
    use weft_contract::Api;
    use weft_contract::resource::operations;

    use super::*;
    use crate::routes::{REST, Routes};

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
                rows.any(|row| Manner::of(row, &[]).is_some_and(|manner| manner == Manner::Never)
                && matches!(row.response, Gives::List(own) | Gives::Detail(own) if own == *of))
            };
        assert_eq!(SECRETS.iter().find(|of| !answered(of)), None);
    }

    #[test]
    fn a_description_is_kept_once_however_its_path_is_escaped() {
        let routes = Routes::new();
        let manner = |path: &str| {
            let found = routes.find(Api::Management, &hyper::Method::GET, path).unwrap();
            Manner::of(found.row, &found.ids)
        };
        let plain = manner("/specs/edge-client/spec");
        assert!(matches!(plain, Some(Manner::Kept(_))));
        for path in ["/specs/%65dge-client/spec", "/specs/e%64ge%2Dclient/spec"] {
            assert_eq!(manner(path), plain, "{path}");
        }
        assert_ne!(manner("/specs/fabric/spec"), plain);
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
