//! The form of the keys of tokens in the notes of the store. Private halves are sealed, so that a copy of the database alone
//! signs nothing.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weft_identity::{Certificate, PrivateKey, PublicKey, SealKey};
use weft_model::{Timeline, Timestamp};

use super::Public;
use super::stages::Stage;

/// The word of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Word {
    Ahead,
    Signing,
    Former,
    Gone,
    Stolen,
}

/// A key in the form of the notes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    stage: Word,
    /// The time since which the key is in the stage, in milliseconds since 1970.
    since: i64,
    timeline: String,
    /// The certificate or the public key in DER, base64; empty for a key that is gone.
    public: String,
    is_certificate: bool,
    /// The sealed private half, base64; empty if the stage needs none.
    secret: String,
}

/// A key to be noted.
pub(super) struct Note<'a> {
    pub(super) stage: Stage,
    pub(super) public: Option<&'a Public>,
    pub(super) secret: Option<&'a PrivateKey>,
    pub(super) timeline: &'a Timeline,
}

impl Note<'_> {
    /// The note, with the private half sealed.
    pub(super) fn write(&self, kid: &str, seal: &SealKey) -> weft_identity::Result<Bytes> {
        let secret = match self.secret {
            Some(secret) => {
                BASE64_STANDARD.encode(seal.seal(&subject(kid), secret.to_pem().as_bytes())?)
            }
            None => String::new(),
        };
        let form = Form {
            stage: match self.stage {
                Stage::Ahead { .. } => Word::Ahead,
                Stage::Signing { .. } => Word::Signing,
                Stage::Former { .. } => Word::Former,
                Stage::Gone { stolen: false, .. } => Word::Gone,
                Stage::Gone { stolen: true, .. } => Word::Stolen,
            },
            since: self.stage.since().0,
            timeline: self.timeline.0.to_string(),
            public: self.public.map(|it| BASE64_STANDARD.encode(it.data())).unwrap_or_default(),
            is_certificate: self.public.is_some_and(|it| it.certificate.is_some()),
            secret,
        };
        let text = serde_json::to_vec(&form).map_err(|error| weft_identity::Error::Document {
            what: "key of tokens",
            reason: error.to_string(),
        })?;
        Ok(text.into())
    }
}

/// A key that was read.
pub(super) struct Read {
    pub(super) stage: Stage,
    pub(super) public: Option<Public>,
    pub(super) secret: Option<PrivateKey>,
}

impl Read {
    /// Reads a note; none for one that no release wrote. A key of another timeline is gone: the database was restored, which
    /// ended all sessions, and the key may have been stolen since.
    pub(super) fn of(
        kid: &str,
        note: &[u8],
        (seal, timeline): (&SealKey, &Timeline),
    ) -> Option<Self> {
        let form: Form = serde_json::from_slice(note).ok()?;
        let since = Timestamp(form.since);
        let gone = |stolen| {
            Some(Self { stage: Stage::Gone { since, stolen }, public: None, secret: None })
        };
        let stage = match form.stage {
            _ if form.timeline != *timeline.0 => return gone(true),
            Word::Gone => return gone(false),
            Word::Stolen => return gone(true),
            Word::Ahead => Stage::Ahead { since },
            Word::Signing => Stage::Signing { since },
            Word::Former => Stage::Former { until: since },
        };
        let der = BASE64_STANDARD.decode(&form.public).ok()?;
        let public = match form.is_certificate {
            true => Public::of_certificate(Certificate::from_der(der).ok()?)?,
            false => Public::of(PublicKey::from_spki(&der).ok()?),
        };
        let open = || {
            let sealed = BASE64_STANDARD.decode(&form.secret).ok()?;
            let secret = PrivateKey::from_pem(&seal.open(&subject(kid), &sealed)?).ok()?;
            secret.public().is_same(&public.key).then_some(secret)
        };
        let secret = open();
        Some(Self { stage, public: Some(public), secret })
    }
}

/// What a private half is sealed for, so that it opens under its own name only.
fn subject(kid: &str) -> String {
    format!("key of tokens {kid}")
}
