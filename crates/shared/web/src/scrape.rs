//! Access to metrics: the permitted clients, the number of readers at once, and the time of a
//! reader.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::RwLock;
use weft_identity::Certificate;

use crate::connection::{Peer, Sending};
use crate::peer_quota::{PeerPermit, PeerQuota};

/// Most texts that are being sent, in all and to one address. Each is a copy in memory.
const AT_ONCE: usize = 8;
const AT_ONCE_TO_ONE: usize = 4;
/// Time for a peer to take a text, and the rate in bytes per second that extends it for long texts.
const TO_TAKE: Duration = Duration::from_secs(10);
const LEAST_RATE: u64 = 1024 * 1024;
/// Most bytes of one piece of a body. A piece that was handed to the connection is in memory until it
/// is sent.
const FRAME: usize = 16 * 1024;

/// The certificate that metrics may be read with.
#[derive(Debug)]
pub struct Scraper {
    path: PathBuf,
    certificate: RwLock<Certificate>,
}

/// Why the certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "scrapeCert {path}: {problem}; name a PEM file with the certificate of the client that reads metrics"
)]
pub struct NoScraper {
    path: String,
    problem: String,
}

impl Scraper {
    /// Reads the first certificate of a PEM file.
    ///
    /// # Errors
    /// When the file cannot be read or holds no certificate.
    pub fn load(path: &Path) -> Result<Self, NoScraper> {
        let certificate = RwLock::new(read(path)?);
        Ok(Self { path: path.to_owned(), certificate })
    }

    /// Reads the file again. If that fails the former certificate stays in use.
    pub fn reload(&self) {
        match read(&self.path) {
            Ok(new) if new.der() == self.certificate.read().der() => {}
            Ok(new) => {
                *self.certificate.write() = new;
                let path = self.path.display();
                tracing::info!(%path, "another certificate may read metrics from now on");
            }
            Err(problem) => {
                tracing::warn!(%problem, "the new certificate for metrics cannot be read; the former one stays in use")
            }
        }
    }

    /// True if `leaf` is exactly this certificate and valid at `now`.
    #[must_use]
    pub fn admits(&self, leaf: Option<&Certificate>, now: SystemTime) -> bool {
        let own = self.certificate.read();
        leaf.is_some_and(|leaf| leaf.der() == own.der() && leaf.is_valid_at(now))
    }
}

fn read(path: &Path) -> Result<Certificate, NoScraper> {
    let none = |problem: String| NoScraper { path: path.display().to_string(), problem };
    let text = std::fs::read(path).map_err(|error| none(error.to_string()))?;
    let found = Certificate::from_pem(&text).map_err(|error| none(error.to_string()))?;
    found.into_iter().next().ok_or_else(|| none("it holds no certificate".to_owned()))
}

/// Permits for peers that read metrics.
#[derive(Debug, Clone)]
pub struct Scrapes(Arc<PeerQuota>);

impl Default for Scrapes {
    fn default() -> Self {
        Self(PeerQuota::new(AT_ONCE, AT_ONCE_TO_ONE, TO_TAKE))
    }
}

impl Scrapes {
    /// A permit for a peer until its text is sent; `None` if too many peers are reading.
    #[must_use]
    pub fn begin(&self, peer: &Arc<Peer>) -> Option<Scrape> {
        let permit = self.0.take(peer.remote.ip())?;
        Some(Scrape { permit, peer: Arc::clone(peer) })
    }
}

/// A peer that reads metrics.
#[derive(Debug)]
pub struct Scrape {
    permit: PeerPermit,
    peer: Arc<Peer>,
}

impl Scrape {
    /// Begins to send a text of `bytes` bytes. The caller keeps both values until the text is sent.
    #[must_use]
    pub fn send(self, bytes: usize) -> (PeerPermit, Sending) {
        let more = Duration::from_secs(bytes as u64 / LEAST_RATE);
        (self.permit, self.peer.send(TO_TAKE + more))
    }

    /// A text as the body of an answer, which keeps the permit until it is sent.
    #[must_use]
    pub fn body(self, bytes: Bytes) -> Text {
        let kept = Some(self.send(bytes.len()));
        Text { rest: bytes, _kept: kept }
    }
}

/// The body of an answer that is in memory as a whole, sent in pieces.
#[derive(Debug)]
pub struct Text {
    rest: Bytes,
    _kept: Option<(PeerPermit, Sending)>,
}

impl From<Bytes> for Text {
    fn from(rest: Bytes) -> Self {
        Self { rest, _kept: None }
    }
}

impl Body for Text {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let count = self.rest.len().min(FRAME);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(count)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use weft_identity::{Authority, AuthoritySpec};

    use super::*;

    fn authority(name: &str) -> Certificate {
        let made = Authority::make_root(&AuthoritySpec::new(name), SystemTime::now()).unwrap();
        made.certificate().clone()
    }

    #[test]
    fn the_certificate_is_read_again_and_kept_while_its_file_is_broken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Scraper::load(file.path()).unwrap_err().to_string().starts_with("scrapeCert "));
        let (first, second) = (authority("first"), authority("second"));
        std::fs::write(file.path(), first.to_pem() + &second.to_pem()).unwrap();
        let scraper = Scraper::load(file.path()).unwrap();
        let now = SystemTime::now() + Duration::from_secs(60);
        let admitted = || [&first, &second].map(|one| scraper.admits(Some(one), now));
        assert_eq!((admitted(), scraper.admits(None, now)), ([true, false], false));
        assert!(!scraper.admits(Some(&first), now + Duration::from_secs(100 * 365 * 86_400)));
        std::fs::write(file.path(), "nothing").unwrap();
        scraper.reload();
        assert_eq!(admitted(), [true, false]);
        std::fs::write(file.path(), second.to_pem()).unwrap();
        scraper.reload();
        assert_eq!(admitted(), [false, true]);
    }

    #[tokio::test]
    async fn few_read_at_once_until_their_texts_are_sent() {
        let scrapes = Scrapes::default();
        let peer = |last: u8| Arc::new(Peer::new(([192, 0, 2, last], 1).into(), Vec::new(), None));
        let one = peer(1);
        let mut held: Vec<Text> =
            (0..AT_ONCE_TO_ONE).map(|_| scrapes.begin(&one).unwrap().body("x".into())).collect();
        assert!(scrapes.begin(&one).is_none());
        let other = peer(2);
        held.extend(
            (AT_ONCE_TO_ONE..AT_ONCE).map(|_| scrapes.begin(&other).unwrap().body("x".into())),
        );
        assert!(scrapes.begin(&peer(3)).is_none());
        held.clear();
        assert!(scrapes.begin(&one).is_some());
    }
}
