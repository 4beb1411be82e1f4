//! What a controller that joins gets from one that runs: a certificate for its own authority, and what all controllers
//! share. Its private keys stay with it.

use std::path::Path;
use std::time::{Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use weft_contract::resource::cluster::{
    ControllerInvitation, ControllerJoin, ControllerWelcome, JoinToken,
};
use weft_contract::{Api, ErrorCode};
use weft_identity::{
    Authority, AuthoritySpec, Certificate, CertificateRequest, PrivateKey, TrustBundle, read_file,
};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, NetworkSecrets, Result, convert};
use weft_model::entity::ControllerMember;
use weft_model::{Base, Id, Snapshot};

use super::invitations::INVITATION;
use super::{next_list, roll};
use crate::handle::Auth;

/// Longest name of a controller, in bytes.
const MAX_NAME: usize = 64;

impl Auth {
    /// Invites a controller of this name.
    pub(super) fn invite(&self, caller: &Caller, name: &str) -> Result<ControllerInvitation> {
        let shared = self.shared()?;
        check_name(name)?;
        self.check_is_free(name)?;
        if shared.root.is_none() {
            return Err(Failure::because(ErrorCode::Unauthorized, NO_ROOT));
        }
        // Whoever joins must not find out that a file is missing.
        SharedFiles::read(shared)?;
        let url = self.kernel().settings().addresses.apis.get(&Api::Management);
        let url = url.and_then(|urls| urls.first()).ok_or_else(|| {
            Failure::because(ErrorCode::Unhandled, "no API of this controller has an address")
        })?;
        let secret = hex::encode(self.kernel().ids().bytes::<32>());
        let now = Instant::now();
        let keys = self.keys();
        let roots = keys.bundle.certificates().iter().take(JoinToken::MAX_ROOTS);
        let token = JoinToken {
            name: name.to_owned(),
            roots: roots.map(|root| root.sha256()).collect(),
            secret: secret.clone(),
            url: url.strip_suffix(Api::Management.base()).unwrap_or(url).to_owned(),
        };
        let json =
            serde_json::to_vec(&token).map_err(|error| Failure::unhandled(error.to_string()))?;
        self.0.invitations.add(name, &secret, now);
        let by = caller.login().map(|login| login.identity.as_str()).unwrap_or_default();
        tracing::warn!(name, by, "a controller may join with an invitation of this identity");
        Ok(ControllerInvitation {
            expires_at: convert::time(self.kernel().now().plus(INVITATION)),
            token: URL_SAFE_NO_PAD.encode(json),
        })
    }

    /// Lets a controller with an invitation in.
    pub(super) async fn welcome(&self, join: ControllerJoin) -> Result<ControllerWelcome> {
        let [name, secret, request] =
            [join.name, join.secret, join.authority_request].map(Option::unwrap_or_default);
        let refused = || Failure::because(ErrorCode::Unauthorized, NOT_INVITED);
        self.may_sign()?;
        let shared = self.shared()?.clone();
        // Nothing else is looked at before.
        if !self.0.invitations.has(&name, &secret, Instant::now()) {
            return Err(refused());
        }
        self.check_is_free(&name)?;
        let read = CertificateRequest::from_pem(&request);
        let request =
            read.map_err(|error| Failure::field("authorityRequest", error.to_string(), request))?;
        let keys = self.keys();
        let (trust_domain, bundle) = (keys.trust_domain.clone(), keys.bundle.clone());
        let of = name.clone();
        let make = move || welcome(&shared, (&trust_domain, &bundle), &of, &request);
        let made = tokio::task::spawn_blocking(make).await;
        let (made, authority) = made.map_err(|error| Failure::unhandled(error.to_string()))??;
        if !self.0.invitations.take(&name, &secret, Instant::now()) {
            return Err(refused());
        }
        self.await_member(&name, authority).await?;
        tracing::warn!(name, "a controller got the keys of the network by its invitation");
        Ok(made)
    }

    fn shared(&self) -> Result<&NetworkSecrets> {
        let shared = self.kernel().settings().shared.as_ref();
        shared.ok_or_else(|| ErrorCode::ServerNotRunningInHaMode.into())
    }

    /// Refuses the name of a controller that is there, and every name while the network is about to get another key.
    fn check_is_free(&self, name: &str) -> Result<()> {
        let snapshot = self.kernel().snapshot();
        let known = snapshot.get::<ControllerMember>(&Id::new(name));
        let is_own = name == self.kernel().settings().id;
        if is_own || known.is_some_and(|known| known.is_present()) {
            return Err(name_is_taken(name));
        }
        self.check_key_is_here(&snapshot)?;
        Self::check_key_is_made(&snapshot)
    }

    /// Refuses to hand on a key of the network that is not the newest one.
    fn check_key_is_here(&self, snapshot: &Snapshot) -> Result<()> {
        let newest = roll::newest(snapshot.list::<ControllerMember>().map(|it| &**it));
        match newest > self.newest_network_key() {
            true => Err(Failure::unwritable(
                "this controller is about to get another key of the network: try again in some seconds",
            )),
            false => Ok(()),
        }
    }

    /// Refuses to let a controller in, in whose place another one may have been removed a moment ago, before the network has
    /// another key: the entry that says so would be gone.
    fn check_key_is_made(snapshot: &Snapshot) -> Result<()> {
        let members: Vec<_> = snapshot.list::<ControllerMember>().map(|it| &**it).collect();
        match roll::due(&members) {
            None => Ok(()),
            Some(_) => Err(Failure::unwritable(
                "a controller was removed, and another key of the network is about to be made: try again in some seconds",
            )),
        }
    }

    /// Notes that a controller of this name may become a member, with this authority and no other.
    async fn await_member(&self, name: &str, authority: Bytes) -> Result<()> {
        let (id, network_key) = (Id::new(name), self.newest_network_key());
        let decide = move |decision: &mut Decision<'_>| {
            Self::check_key_is_made(decision.tip())?;
            let (list_index, now) = (next_list(decision), decision.now());
            let known = decision.tip().get::<ControllerMember>(&id);
            // Another invitation of the same name may have been used meanwhile.
            if known.is_some_and(|known| known.is_present()) {
                return Err(name_is_taken(id.as_str()));
            }
            let mut invited = ControllerMember::invited(id.clone(), authority.clone(), now);
            if let Some(known) = known {
                invited.base = Base { updated_at: now, ..known.base.clone() };
            }
            decision.put(ControllerMember { list_index, network_key, ..invited });
            Ok(())
        };
        self.kernel().decide(&Caller::own("joining"), decide).await.map(drop)
    }
}

/// Why a controller cannot invite.
const NO_ROOT: &str = "this controller has no key of the network's root (cluster.rootCert and cluster.rootKey), which \
                       makes the authority of a new controller: ask one that has it, or make the new controller's \
                       folder with `weft controller config --member-of`";
/// Why a controller is not let in.
const NOT_INVITED: &str = "there is no such invitation: it was used, ten minutes are over, the controller that made it \
                           has restarted, or it is for another name";

fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_plain) {
        true => Ok(()),
        false => {
            let reason = format!("1 to {MAX_NAME} letters, digits and -_. are wanted");
            Err(Failure::field("name", reason, name))
        }
    }
}

/// What a new controller gets of the files of this one.
struct SharedFiles {
    root: Certificate,
    authority: Authority,
    etcd_authorities: String,
    network_key: String,
    session_key: String,
}

impl SharedFiles {
    fn read(shared: &NetworkSecrets) -> Result<Self> {
        let (cert, key) = shared.root.as_ref().ok_or_else(|| unreadable(&NO_ROOT))?;
        let root = Certificate::from_pem(&read(cert)?).map_err(|error| unreadable(&error))?;
        let root = root.into_iter().next().ok_or_else(|| unreadable(&"it holds no certificate"))?;
        let key = PrivateKey::from_pem(&read(key)?).map_err(|error| unreadable(&error))?;
        let session_key = shared.session_key.as_deref();
        let session_key =
            session_key.ok_or_else(|| unreadable(&"the key of session tokens is in no file"))?;
        let etcd_authorities = shared.etcd_authorities.as_deref().map(read).transpose()?;
        Ok(Self {
            authority: Authority::new(root.clone(), key).map_err(|error| unreadable(&error))?,
            root,
            etcd_authorities: text(&etcd_authorities.unwrap_or_default()),
            network_key: text(&read(&shared.network_key)?),
            session_key: text(&read(session_key)?),
        })
    }
}

/// Issues the certificate, and reads what is shared.
fn welcome(
    shared: &NetworkSecrets,
    (trust_domain, bundle): (&str, &TrustBundle),
    name: &str,
    request: &CertificateRequest,
) -> Result<(ControllerWelcome, Bytes)> {
    let SharedFiles { root, authority, etcd_authorities, network_key, session_key } =
        SharedFiles::read(shared)?;
    let spec = AuthoritySpec {
        path_len: Some(0),
        trust_domain: Some(trust_domain.to_owned()),
        ..AuthoritySpec::new(format!("{trust_domain} edge signer of {name}"))
    };
    let certificate = authority.certify(request.public_key(), &spec, SystemTime::now());
    let certificate = certificate.map_err(|error| unreadable(&error))?;
    let (user, password) = shared.login.clone().unwrap_or_default();
    let der = Bytes::copy_from_slice(certificate.der());
    let welcome = ControllerWelcome {
        authority: certificate.to_pem(),
        etcd: shared.etcd.clone(),
        etcd_authorities,
        etcd_certificate: shared.etcd_certificate,
        etcd_password: password,
        etcd_user: user,
        network_key,
        prefix: shared.prefix.clone(),
        roots: TrustBundle::new([root].into_iter().chain(bundle.certificates().iter().cloned()))
            .to_pem(),
        session_key,
        trust_domain: trust_domain.to_owned(),
    };
    Ok((welcome, der))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    read_file(path).map_err(|error| unreadable(&error))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn unreadable(error: &dyn std::fmt::Display) -> Failure {
    Failure::unhandled(format!("what a new controller needs cannot be read: {error}"))
}

fn name_is_taken(name: &str) -> Failure {
    let reason =
        "a controller of the network has this name; remove it first, if it is not there any more";
    Failure::field("name", reason, name)
}
