//! Renewal of the router's certificates before they expire, over the control channel
//! (docs/protocol/edge-control-plane.md 17.3).
//!
//! ```text
//! router                                  controller
//!   | EnrollmentExtendRouterRequest          |
//!   |--------------------------------------->|
//!   |                EnrollmentCertsResponse |   (not a reply)
//!   |<---------------------------------------|
//!   (writes the new certificates beside the present ones)
//!   | EnrollmentExtendRouterVerifyRequest    |
//!   |--------------------------------------->|
//!   |                     ExtendVerifyResult |
//!   |<---------------------------------------|
//!   (renames the new files)
//! ```
//!
//! The router asks for the confirmation only when the new certificates are on its disk: after the
//! confirmation a controller may refuse the former ones. The identity is loaded again in the end. The keys
//! stay the same. When the answer to the confirmation is missing, both pairs are kept: a controller that
//! refuses the router is shown the other pair, until one accepts it. When the new certificates are confirmed
//! and their files cannot be replaced, they are used from memory, and saved again every [`PAUSE`].

pub(super) mod pending;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use weft_channel::clock::time_of_day;
use weft_identity::{
    Certificate, CertificateRequest, KeyedChain, LiveIdentity, Location, renewal_due,
};
use weft_wire::ProtoBody;
use weft_wire::edge_ctrl::{
    EnrollmentCertsResponse, EnrollmentExtendRouterRequest, EnrollmentExtendRouterVerifyRequest,
    ExtendVerifyResult,
};

use self::pending::Renewal;
use super::shared::Core;
use crate::controllers::Controller;
use crate::enroll::warn_of_missing;

/// Longest time before their end at which certificates are renewed; one of a day is renewed 8 hours before.
const BEFORE_END: Duration = Duration::from_secs(7 * 24 * 3600);
/// The interval at which the time of expiry is checked: clocks jump, and files are replaced.
const LOOK: Duration = Duration::from_secs(3600);
/// The interval of warnings about certificates that are not renewed.
const WARN: Duration = Duration::from_secs(24 * 3600);
/// How long the controller may take to issue certificates.
const ISSUE_TIMEOUT: Duration = Duration::from_secs(35);
/// How long the controller may take to confirm.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);
/// Wait after each renewal, whether it succeeded or not: a controller may issue certificates that are due
/// at once.
const PAUSE: Duration = Duration::from_secs(300);

#[derive(Debug, thiserror::Error)]
enum RenewalError {
    #[error("no controller is connected")]
    NoController,
    #[error("the identity has no {0} certificate")]
    Incomplete(&'static str),
    #[error("the certificate has expired; enroll the router again")]
    TooLate,
    #[error("the controller issued no certificates in time")]
    NotIssued,
    #[error("the controller does not confirm the new certificate: {0}")]
    NotConfirmed(String),
    #[error(
        "the controller's answer about the new certificate is missing ({0}); if a controller refuses \
         the present certificate, the new one is used"
    )]
    Unsure(String),
    #[error(transparent)]
    Identity(#[from] weft_identity::Error),
}

/// Renews certificates until cancelled.
pub(crate) async fn run(core: Arc<Core>) {
    if core.renewal.names.is_none() {
        tracing::warn!(
            "certificates are not renewed: the section `edge.csr` (or `csr`) is missing"
        );
        return warn_of_the_end(&core.identity).await;
    }
    if !in_files(&core) {
        tracing::warn!(
            "certificates are not renewed: `cert`, `server_cert` and `key` of the identity have \
             to be files"
        );
        return warn_of_the_end(&core.identity).await;
    }
    let left = || time_left(&core.identity, time_of_day());
    keep_renewed(|| due(&core), || renew(&core), left).await;
}

/// Warns once a day of certificates that end soon and are not renewed. At the start the check of the file
/// warns.
async fn warn_of_the_end(identity: &LiveIdentity) {
    loop {
        tokio::time::sleep(WARN).await;
        let (current, now) = (identity.current(), time_of_day());
        if let Some(first) = current.first_to_end().filter(|first| first.ends_soon(now)) {
            let (subject, ends) = (first.subject(), first.end_in_words(now));
            tracing::warn!(subject, ends, "a certificate of this router ends soon: renew it");
        }
        for leaf in current.ending_alternatives(now) {
            let (subject, ends) = (leaf.subject(), leaf.end_in_words(now));
            tracing::warn!(subject, ends, "an alternative certificate ends, and is not shown then");
        }
    }
}

/// The time until the first certificate ends, in words.
fn time_left(identity: &LiveIdentity, now: SystemTime) -> String {
    let current = identity.current();
    current.first_to_end().map(|first| first.end_in_words(now)).unwrap_or_default()
}

/// Seconds until the first certificate ends; negative after that.
pub(super) fn seconds_left(identity: &LiveIdentity) -> i64 {
    let current = identity.current();
    let Some(first) = current.first_to_end() else { return i64::MAX };
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let left = first.not_after().duration_since(time_of_day());
    left.map_or_else(|past| -seconds(past.duration()), seconds)
}

/// Renews whenever it is due.
async fn keep_renewed<F>(
    due: impl Fn() -> Option<SystemTime>,
    renew: impl Fn() -> F,
    left: impl Fn() -> String,
) where
    F: Future<Output = Result<(), RenewalError>>,
{
    loop {
        let now = time_of_day();
        let due = due().map_or(LOOK, |due| due.duration_since(now).unwrap_or_default());
        if !due.is_zero() {
            tokio::time::sleep(due.min(LOOK)).await;
            continue;
        }
        match renew().await {
            Ok(()) => tracing::info!("certificates renewed"),
            Err(problem) => {
                tracing::error!(%problem, ends = left(), "certificates not renewed");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn in_files(core: &Core) -> bool {
    let section = core.identity.section();
    [&section.cert, &section.server_cert]
        .into_iter()
        .all(|value| matches!(Location::parse(value), Ok(Location::File(_))) && !value.is_empty())
}

/// The time at which the first of the two certificates has to be renewed.
fn due(core: &Core) -> Option<SystemTime> {
    if core.renewal.is_unsaved() {
        return Some(time_of_day());
    }
    let identity = core.identity.current();
    let both = identity.client().into_iter().chain(identity.servers().first());
    let leaves = both.map(KeyedChain::leaf);
    leaves.filter_map(|leaf| renewal_due(leaf.not_before(), leaf.not_after(), BEFORE_END)).min()
}

async fn renew(core: &Core) -> Result<(), RenewalError> {
    if core.renewal.is_unsaved() {
        return Ok(core.renewal.save(&core.identity)?);
    }
    let identity = core.identity.current();
    let client = identity.client().ok_or(RenewalError::Incomplete("client"))?;
    let server = identity.servers().first().ok_or(RenewalError::Incomplete("server"))?;
    if client.leaf().not_after() <= time_of_day() {
        return Err(RenewalError::TooLate);
    }
    let controller = controller(core).await.ok_or(RenewalError::NoController)?;
    let sans = core.renewal.names.as_ref().map(|names| names.sans.as_slice()).unwrap_or_default();
    let subject = client.leaf().subject_der();
    let request = EnrollmentExtendRouterRequest {
        client_cert_csr: CertificateRequest::renew_pem(client.key(), subject, sans)?,
        server_cert_csr: CertificateRequest::renew_pem(server.key(), subject, sans)?,
        require_verification: true,
    };
    let certs = issued(core, &controller, &request).await?;
    warn_of_missing(sans, &certs.server_cert_pem);
    for (pem, former) in [(&certs.client_cert_pem, client), (&certs.server_cert_pem, server)] {
        KeyedChain::new(Certificate::from_pem(pem.as_bytes())?, former.key().clone())?;
    }
    take(&core.identity, &core.renewal, &certs, confirm(&controller, &certs)).await
}

/// Writes new certificates, has them confirmed, and uses them.
async fn take(
    identity: &LiveIdentity,
    renewal: &Renewal,
    certs: &EnrollmentCertsResponse,
    confirmed: impl Future<Output = Result<(), RenewalError>>,
) -> Result<(), RenewalError> {
    let (client, server) = (certs.client_cert_pem.as_str(), certs.server_cert_pem.as_str());
    let prepared = identity.prepare_certificates(Some(client), Some(server))?;
    match confirmed.await {
        Ok(()) => renewal.accepted(),
        Err(problem) => {
            if matches!(problem, RenewalError::Unsure(_)) {
                renewal.keep(certs);
            }
            return Err(problem);
        }
    }
    // The former certificates may count no more, so that the new ones are not given up.
    identity.use_certificates(prepared).map_err(|problem| {
        renewal.keep(certs);
        renewal.save_later(certs);
        problem.into()
    })
}

/// The controller to ask, once one is connected.
async fn controller(core: &Core) -> Option<Arc<Controller>> {
    let mut changes = core.controllers.changes();
    loop {
        changes.mark_unchanged();
        if let Some(controller) = core.controllers.for_changes() {
            return Some(controller);
        }
        changes.changed().await.ok()?;
    }
}

async fn issued(
    core: &Core,
    controller: &Controller,
    request: &EnrollmentExtendRouterRequest,
) -> Result<EnrollmentCertsResponse, RenewalError> {
    let (sender, receiver) = oneshot::channel();
    *core.renewal.waiting.lock() = Some(sender);
    let sent = controller.channel.send(request.to_message()).await;
    sent.map_err(|_| RenewalError::NoController)?;
    match tokio::time::timeout(ISSUE_TIMEOUT, receiver).await {
        Ok(Ok(certs)) => Ok(certs),
        _ => Err(RenewalError::NotIssued),
    }
}

async fn confirm(
    controller: &Controller,
    certs: &EnrollmentCertsResponse,
) -> Result<(), RenewalError> {
    let verify =
        EnrollmentExtendRouterVerifyRequest { client_cert_pem: certs.client_cert_pem.clone() };
    let reply = controller.channel.request(verify.to_message(), CONFIRM_TIMEOUT).await;
    let reply = reply.map_err(|problem| RenewalError::Unsure(problem.to_string()))?;
    let result = ExtendVerifyResult::from_message(&reply);
    let result = result.map_err(|problem| RenewalError::Unsure(problem.to_string()))?;
    if result.code.is_empty() {
        return Ok(());
    }
    Err(RenewalError::NotConfirmed(format!("{} ({})", result.message, result.code)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use weft_identity::{
        Authority, AuthoritySpec, IdentitySection, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey,
        SubjectName,
    };

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// The number of renewals in a time, if a controller issues certificates that are valid for `valid`
    /// from 5 minutes ago.
    async fn renewals(valid: Duration, time: Duration) -> u32 {
        let begin = || time_of_day() - PAUSE;
        let (count, issued) = (Cell::new(0), Cell::new(begin()));
        let due = || renewal_due(issued.get(), issued.get() + valid, BEFORE_END);
        let renew = || {
            count.set(count.get() + 1);
            issued.set(begin());
            async { Ok(()) }
        };
        let renewing = keep_renewed(due, renew, String::new);
        assert!(tokio::time::timeout(time, renewing).await.is_err());
        count.get()
    }

    #[tokio::test(start_paused = true)]
    async fn certificates_of_every_length_are_renewed_in_their_last_third() {
        assert_eq!(renewals(DAY, 160 * HOUR).await, 10);
        assert_eq!(renewals(3 * DAY, 30 * DAY).await, 15);
        assert_eq!(renewals(7 * DAY, 4 * DAY).await, 0);
        assert_eq!(renewals(365 * DAY, 357 * DAY).await, 0);
        assert_eq!(renewals(365 * DAY, 359 * DAY).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn certificates_that_are_due_at_once_are_renewed_after_a_pause() {
        assert_eq!(renewals(Duration::ZERO, PAUSE * 10 - HOUR / 60).await, 10);
    }

    #[tokio::test]
    async fn only_certificates_on_the_disk_are_confirmed() {
        let home = tempfile::tempdir().unwrap();
        let root = Authority::make_root(&AuthoritySpec::new("root"), time_of_day()).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let issue = || {
            let subject = SubjectName::common_name("r1");
            let now = time_of_day();
            let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Both, now);
            root.issue(&leaf.unwrap()).unwrap().to_pem()
        };
        let path = |name: &str| home.path().join(name);
        let names = ["client.pem", "server.pem"];
        let present = names.map(|name| {
            std::fs::write(path(name), issue()).unwrap();
            std::fs::read_to_string(path(name)).unwrap()
        });
        key.write(&path("key.pem")).unwrap();
        std::fs::write(path("ca.pem"), root.certificate().to_pem()).unwrap();
        let text = |name: &str| path(name).display().to_string();
        let section = IdentitySection {
            cert: text(names[0]),
            server_cert: text(names[1]),
            key: text("key.pem"),
            ca: text("ca.pem"),
            ..IdentitySection::default()
        };
        let identity = LiveIdentity::load(section).unwrap();
        let certs = EnrollmentCertsResponse {
            client_cert_pem: issue(),
            server_cert_pem: issue(),
            ca_certs_pem: String::new(),
        };
        let renewal = Renewal::default();
        let files = || names.map(|name| std::fs::read_to_string(path(name)).unwrap());

        // A folder in the way of the second file stands for a full disk.
        let in_the_way = path(&format!(".server.pem.{}.new", std::process::id()));
        std::fs::create_dir(&in_the_way).unwrap();
        let asked = Cell::new(false);
        let confirmed = async {
            asked.set(true);
            Ok(())
        };
        assert!(take(&identity, &renewal, &certs, confirmed).await.is_err());
        assert!(!asked.get() && files() == present);
        std::fs::remove_dir(&in_the_way).unwrap();

        let refused = async { Err(RenewalError::NotConfirmed("no".to_owned())) };
        assert!(take(&identity, &renewal, &certs, refused).await.is_err());
        assert!(files() == present);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 4, "new files are removed");

        renewal.refused(&identity);
        assert!(files() == present, "a certificate that was refused is not tried");

        // The answer is missing: each refusal leads to the other pair, until one is accepted.
        let lost = || async { Err(RenewalError::Unsure("timeout".to_owned())) };
        let new = [certs.client_cert_pem.clone(), certs.server_cert_pem.clone()];
        assert!(take(&identity, &renewal, &certs, lost()).await.is_err());
        assert!(files() == present);
        renewal.refused(&identity);
        assert!(files() == new);
        assert_eq!(identity.current().client().unwrap().leaf().to_pem(), new[0]);
        renewal.refused(&identity);
        assert!(files() == present);
        renewal.accepted();
        renewal.refused(&identity);
        assert!(files() == present);

        take(&identity, &renewal, &certs, async { Ok(()) }).await.unwrap();
        assert!(files() == new);
        let used = identity.current();
        assert_eq!(used.client().unwrap().leaf().to_pem(), certs.client_cert_pem);

        // A folder in the place of a file: the confirmed certificates are used, and saved later.
        let again = EnrollmentCertsResponse {
            client_cert_pem: issue(),
            server_cert_pem: issue(),
            ca_certs_pem: String::new(),
        };
        let broken = async {
            std::fs::remove_file(path(names[0])).unwrap();
            std::fs::create_dir(path(names[0])).unwrap();
            Ok(())
        };
        let problem = take(&identity, &renewal, &again, broken).await.unwrap_err();
        assert!(problem.to_string().contains(".new is moved to its place"), "{problem}");
        let used = identity.current();
        assert_eq!(used.client().unwrap().leaf().to_pem(), again.client_cert_pem);
        assert_eq!(used.servers()[0].leaf().to_pem(), again.server_cert_pem);
        assert!(renewal.save(&identity).is_err() && renewal.is_unsaved());
        std::fs::remove_dir(path(names[0])).unwrap();
        renewal.accepted();
        renewal.save(&identity).unwrap();
        assert!(!renewal.is_unsaved());
        assert!(files() == [again.client_cert_pem.clone(), again.server_cert_pem.clone()]);
        let used = identity.current();
        assert_eq!(used.client().unwrap().leaf().to_pem(), again.client_cert_pem);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 4);

        // Other certificates than the unsaved ones are in the files by now: they stay.
        renewal.save_later(&certs);
        renewal.save(&identity).unwrap();
        assert!(files() == [again.client_cert_pem.clone(), again.server_cert_pem.clone()]);
    }
}
