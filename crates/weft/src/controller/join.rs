//! `weft controller join`: makes the folder of a further controller with the invitation of one that runs.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use weft_client::{ControllerAddress, ManagementClient, Tls, trust};
use weft_contract::resource::cluster::{ControllerWelcome, JoinToken};
use weft_contract::{Api, resource};
use weft_identity::{
    Authority, Certificate, CertificateRequest, KeyAlgorithm, PrivateKey, SubjectName, TrustBundle,
    read_file, write_for_owner,
};

use super::new_file::{NewController, hosts};
use crate::cli::ControllerJoinArgs;
use crate::compose::session_key;
use crate::failure::{Failure, Result};
use crate::home::Home;
use crate::place::ListenAddress;
use crate::{output, pki};

/// Largest file with a token, in bytes.
const MAX_TOKEN: usize = 16 * 1024;

/// What a controller has after it was let in.
#[derive(Debug)]
pub(crate) struct Joined {
    signer: Authority,
    welcome: ControllerWelcome,
}

/// Joins, makes the files of the controller in a folder, and says what to do next.
pub(super) async fn join(args: &ControllerJoinArgs) -> Result<()> {
    let token = token_in(&args.token)?;
    let hosts = hosts(&args.address)?;
    let Some(first) = hosts.first() else {
        return Err(Failure::usage("name the controller's host with --address"));
    };
    let address = ListenAddress::of("--address", first, args.port)?;
    let home = Home::open(Some(&args.home))?;
    if let Some(there) = home.existing() {
        return Err(Failure::usage(format!(
            "{} exists: nothing was asked for. Name an empty folder with --home",
            there.display()
        )));
    }
    // What can fail here comes before the invitation is used.
    home.make_pki_folder()?;
    let joined = Joined::by(&token).await.inspect_err(|_| home.leave_nothing())?;
    let new = NewController::joined(address, &hosts, &token.name, &joined, &home);
    joined.write(&home)?;
    new.make_certificate(&home, &joined.signer)?;
    new.write_file(&home)?;
    output::line(format_args!(
        "wrote {}, and keys and certificates in {}",
        home.controller_file().display(),
        home.root().join("pki").display()
    ));
    if joined.welcome.etcd_certificate {
        output::line(
            "etcd asks for a certificate: name this controller's with cluster.clientCert and cluster.clientKey",
        );
    }
    if joined.has_dollar() {
        output::line(
            "etcd's user or password has a dollar sign, which the file would take for a variable: write cluster.username and \
             cluster.password as variables, such as `${ETCD_PASSWORD}`, and set these",
        );
    }
    output::line("Next:");
    output::line(format_args!(
        "  weft controller run {}    takes the network from etcd",
        home.controller_file().display()
    ));
    Ok(())
}

fn token_in(file: &Path) -> Result<JoinToken> {
    let text = read_file(file)?;
    let wrong = || {
        Failure::usage(format!(
            "{} holds no invitation; `weft cluster invite NAME` at a controller of the network prints one",
            file.display()
        ))
    };
    if text.len() > MAX_TOKEN {
        return Err(wrong());
    }
    let text = String::from_utf8(text).map_err(|_| wrong())?;
    let json = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| wrong())?;
    serde_json::from_slice(&json).map_err(|_| wrong())
}

impl Joined {
    /// Asks the controller that has made an invitation, which has to prove that it is of the network.
    async fn by(token: &JoinToken) -> Result<Self> {
        let address: ControllerAddress = token.url.parse()?;
        let met = trust::meet(&address).await?;
        // The bundle has come over a connection that nobody has verified: only what the token names is trusted.
        let trusted = TrustBundle::new(named(&met.bundle, token));
        if trusted.is_empty() {
            return Err(Failure::new(format!(
                "{address} does not show the authorities that the invitation names: it is another controller, or somebody \
                 is on the way; nothing was told to it"
            )));
        }
        let client = ManagementClient::new(address, &Tls::Anonymous(trusted))?;
        let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
        let subject = SubjectName::common_name(&token.name);
        let request = CertificateRequest::make_pem(&key, &subject, &[])?;
        let body = json!({"name": token.name, "secret": token.secret, "authorityRequest": request});
        let operation = resource::operation(Api::Weft, "joinCluster")
            .ok_or_else(|| Failure::new("this program does not know how to join"))?;
        let answer: Value = client.call_in(Api::Weft, operation, &[], &[], Some(&body)).await?;
        let welcome: ControllerWelcome = serde_json::from_value(answer)
            .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
        let certificate = Certificate::from_pem(welcome.authority.as_bytes())?.into_iter().next();
        let certificate =
            certificate.ok_or_else(|| Failure::new("the controller has sent no certificate"))?;
        Ok(Self { signer: Authority::new(certificate, key)?, welcome })
    }

    /// The file with the authorities of etcd's certificates, if they are not those of the system.
    pub(super) fn etcd_authorities(&self, home: &Home) -> Option<String> {
        let is_there = !self.welcome.etcd_authorities.is_empty();
        is_there.then(|| crate::home::text(&home.pki(ETCD_CA)))
    }

    /// Whether the login at etcd cannot stand in the file as it is.
    pub(super) fn has_dollar(&self) -> bool {
        [&self.welcome.etcd_user, &self.welcome.etcd_password].iter().any(|text| text.contains('$'))
    }

    pub(super) fn welcome(&self) -> &ControllerWelcome {
        &self.welcome
    }

    /// Writes what is shared, and the authority.
    fn write(&self, home: &Home) -> Result<()> {
        let welcome = &self.welcome;
        for (name, text) in [
            (pki::ROOT_CERT, &welcome.roots),
            (pki::NETWORK_KEY, &welcome.network_key),
            (session_key::NAME, &welcome.session_key),
        ] {
            write_for_owner(&home.pki(name), text.as_bytes())?;
        }
        if !welcome.etcd_authorities.is_empty() {
            write_for_owner(&home.pki(ETCD_CA), welcome.etcd_authorities.as_bytes())?;
        }
        pki::write_signer(home, &self.signer)
    }
}

/// The name of the file with the authorities of etcd's certificates.
const ETCD_CA: &str = "etcd-ca.crt";

/// The certificates of a bundle that a token names.
fn named(bundle: &TrustBundle, token: &JoinToken) -> Vec<Certificate> {
    let certificates = bundle.certificates().iter();
    certificates.filter(|it| token.roots.contains(&it.sha256())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_token_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("two.token");
        for wrong in ["", "eyJ", "{}", &"A".repeat(MAX_TOKEN + 1)] {
            std::fs::write(&file, wrong).unwrap();
            let error = token_in(&file).unwrap_err().to_string();
            assert!(
                error.contains("two.token") && error.contains("weft cluster invite"),
                "{error}"
            );
        }
        let token = JoinToken {
            name: "two".into(),
            roots: vec!["ab".into()],
            secret: "s".into(),
            url: "https://one:1280".into(),
        };
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap());
        std::fs::write(&file, format!("{text}\n")).unwrap();
        assert_eq!(token_in(&file).unwrap(), token);
    }

    #[test]
    fn only_authorities_that_the_token_names_are_trusted() {
        let now = std::time::SystemTime::now();
        let make = |name: &str| {
            let spec = weft_identity::AuthoritySpec::new(name);
            Authority::make_root(&spec, now).unwrap().certificate().clone()
        };
        let (own, foreign) = (make("network"), make("network"));
        let roots = vec![own.sha256()];
        let token =
            JoinToken { name: "two".into(), roots, secret: "s".into(), url: "https://x".into() };
        let bundle = TrustBundle::new([foreign.clone(), own.clone()]);
        let named: Vec<String> =
            named(&bundle, &token).iter().map(|it| it.fingerprint().to_owned()).collect();
        assert_eq!(named, [own.fingerprint()]);
        assert!(super::named(&TrustBundle::new([foreign]), &token).is_empty());
    }
}
