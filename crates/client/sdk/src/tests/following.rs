//! Certificates that somebody else renews in the identity's files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_identity::{Certificate, IdentityFile, IdentityMaterial};

use super::{Network, pair_of, soon, until};
use crate::{Endpoint, EndpointBuilder};

/// A builder whose endpoints look at their files all the time.
fn builder() -> EndpointBuilder {
    let mut builder = Endpoint::builder();
    builder.settings.refresh_interval = Duration::from_millis(20);
    builder
}

/// The files of an identity with a certificate of a company's authority.
struct Files {
    home: TempDir,
}

impl Files {
    fn new(network: &Network) -> Self {
        let files = Self { home: tempfile::tempdir().unwrap() };
        files.renew(network);
        files
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Puts another key and certificate in the place of the former ones; the fingerprint of the certificate.
    fn renew(&self, network: &Network) -> String {
        let (key, cert) = network.pki.another("tester");
        std::fs::write(self.at("key.pem"), key).unwrap();
        std::fs::write(self.at("cert.pem"), &cert).unwrap();
        Certificate::from_pem(cert.as_bytes()).unwrap()[0].fingerprint().to_owned()
    }

    /// An identity file that names them.
    fn document(&self, network: &Network) -> IdentityFile {
        let file = network.pki.identity("tester", network.controller.address);
        let named = |path: &Path| path.display().to_string();
        let (key, cert) = (named(&self.at("key.pem")), named(&self.at("cert.pem")));
        IdentityFile { id: IdentityMaterial { key, cert, ca: file.id.ca.clone() }, ..file }
    }
}

impl Network {
    /// The certificate that the last login showed, and the number of logins that were accepted.
    fn shown(&self) -> (String, usize) {
        self.seen(|state| (state.renewal.shown.last().cloned().unwrap_or_default(), state.logins))
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_used_without_a_restart_and_open_connections_stay() {
    let network = Network::new().await;
    let files = Files::new(&network);
    let path = files.at("me.json");
    files.document(&network).write(&path).unwrap();
    let loaded = soon(builder().load(&path)).await.unwrap();
    let mut listener = soon(loaded.bind("plain")).await.unwrap();
    let (mut dialed, mut accepted) = pair_of(&loaded, &mut listener).await;
    let renewed = files.renew(&network);
    until(|| network.shown() == (renewed.clone(), 2)).await;
    dialed.write_all(b"still").await.unwrap();
    soon(accepted.read_exact(&mut [0; 5])).await.unwrap();
    drop((dialed, accepted));
    // The identity file, too, may be replaced by one with a new certificate.
    let (key, cert) = network.pki.another("tester");
    let mut document = files.document(&network);
    (document.id.key, document.id.cert) = (format!("pem:{key}"), format!("pem:{cert}"));
    document.write(&path).unwrap();
    until(|| network.shown().1 == 3).await;
    drop(loaded);
    let from_memory = soon(builder().build(files.document(&network))).await.unwrap();
    let renewed = files.renew(&network);
    until(|| network.shown() == (renewed.clone(), 5)).await;
    soon(from_memory.services()).await.unwrap();
}

#[tokio::test]
async fn a_certificate_without_its_key_waits_and_a_refused_one_is_given_back() {
    let network = Network::new().await;
    let files = Files::new(&network);
    let endpoint = soon(builder().build(files.document(&network))).await.unwrap();
    let (first, _) = network.shown();
    let (key, cert) = network.pki.another("tester");
    std::fs::write(files.at("cert.pem"), &cert).unwrap();
    network.refreshed().await;
    assert_eq!(network.shown(), (first.clone(), 1), "its key is not there yet");
    // Only the first certificate counts.
    network.change(|state| state.renewal.is_possible = true);
    std::fs::write(files.at("key.pem"), key).unwrap();
    until(|| network.shown() == (first.clone(), 2)).await;
    assert_eq!(network.seen(|state| state.renewal.shown.len()), 3);
    network.refreshed().await;
    assert_eq!(network.shown().1, 2, "the refused one is not tried again and again");
    soon(endpoint.services()).await.unwrap();
}
