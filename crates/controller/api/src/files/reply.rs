//! Makes the answer for a file: its encoding, and its headers.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::http::request::Parts;
use weft_controller::Failure;

use super::Files;
use super::body::Source;
use super::conditions::{NoSuchPart, Validators, Verdict};
use super::disk::{Found, Opened};
use super::policy::{self, is_page};
use crate::answer::Refused;
use crate::compress::{Compressor, MADE, WORTH_IT, is_compressible};
use crate::encodings::{Encoding, Encodings};
use crate::kept::Key;

/// Files above this size, in bytes, are compressed while they are sent, and their compressed form
/// is not kept.
const MOST_KEPT: u64 = 16 * 1024 * 1024;
/// How long a client waits for the compressed form of its file, before it gets the file itself.
const PATIENCE: Duration = Duration::from_secs(3);

/// File names do not contain versions, so that browsers have to check each time whether their copy
/// is current. Only pages of the same origin may show the application in a frame.
const ALWAYS: [(HeaderName, HeaderValue); 5] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    (VARY, HeaderValue::from_static("accept-encoding")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN")),
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
];

/// An answer, before it takes places among requests and files.
pub(super) struct Prepared {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) contents: Contents,
}

/// The contents of the body.
pub(super) enum Contents {
    None,
    Bytes(Bytes),
    Stream(Source),
}

/// The form in which a file is sent.
enum Form {
    Plain,
    /// A compressed file beside the file.
    Beside(Encoding, Opened),
    Made(Encoding),
}

impl Form {
    /// Chooses the form that the client prefers.
    fn choose(found: &mut Found, media: &HeaderValue, encodings: &Encodings) -> Self {
        let is_smaller = media.to_str().is_ok_and(is_compressible);
        let is_worth_it = found.plain.length >= WORTH_IT && is_smaller;
        let made = if is_worth_it { MADE } else { &[] };
        let beside = found.siblings.iter().map(|(encoding, _)| *encoding);
        let offered: Vec<_> = beside.chain(made.iter().copied()).collect();
        let Some(encoding) = encodings.best(&offered) else { return Self::Plain };
        match found.siblings.iter().position(|(own, _)| *own == encoding) {
            Some(at) => Self::Beside(encoding, found.siblings.swap_remove(at).1),
            None => Self::Made(encoding),
        }
    }

    fn encoding(&self) -> Option<Encoding> {
        match self {
            Self::Plain => None,
            Self::Beside(encoding, _) | Self::Made(encoding) => Some(*encoding),
        }
    }

    /// The entity tag of this form. `mark` is that of the policy.
    fn tag(&self, plain: &Opened, mark: &str) -> String {
        let version = match self {
            Self::Beside(_, beside) => &beside.version,
            Self::Plain | Self::Made(_) => &plain.version,
        };
        match self.encoding() {
            Some(encoding) => format!("\"{version}{mark}-{}\"", encoding.name()),
            None => format!("\"{version}{mark}\""),
        }
    }
}

/// Chooses the form, judges the conditions of the request, and prepares the answer.
pub(super) async fn prepare(
    (mut found, policy): (Found, HeaderValue),
    files: &Files,
    encodings: &Encodings,
    compressor: &Compressor,
    head: &Parts,
) -> Result<Prepared, Refused> {
    let media = media_type(&found.place);
    let form = Form::choose(&mut found, &media, encodings);
    let mark = if is_page(&found.place) { policy::mark(&policy) } else { String::new() };
    let (tag, modified) = (form.tag(&found.plain, &mark), found.plain.last_modified());
    let validators = Validators { tag, modified };
    let whole = found.plain.length;
    match validators.judge(&head.headers) {
        Verdict::Send => {}
        Verdict::Unchanged => {
            let (status, headers) = (StatusCode::NOT_MODIFIED, common(&validators, policy));
            return Ok(Prepared { status, headers, contents: Contents::None });
        }
        Verdict::Failed => {
            let failure = Failure::field("If-Match", "it is another version", validators.tag);
            return Err(failure.with_status(412).into());
        }
    }
    let part = validators.part(&head.headers, whole).map_err(|NoSuchPart| no_such_part(whole))?;
    let name = files.location.join(&found.place).to_string_lossy().into_owned();
    let sent = send(form, found.plain, part.as_ref(), (compressor, name), &mark).await;
    let Sent { contents, length, encoding, tag } = sent.map_err(|error| {
        files.complain(head.uri.path(), &error);
        Failure::unhandled("the file cannot be read; the controller's log says more")
    })?;
    // The form that could be made may differ from the chosen one.
    let mut headers = common(&Validators { tag, ..validators }, policy);
    headers.insert(CONTENT_TYPE, media);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    }
    let Some(part) = part else {
        return Ok(Prepared { status: StatusCode::OK, headers, contents });
    };
    headers.insert(CONTENT_RANGE, range(&format!("{}-{}", part.start(), part.end()), whole));
    Ok(Prepared { status: StatusCode::PARTIAL_CONTENT, headers, contents })
}

/// The chosen body with its description.
struct Sent {
    contents: Contents,
    /// The length; none while the file is being compressed.
    length: Option<u64>,
    encoding: Option<Encoding>,
    tag: String,
}

/// Opens the chosen form of a file. If the compressed form cannot be made in time, the file itself is
/// opened.
async fn send(
    form: Form,
    mut plain: Opened,
    part: Option<&RangeInclusive<u64>>,
    (compressor, name): (&Compressor, String),
    mark: &str,
) -> io::Result<Sent> {
    let (encoding, tag) = (form.encoding(), form.tag(&plain, mark));
    let made = |contents, length| Sent { contents, length, encoding, tag };
    match form {
        Form::Plain => {}
        Form::Beside(_, beside) => {
            let length = beside.length;
            let source = Source::Plain(beside.file.take(length));
            return Ok(made(Contents::Stream(source), Some(length)));
        }
        Form::Made(encoding) if plain.length <= MOST_KEPT => {
            let version = plain.version.clone();
            let source = Steady { file: plain.file.try_clone()?, version: version.clone() };
            let key = Key { name, version, encoding };
            // The compression goes on after this time; later requests use its result.
            let kept = tokio::time::timeout(PATIENCE, compressor.kept(key, source)).await;
            if let Some(bytes) = kept.ok().flatten() {
                let length = bytes.len() as u64;
                return Ok(made(Contents::Bytes(bytes), Some(length)));
            }
        }
        Form::Made(encoding) => {
            let source = plain.file.try_clone()?.take(plain.length);
            if let Some(stream) = compressor.stream(source, encoding) {
                let source = Source::Compressed(Box::new(stream), plain.length);
                return Ok(made(Contents::Stream(source), None));
            }
        }
    }
    let (first, length) = match part {
        Some(part) => (*part.start(), part.end() - part.start() + 1),
        None => (0, plain.length),
    };
    plain.file.seek(SeekFrom::Start(first))?;
    let tag = Form::Plain.tag(&plain, mark);
    let contents = Contents::Stream(Source::Plain(plain.file.take(length)));
    Ok(Sent { contents, length: Some(length), encoding: None, tag })
}

/// A file that must not change while it is read, because its compressed form is kept.
struct Steady {
    file: File,
    version: String,
}

impl Read for Steady {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(out)?;
        if count == 0 && !Opened::is_unchanged(&self.file, &self.version) {
            return Err(io::Error::other("the file has changed"));
        }
        Ok(count)
    }
}

/// The headers of every answer for a version, 304 included.
fn common(validators: &Validators, policy: HeaderValue) -> HeaderMap {
    let mut headers: HeaderMap = ALWAYS.into_iter().collect();
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    if let Ok(tag) = HeaderValue::from_str(&validators.tag) {
        headers.insert(ETAG, tag);
    }
    let modified = validators.modified.map(httpdate::fmt_http_date);
    if let Some(Ok(modified)) = modified.as_deref().map(HeaderValue::from_str) {
        headers.insert(LAST_MODIFIED, modified);
    }
    headers
}

fn no_such_part(length: u64) -> Refused {
    let failure = Failure::field("Range", format!("the file has {length} bytes"), "");
    Refused::from(failure.with_status(416)).with(CONTENT_RANGE, range("*", length))
}

fn range(part: &str, length: u64) -> HeaderValue {
    let text = format!("bytes {part}/{length}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("bytes */*"))
}

/// The media type of a file, by its suffix.
fn media_type(place: &Path) -> HeaderValue {
    const UNKNOWN: HeaderValue = HeaderValue::from_static("application/octet-stream");
    let Some(media) = mime_guess::from_path(place).first_raw() else { return UNKNOWN };
    if media.starts_with("text/") {
        return HeaderValue::from_str(&format!("{media}; charset=utf-8")).unwrap_or(UNKNOWN);
    }
    HeaderValue::from_static(media)
}
