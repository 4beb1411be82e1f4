//! The certificate of an identity: the files that it is renewed in, and the times of renewals.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_contract::resource::session::ApiSessionDetail;
use weft_identity::{
    Certificate, Identity, IdentitySection, KeyedChain, LiveIdentity, PreparedFile, RenewableFile,
    RenewalNote, renewal_due,
};

/// Longest time before its end at which a certificate is renewed: a machine may be off for weeks.
const BEFORE_END: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest and the shortest time from one attempt to the next, also of another program with the same file: many
/// programs may fail together, and certificates may last for minutes only.
const PAUSES: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(60));
/// The time after a renewal in which a missing certificate behind the identity's own leads to no other one: a
/// controller that sends none sends none the next time.
const CHAIN_PAUSE: Duration = Duration::from_secs(7 * 24 * 3600);
/// The interval of warnings about one certificate.
const WARN: Duration = Duration::from_secs(24 * 3600);

/// The certificate of an identity, and the file that it is renewed in.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub(crate) identity: Arc<LiveIdentity>,
    /// None if the identity was not loaded from a file.
    pub(crate) file: Option<RenewableFile>,
    pub(crate) is_wanted: bool,
    pub(crate) attempts: Mutex<Attempts>,
    /// A confirmed certificate that is in use and not in its file.
    pub(crate) unsaved: Mutex<Option<PreparedFile>>,
    pub(crate) followed: Mutex<Followed>,
}

/// The files of an identity.
pub(crate) enum Files {
    /// The identity file, and those that it names.
    Document(RenewableFile),
    /// Those that an identity from memory names.
    Named(IdentitySection),
}

impl Files {
    /// The identity as it is in the files now.
    pub(crate) fn read(&self) -> weft_identity::Result<Identity> {
        match self {
            Self::Document(file) => file.read(),
            Self::Named(section) => Identity::load(section),
        }
    }
}

/// The certificates of an identity, by their fingerprints.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Material {
    pub(crate) chain: Vec<String>,
    authorities: Vec<String>,
}

impl Material {
    pub(crate) fn of(identity: &Identity) -> Self {
        let fingerprints = |certificates: &[Certificate]| {
            certificates.iter().map(|one| one.fingerprint().to_owned()).collect()
        };
        Self {
            chain: identity.client().map_or_else(Vec::new, |client| fingerprints(client.chain())),
            authorities: fingerprints(identity.ca().certificates()),
        }
    }
}

/// What the files of an identity had when they were read last.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    material: Material,
    /// Why they could not be used.
    complaint: String,
}

impl Followed {
    /// Notes what the files have now; true if they had something else before.
    pub(crate) fn note(&mut self, material: Material) -> bool {
        self.complaint.clear();
        let is_new = material != self.material;
        self.material = material;
        is_new
    }

    /// Notes why the files cannot be used; true if the reason is another one than before.
    pub(crate) fn complains(&mut self, complaint: String) -> bool {
        let is_new = complaint != self.complaint;
        self.complaint = complaint;
        is_new
    }
}

impl Renewal {
    pub(crate) fn new(
        identity: Arc<LiveIdentity>,
        file: Option<RenewableFile>,
        is_wanted: bool,
    ) -> Self {
        let note = file.as_ref().and_then(|file| match file.note() {
            Ok(note) => note,
            Err(problem) => {
                tracing::debug!(%problem, "the note of the last renewal is not read");
                None
            }
        });
        let current = identity.current();
        let attempts = match (note, current.client()) {
            (Some(note), Some(client)) => Attempts::after(&note, client.leaf(), SystemTime::now()),
            _ => Attempts::default(),
        };
        let followed = Followed { material: Material::of(&current), ..Followed::default() };
        Self {
            followed: Mutex::new(followed),
            identity,
            file,
            is_wanted,
            attempts: Mutex::new(attempts),
            unsaved: Mutex::default(),
        }
    }

    /// The files that the identity comes from.
    pub(crate) fn files(&self) -> Files {
        match &self.file {
            Some(file) => Files::Document(file.clone()),
            None => Files::Named(self.identity.section().clone()),
        }
    }

    /// Certificates that may count in place of the one in use: the one in the file, if another program has
    /// renewed it, and one that a renewal has left beside the file.
    pub(crate) fn others(&self) -> Vec<(Identity, bool)> {
        let left = self.file.as_ref().map_or(Ok(None), RenewableFile::left);
        let found = [(self.files().read().map(Some), false), (left, true)];
        let mut others: Vec<(Identity, bool)> = Vec::new();
        for (identity, is_left) in found {
            let Ok(Some(identity)) = identity else { continue };
            let current = self.identity.current();
            let is_known = |known: &Identity| is_same(known, &identity);
            if !is_known(&current) && !others.iter().any(|(known, _)| is_known(known)) {
                others.push((identity, is_left));
            }
        }
        others
    }
}

/// True if both have the same certificate.
fn is_same(one: &Identity, other: &Identity) -> bool {
    one.client().map(KeyedChain::leaf) == other.client().map(KeyedChain::leaf)
}

/// The answer of a controller about the certificate of an API session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extension {
    /// The authenticator that has the certificate.
    pub(crate) authenticator: String,
    /// What tells the API session from others.
    session: String,
    /// True if the controller issues new certificates for the authenticator.
    is_possible: bool,
    /// True if an administrator has asked for a new certificate.
    is_requested: bool,
    /// True if the new certificate shall have a new key.
    is_new_key_requested: bool,
    /// True if the login showed the certificate without those between it and the root, which other controllers
    /// need.
    lacks_chain: bool,
}

impl Extension {
    pub(crate) fn of(session: &ApiSessionDetail, key: String) -> Self {
        Self {
            authenticator: session.authenticator_id.clone(),
            session: key,
            is_possible: session.is_cert_extendable,
            is_requested: session.is_cert_extend_requested,
            is_new_key_requested: session.is_cert_key_roll_requested,
            lacks_chain: session.improper_client_cert_chain,
        }
    }
}

/// A renewal that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due {
    /// The authenticator that has the certificate.
    pub(crate) authenticator: String,
    /// True if an administrator has asked for a new key.
    pub(crate) wants_new_key: bool,
    /// True if the certificate ends soon.
    pub(crate) ends_soon: bool,
    /// True if an administrator has asked for a new certificate.
    pub(crate) is_requested: bool,
    /// True if the certificates between the identity's own and the root are missing.
    pub(crate) lacks_chain: bool,
}

/// The attempts to renew.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// The next attempt is not before this time.
    next: Option<Instant>,
    /// The API session in which the last renewal succeeded. Some controllers show the request of an
    /// administrator until the next login, and what the login showed.
    done_in: Option<String>,
    /// A missing certificate behind the identity's own leads to no renewal before this time.
    chain_after: Option<Instant>,
    /// The time of the last warning.
    warned: Option<Instant>,
}

impl Attempts {
    /// The attempts of a program that finds this note of an earlier one beside its identity file, and this
    /// certificate in the file.
    fn after(note: &RenewalNote, leaf: &Certificate, now: SystemTime) -> Self {
        let age = note.age(now);
        let rest = |pause: Duration| Some(Instant::now() + pause.checked_sub(age?)?);
        let left = leaf.not_after().duration_since(now).unwrap_or_default();
        match note.made(leaf.fingerprint()) {
            // An administrator may ask again at any time.
            true => Self { chain_after: rest(CHAIN_PAUSE), ..Self::default() },
            false => Self { next: rest(pause(left)), ..Self::default() },
        }
    }

    /// The renewal that is due now, if one is.
    pub(crate) fn due(
        &self,
        extension: &Extension,
        leaf: &Certificate,
        now: SystemTime,
    ) -> Option<Due> {
        if !extension.is_possible || self.next.is_some_and(|next| Instant::now() < next) {
            return None;
        }
        let due = renewal_due(leaf.not_before(), leaf.not_after(), BEFORE_END);
        let ends_soon = due.is_some_and(|due| due <= now);
        let is_new = self.done_in.as_ref() != Some(&extension.session);
        let wants_new_key = is_new && extension.is_new_key_requested;
        let is_requested = wants_new_key || (is_new && extension.is_requested);
        let is_fresh = self.chain_after.is_some_and(|after| Instant::now() < after);
        let lacks_chain = is_new && extension.lacks_chain && !is_fresh;
        (ends_soon || is_requested || lacks_chain).then(|| Due {
            authenticator: extension.authenticator.clone(),
            wants_new_key,
            ends_soon,
            is_requested,
            lacks_chain,
        })
    }

    /// Notes an attempt, after which the certificate has this much time left. `spread` is about 1.
    pub(crate) fn tried(&mut self, left: Duration, spread: f64) {
        self.next = Some(Instant::now() + pause(left).mul_f64(spread));
    }

    /// Notes a renewal in the API session of this answer.
    pub(crate) fn succeeded(&mut self, extension: &Extension) {
        self.done_in = Some(extension.session.clone());
        self.chain_after = Some(Instant::now() + CHAIN_PAUSE);
        self.warned = None;
    }

    /// True if a warning is due: the first one, and then one a day.
    pub(crate) fn warns(&mut self) -> bool {
        let is_due = self.warned.is_none_or(|warned| warned.elapsed() >= WARN);
        if is_due {
            self.warned = Some(Instant::now());
        }
        is_due
    }
}

/// The time from one attempt to the next for a certificate with this much time left.
fn pause(left: Duration) -> Duration {
    let (longest, shortest) = PAUSES;
    (left / 4).clamp(shortest, longest)
}

#[cfg(test)]
mod tests {
    use weft_identity::{
        Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName,
    };

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn certificate(begin: SystemTime, days: u32) -> Certificate {
        let authority = Authority::make_root(&AuthoritySpec::new("root"), begin).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name("me");
        let leaf =
            Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Client, begin).unwrap();
        let leaf = Leaf { not_before: begin, not_after: begin + DAY * days, ..leaf };
        authority.issue(&leaf).unwrap()
    }

    fn extension() -> Extension {
        let authenticator = "a".to_owned();
        Extension { authenticator, is_possible: true, ..Extension::default() }
    }

    #[test]
    fn a_certificate_is_renewed_in_its_last_month_or_third_if_the_controller_can() {
        let begin = SystemTime::UNIX_EPOCH + DAY * 20_000;
        let (year, week) = (certificate(begin, 365), certificate(begin, 6));
        let due = |leaf, day| Attempts::default().due(&extension(), leaf, begin + DAY * day);
        assert_eq!((due(&year, 334), due(&week, 3)), (None, None));
        assert!(due(&year, 336).unwrap().ends_soon && due(&week, 5).unwrap().ends_soon);
        assert!(due(&year, 400).is_some(), "some policies let it in after its end");
        let foreign = Extension { is_possible: false, is_requested: true, ..extension() };
        assert_eq!(Attempts::default().due(&foreign, &year, begin + DAY * 360), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_chain_leads_to_one_renewal_a_week() {
        let begin = SystemTime::UNIX_EPOCH + DAY * 20_000;
        let leaf = certificate(begin, 365);
        let mut short = Extension { lacks_chain: true, session: "s1".to_owned(), ..extension() };
        let mut attempts = Attempts::default();
        let due = attempts.due(&short, &leaf, begin).unwrap();
        assert!(!due.wants_new_key && !due.ends_soon);
        attempts.tried(DAY * 300, 1.0);
        tokio::time::advance(PAUSES.0 / 2).await;
        assert_eq!(attempts.due(&short, &leaf, begin), None, "the attempt failed just now");
        tokio::time::advance(PAUSES.0).await;
        assert!(attempts.due(&short, &leaf, begin).is_some());
        attempts.tried(DAY * 300, 1.0);
        attempts.succeeded(&short);
        short.session = "s2".to_owned();
        tokio::time::advance(CHAIN_PAUSE / 2).await;
        assert_eq!(attempts.due(&short, &leaf, begin), None, "the new one came without, too");
        tokio::time::advance(CHAIN_PAUSE).await;
        assert!(attempts.due(&short, &leaf, begin).is_some());
        let whole = Extension { lacks_chain: false, ..short };
        assert_eq!(attempts.due(&whole, &leaf, begin), None);
    }

    #[tokio::test(start_paused = true)]
    async fn another_program_goes_on_from_the_note_of_the_last_one() {
        let begin = SystemTime::UNIX_EPOCH + DAY * 20_000;
        let leaf = certificate(begin, 365);
        let short = Extension { lacks_chain: true, ..extension() };
        let due = |note: &RenewalNote, extension: &Extension, at: SystemTime| {
            Attempts::after(note, &leaf, at).due(extension, &leaf, at)
        };
        let failed = RenewalNote::at(begin);
        let made = failed.clone().succeeded(leaf.fingerprint());
        let (minute, week) = (Duration::from_secs(60), DAY * 7);
        for note in [&failed, &made] {
            assert_eq!(due(note, &short, begin + minute * 59), None);
        }
        assert!(due(&failed, &short, begin + minute * 61).unwrap().lacks_chain);
        assert_eq!(due(&made, &short, begin + week - minute), None);
        assert!(due(&made, &short, begin + week + minute).is_some());
        assert!(due(&failed.clone().succeeded("another"), &short, begin + DAY).is_some());
        // A request waits after a failure only, and the end of the certificate no longer than after one.
        let asked = Extension { is_requested: true, ..short.clone() };
        assert!(due(&made, &asked, begin + minute).unwrap().is_requested);
        assert_eq!(due(&failed, &asked, begin + minute), None);
        assert!(due(&failed, &asked, begin + minute * 61).unwrap().is_requested);
        assert!(due(&RenewalNote::at(begin + DAY * 340), &short, begin + DAY * 341).is_some());
        // A clock that was set back delays nothing.
        assert!(due(&RenewalNote::at(begin + DAY), &short, begin).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_followed_once_in_a_session_and_attempts_have_pauses() {
        let begin = SystemTime::UNIX_EPOCH + DAY * 20_000;
        let leaf = certificate(begin, 365);
        let mut asked = Extension { is_requested: true, session: "s1".to_owned(), ..extension() };
        let mut attempts = Attempts::default();
        let due = attempts.due(&asked, &leaf, begin).unwrap();
        assert!(!due.wants_new_key && !due.ends_soon);
        attempts.tried(DAY * 300, 1.0);
        assert_eq!(attempts.due(&asked, &leaf, begin), None);
        tokio::time::advance(PAUSES.0).await;
        assert!(attempts.due(&asked, &leaf, begin).is_some(), "the attempt failed");
        attempts.succeeded(&asked);
        assert_eq!(attempts.due(&asked, &leaf, begin), None);
        asked.session = "s2".to_owned();
        asked.is_new_key_requested = true;
        assert!(attempts.due(&asked, &leaf, begin).unwrap().wants_new_key);
        attempts.tried(Duration::from_secs(600), 1.0);
        tokio::time::advance(Duration::from_secs(150)).await;
        assert!(attempts.due(&asked, &leaf, begin).is_some(), "a short certificate cannot wait");
        assert!(attempts.warns() && !attempts.warns());
        tokio::time::advance(WARN).await;
        assert!(attempts.warns());
    }
}
