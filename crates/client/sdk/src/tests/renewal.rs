//! Renewal of the certificate of an identity.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use weft_identity::{Identity, IdentityFile, RenewableFile, RenewalNote};

use super::{Network, pair_of, soon, until};
use crate::{Endpoint, EndpointBuilder, Error};

/// A network whose controller renews certificates, and a folder for identity files.
async fn network() -> (Network, TempDir) {
    let network = Network::new().await;
    network.controller.state.lock().renewal.is_possible = true;
    (network, tempfile::tempdir().unwrap())
}

/// An identity file whose certificate ends in 9 days.
fn ending(network: &Network, home: &TempDir) -> PathBuf {
    let mut file = network.pki.identity("tester", network.controller.address);
    network.pki.ending(&mut file);
    let path = home.path().join("me.json");
    file.write(&path).unwrap();
    path
}

fn in_file(path: &Path) -> Identity {
    Identity::load(&IdentityFile::read(path).unwrap().section()).unwrap()
}

fn fingerprint(path: &Path) -> String {
    in_file(path).client().unwrap().leaf().fingerprint().to_owned()
}

fn files(home: &TempDir) -> usize {
    std::fs::read_dir(home.path()).unwrap().count()
}

/// A builder whose endpoints look at their certificates all the time.
fn builder() -> EndpointBuilder {
    let mut builder = Endpoint::builder();
    builder.settings.refresh_interval = Duration::from_millis(20);
    builder
}

impl Network {
    /// The certificates that were issued for renewals.
    fn issued(&self) -> usize {
        self.seen(|state| state.renewal.issued)
    }

    /// The fingerprint of the certificate that counts.
    fn counts(&self) -> String {
        self.seen(|state| state.renewal.counts.clone())
    }

    /// Waits until endpoints have looked at their services a few times more.
    pub(super) async fn refreshed(&self) {
        let before = self.seen(|state| state.refreshes);
        until(|| self.seen(|state| state.refreshes) > before + 3).await;
    }

    fn end_sessions(&self) {
        self.controller.state.lock().tokens.clear();
    }
}

#[tokio::test]
async fn a_certificate_that_ends_soon_is_renewed_in_its_file_and_used() {
    let (network, home) = network().await;
    let path = ending(&network, &home);
    let former = fingerprint(&path);
    let endpoint = soon(builder().load(&path)).await.unwrap();
    until(|| fingerprint(&path) != former).await;
    assert_eq!((network.issued(), network.counts()), (1, fingerprint(&path)));
    assert_eq!(files(&home), 1);
    // Later logins show the new certificate, also over connections that were open before.
    network.end_sessions();
    soon(endpoint.services()).await.unwrap();
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    drop(pair_of(&endpoint, &mut listener).await);
    network.refreshed().await;
    assert_eq!((network.issued(), network.seen(|state| state.logins)), (1, 2));
}

#[tokio::test]
async fn a_new_key_is_made_if_an_administrator_asks_for_it() {
    let (network, home) = network().await;
    let path = home.path().join("me.json");
    network.pki.identity("tester", network.controller.address).write(&path).unwrap();
    let former = in_file(&path).client().unwrap().key().public().clone();
    network.controller.state.lock().renewal.requests =
        vec!["isCertExtendRequested", "isCertKeyRollRequested"];
    let endpoint = soon(builder().load(&path)).await.unwrap();
    until(|| in_file(&path).client().unwrap().key().public() != &former).await;
    // The request is still shown, and followed once.
    network.refreshed().await;
    assert_eq!(network.issued(), 1);
    network.end_sessions();
    soon(endpoint.services()).await.unwrap();
}

#[tokio::test]
async fn a_certificate_without_its_chain_is_renewed_once() {
    let (network, home) = network().await;
    let path = home.path().join("me.json");
    network.pki.identity("tester", network.controller.address).write(&path).unwrap();
    let former = fingerprint(&path);
    network.controller.state.lock().renewal.requests = vec!["improperClientCertChain"];
    let endpoint = soon(builder().load(&path)).await.unwrap();
    until(|| fingerprint(&path) != former).await;
    network.refreshed().await;
    // The controller goes on to show it: its certificates have no chain.
    network.end_sessions();
    soon(endpoint.services()).await.unwrap();
    network.refreshed().await;
    assert_eq!((network.issued(), network.counts()), (1, fingerprint(&path)));
}

#[tokio::test]
async fn a_missing_chain_leads_to_one_renewal_of_programs_that_run_again_and_again() {
    let (network, home) = network().await;
    let path = home.path().join("me.json");
    network.pki.identity("tester", network.controller.address).write(&path).unwrap();
    let former = fingerprint(&path);
    network.controller.state.lock().renewal.requests = vec!["improperClientCertChain"];
    let endpoint = soon(builder().load(&path)).await.unwrap();
    until(|| fingerprint(&path) != former).await;
    until(|| files(&home) == 2).await;
    drop(endpoint);
    for _ in 0..3 {
        let endpoint = soon(builder().load(&path)).await.unwrap();
        network.refreshed().await;
        drop(endpoint);
    }
    assert_eq!((network.issued(), network.counts()), (1, fingerprint(&path)));
    // An administrator who asks for a new certificate gets one, an hour later.
    let hours = Duration::from_secs(2 * 3600);
    let note = RenewalNote::at(SystemTime::now() - hours).succeeded(&fingerprint(&path));
    RenewableFile::new(&path).write_note(&note).unwrap();
    drop(soon(builder().load(&path)).await.unwrap());
    assert_eq!(network.issued(), 1);
    network.controller.state.lock().renewal.requests.push("isCertExtendRequested");
    let _endpoint = soon(builder().load(&path)).await.unwrap();
    until(|| network.issued() == 2).await;
}

#[tokio::test]
async fn a_renewal_that_fails_is_not_repeated_by_the_next_run() {
    let (network, home) = network().await;
    let path = ending(&network, &home);
    network.controller.state.lock().renewal.confirmations = vec![400, 400, 400];
    let endpoint = soon(builder().load(&path)).await.unwrap();
    until(|| network.seen(|state| state.renewal.confirmations.len()) == 2).await;
    until(|| files(&home) == 2).await;
    drop(endpoint);
    for _ in 0..2 {
        let endpoint = soon(builder().load(&path)).await.unwrap();
        network.refreshed().await;
        drop(endpoint);
    }
    assert_eq!((network.issued(), network.seen(|state| state.renewal.confirmations.len())), (1, 2));
}

#[tokio::test]
async fn a_renewal_that_is_refused_or_turned_off_changes_nothing() {
    let (network, home) = network().await;
    let path = ending(&network, &home);
    let text = std::fs::read(&path).unwrap();
    let off = soon(builder().renew_certificate(false).load(&path)).await.unwrap();
    network.refreshed().await;
    assert_eq!(network.issued(), 0);
    drop(off);
    network.controller.state.lock().renewal.confirmations = vec![400];
    let endpoint = soon(builder().load(&path)).await.unwrap();
    until(|| network.seen(|state| state.renewal.confirmations.is_empty())).await;
    network.refreshed().await;
    // The attempt is noted beside the file.
    assert_eq!((std::fs::read(&path).unwrap(), files(&home)), (text, 2));
    network.end_sessions();
    soon(endpoint.services()).await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_used_as_it_is() {
    let (network, home) = network().await;
    let path = ending(&network, &home);
    // A folder in the way stands for a read-only place, also for root.
    std::fs::create_dir(home.path().join(format!(".me.json.{}.new", std::process::id()))).unwrap();
    let endpoint = soon(builder().load(&path)).await.unwrap();
    network.refreshed().await;
    assert_eq!(network.issued(), 0, "the controller is not asked for nothing");
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    drop(pair_of(&endpoint, &mut listener).await);
}

#[tokio::test]
async fn a_certificate_whose_confirmation_got_lost_is_found_later() {
    let (network, home) = network().await;
    let path = ending(&network, &home);
    let former = fingerprint(&path);
    network.controller.state.lock().renewal.confirmations = vec![599];
    let endpoint = soon(builder().load(&path)).await.unwrap();
    until(|| network.counts() != former).await;
    assert_eq!(fingerprint(&path), former, "the answer was no confirmation");
    drop(endpoint);
    // The next start is refused with the certificate in the file.
    let endpoint = soon(builder().load(&path)).await.unwrap();
    assert_eq!((fingerprint(&path), network.issued()), (network.counts(), 1));
    soon(endpoint.services()).await.unwrap();
    assert_eq!(files(&home), 1);
}

#[tokio::test]
async fn programs_with_one_file_use_the_certificate_that_another_one_renewed() {
    let (network, home) = network().await;
    let path = ending(&network, &home);
    let first = soon(builder().renew_certificate(false).load(&path)).await.unwrap();
    let former = fingerprint(&path);
    let _second = soon(builder().load(&path)).await.unwrap();
    until(|| fingerprint(&path) != former).await;
    network.end_sessions();
    soon(first.services()).await.unwrap();
    assert_eq!(network.issued(), 1);
}

#[tokio::test]
async fn a_certificate_that_no_longer_counts_is_an_error() {
    let (network, home) = network().await;
    let path = ending(&network, &home);
    network.controller.state.lock().renewal.counts = "another".to_owned();
    let refused = soon(builder().load(&path)).await.unwrap_err();
    assert!(matches!(refused, Error::NotLoggedIn(_)) && refused.is_final(), "{refused}");
}
