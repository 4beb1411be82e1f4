//! The certificates of a new network.
//!
//! Clients trust the root. Below the root is the edge signer, which issues the certificates of
//! controller, routers and identities. Keys are readable by their owner only. They are P-256, except
//! the controller's own, which is RSA of 2048 bits: native SDKs of the 0.x line check the signature of
//! an enrollment token with the key of the controller's certificate, and support RSA signatures only.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use weft_identity::{
    Authority, AuthoritySpec, Certificate, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, San,
    SpiffeId, SubjectName, to_pem, write_for_owner,
};

use crate::failure::{Failure, Result};
use crate::home::Home;
use crate::input;

/// Certificate of the root, which clients are told to trust.
pub(crate) const ROOT_CERT: &str = "root.crt";
/// Key of the root. Nothing uses the key after the certificates were made, so an operator may move its
/// file to a safe place.
pub(crate) const ROOT_KEY: &str = "root.key";
/// Certificate of the edge signer.
pub(crate) const SIGNER_CERT: &str = "signer.crt";
/// Key of the edge signer.
pub(crate) const SIGNER_KEY: &str = "signer.key";
/// Certificate and chain of the controller.
pub(crate) const CONTROLLER_CERT: &str = "controller.crt";
/// Key of the controller.
pub(crate) const CONTROLLER_KEY: &str = "controller.key";

/// The id of the first controller of a network.
pub(crate) const FIRST: &str = "controller";
/// The key with which everything in etcd is sealed.
pub(crate) const NETWORK_KEY: &str = "network.key";

/// The controller's certificate is renewed at a start within this time before its end.
const RENEW_BEFORE: Duration = Duration::from_secs(60 * 24 * 3600);

/// Makes the authorities and the controller's certificate. Leftovers of an earlier try are
/// replaced.
pub(crate) fn make(
    home: &Home,
    trust_domain: &str,
    controller: &str,
    hosts: &[&str],
) -> Result<()> {
    let now = SystemTime::now();
    let root = Authority::make_root(&spec(trust_domain, "root", None), now)?;
    write_key(&home.pki(ROOT_KEY), root.key())?;
    make_below(home, &root, (trust_domain, controller, hosts), now)
}

/// Makes the signer and the certificate of a further controller, below the root of the network in the folder `pki` of
/// another one.
pub(crate) fn make_member(
    home: &Home,
    pki: &Path,
    trust_domain: &str,
    controller: &str,
    hosts: &[&str],
) -> Result<()> {
    let root = read_certificates(&pki.join(ROOT_CERT))?.into_iter().next();
    let root = root.ok_or_else(|| Failure::new("the root of the network has no certificate"))?;
    let key = read_key(&pki.join(ROOT_KEY)).map_err(|failure| {
        failure.and("the key of the network's root makes the certificates of a new controller; put its file back meanwhile")
    })?;
    let root = Authority::new(root, key)?;
    make_below(home, &root, (trust_domain, controller, hosts), SystemTime::now())
}

fn spec(trust_domain: &str, name: &str, path_len: Option<u8>) -> AuthoritySpec {
    AuthoritySpec {
        path_len,
        trust_domain: Some(trust_domain.to_owned()),
        ..AuthoritySpec::new(format!("{trust_domain} {name}"))
    }
}

/// Makes the signer, and the controller's certificate.
fn make_below(
    home: &Home,
    root: &Authority,
    (trust_domain, controller, hosts): (&str, &str, &[&str]),
    now: SystemTime,
) -> Result<()> {
    let signer = match controller {
        FIRST => "edge signer".to_owned(),
        other => format!("edge signer of {other}"),
    };
    let signer = root.make_intermediate(&spec(trust_domain, &signer, Some(0)), now)?;
    write_certificates(&home.pki(ROOT_CERT), &[root.certificate()])?;
    write_signer(home, &signer)?;
    make_leaf(home, &signer, (trust_domain, controller, hosts), now)
}

/// Writes key and certificate of the signer.
pub(crate) fn write_signer(home: &Home, signer: &Authority) -> Result<()> {
    write_key(&home.pki(SIGNER_KEY), signer.key())?;
    write_certificates(&home.pki(SIGNER_CERT), &[signer.certificate()])
}

/// Makes the controller's key and certificate.
pub(crate) fn make_leaf(
    home: &Home,
    signer: &Authority,
    (trust_domain, controller, hosts): (&str, &str, &[&str]),
    now: SystemTime,
) -> Result<()> {
    let key = PrivateKey::generate(KeyAlgorithm::Rsa { bits: 2048 })?;
    let subject =
        SubjectName { organization: "weft".into(), ..SubjectName::common_name(controller) };
    let sans = names(trust_domain, controller, hosts);
    let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, now)?;
    let certificate = signer.issue(&leaf)?;
    write_key(&home.pki(CONTROLLER_KEY), &key)?;
    write_certificates(&home.pki(CONTROLLER_CERT), &[&certificate, signer.certificate()])
}

/// Renews the controller's certificate, with the same key and names, if it ends soon after `now`. True if
/// there is a new certificate.
pub(crate) fn renew_if_due(home: &Home, now: SystemTime) -> Result<bool> {
    let is_due = controller_certificate(home)?.not_after() <= now + RENEW_BEFORE;
    if is_due {
        renew(home, &[], now)?;
    }
    Ok(is_due)
}

fn controller_certificate(home: &Home) -> Result<Certificate> {
    let path = home.pki(CONTROLLER_CERT);
    let current = read_certificates(&path)?.into_iter().next();
    current.ok_or_else(|| Failure::new(format!("{} holds no certificate", path.display())))
}

/// Renews the controller's certificate, with the same key and names, and these hosts as further names.
pub(crate) fn renew(home: &Home, hosts: &[String], now: SystemTime) -> Result<()> {
    let current = controller_certificate(home)?;
    let signer = read_certificates(&home.pki(SIGNER_CERT))?.into_iter().next();
    let signer = signer.ok_or_else(|| Failure::new("the edge signer has no certificate"))?;
    let signer = Authority::new(signer, read_key(&home.pki(SIGNER_KEY))?)?;
    let public = current.public_key()?;
    let mut sans = current.sans().to_vec();
    hosts.iter().for_each(|host| add(&mut sans, host));
    let leaf = Leaf {
        subject: current.subject_der().to_vec(),
        ..Leaf::for_key(public, &SubjectName::default(), sans, KeyPurpose::Both, now)?
    };
    let renewed = signer.issue(&leaf)?;
    write_certificates(&home.pki(CONTROLLER_CERT), &[&renewed, signer.certificate()])
}

/// Alternative names of the controller's certificate: its SPIFFE id, and every name that it is
/// reached by.
fn names(trust_domain: &str, controller: &str, hosts: &[&str]) -> Vec<San> {
    let mut sans = vec![
        San::Uri(SpiffeId::controller(trust_domain, controller).to_string()),
        San::Dns("localhost".into()),
        San::Ip(IpAddr::from([127, 0, 0, 1])),
        San::Ip(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])),
    ];
    hosts.iter().for_each(|host| add(&mut sans, host));
    sans
}

/// Adds a host to the names of a certificate.
fn add(sans: &mut Vec<San>, host: &str) {
    let own = match host.parse::<IpAddr>() {
        Ok(address) => San::Ip(address),
        Err(_) => San::Dns(host.to_owned()),
    };
    if !sans.contains(&own) {
        sans.push(own);
    }
}

fn write_certificates(path: &Path, certificates: &[&Certificate]) -> Result<()> {
    Ok(write_for_owner(path, to_pem(certificates.iter().copied()).as_bytes())?)
}

fn write_key(path: &Path, key: &PrivateKey) -> Result<()> {
    Ok(write_for_owner(path, key.to_pem().as_bytes())?)
}

fn read_certificates(path: &Path) -> Result<Vec<Certificate>> {
    Ok(Certificate::from_pem(&read(path)?)?)
}

fn read_key(path: &Path) -> Result<PrivateKey> {
    Ok(PrivateKey::from_pem(&read(path)?)?)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    input::read(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weft_identity::{RequiredKeyUsage, TrustBundle, Verify};

    use super::*;

    fn network() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(folder.path())).unwrap();
        home.make_pki_folder().unwrap();
        make(&home, "weft-test", "controller", &["overlay.example"]).unwrap();
        (folder, home)
    }

    #[test]
    fn the_controller_leads_to_the_root_and_names_itself() {
        let (_folder, home) = network();
        let bundle = TrustBundle::from_pem(&fs::read(home.pki(ROOT_CERT)).unwrap()).unwrap();
        let chain = read_certificates(&home.pki(CONTROLLER_CERT)).unwrap();
        let ders: Vec<_> = chain.iter().map(|certificate| certificate.der().clone()).collect();
        for usage in [RequiredKeyUsage::Server, RequiredKeyUsage::Client] {
            let how = Verify { usage, ..Verify::default() };
            bundle.verify(&ders, how, SystemTime::now()).unwrap();
        }
        let leaf = &chain[0];
        assert_eq!(leaf.common_name(), Some("controller"));
        assert_eq!(
            leaf.spiffe_uris().collect::<Vec<_>>(),
            ["spiffe://weft-test/controller/controller"]
        );
        for host in ["localhost", "127.0.0.1", "::1", "overlay.example"] {
            assert!(leaf.covers_host(host), "{host}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn keys_are_for_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, home) = network();
        for path in [home.pki(ROOT_KEY), home.pki(SIGNER_KEY), home.pki(CONTROLLER_KEY)] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    }

    #[test]
    fn a_certificate_is_kept_until_it_ends_soon_and_then_renewed() {
        let (_folder, home) = network();
        let chain = || read_certificates(&home.pki(CONTROLLER_CERT)).unwrap();
        let before = chain();
        let due = before[0].not_after() - RENEW_BEFORE;
        let minute = Duration::from_secs(60);
        assert!(!renew_if_due(&home, due - minute).unwrap());
        assert_eq!(chain()[0].fingerprint(), before[0].fingerprint());
        assert!(renew_if_due(&home, due + minute).unwrap());
        let after = chain();
        assert!(after[0].not_after() > before[0].not_after() + RENEW_BEFORE);
        assert_eq!(after[0].sans(), before[0].sans());
        assert_eq!(after[0].subject_der(), before[0].subject_der());
        let bundle = TrustBundle::from_pem(&fs::read(home.pki(ROOT_CERT)).unwrap()).unwrap();
        let ders: Vec<_> = after.iter().map(|certificate| certificate.der().clone()).collect();
        let how = Verify { usage: RequiredKeyUsage::Server, ..Verify::default() };
        bundle.verify(&ders, how, before[0].not_after() + minute).unwrap();
        assert!(!renew_if_due(&home, due + minute).unwrap());
    }
}
