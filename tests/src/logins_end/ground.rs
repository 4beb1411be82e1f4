//! A network, and identities that hold something in it.

use std::time::SystemTime;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex;
use weft_contract::{Kind, resource};
use weft_controller::Caller;
use weft_identity::token::TokenSigner;
use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, LiveIdentity, PrivateKey,
    SubjectName,
};
use weft_model::entity::{Authenticator, Ca, CertCredential, Terminator};
use weft_model::{Base, Id};
use weft_sdk::{Connection, Endpoint};

use super::person::{Form, Session, Shows};
use super::{EndCause, Login};
use crate::native::Native;
use crate::network::{Network, soon};
use crate::sdk::{dial, echo};

/// The connection id of everything that a client has at its router.
const ONE: u32 = 1;
const ISSUER: &str = "https://idp.example";

/// A network with a host and a dialer that go on.
pub(super) struct Ground {
    pub(super) network: Network,
    echo: String,
    _host: Endpoint,
    dialer: Endpoint,
    /// The signer that no login uses.
    other_signer: String,
}

/// What a session has, and the entities that it rests on.
pub(super) struct Held {
    pub(super) name: String,
    login: Login,
    pub(super) session: Session,
    pub(super) identity: String,
    policy: String,
    /// The CA or the signer.
    pub(super) issuer: String,
    url: String,
    /// Connections to the router: one with a circuit, one with a terminator, an idle one.
    dials: Native,
    hosts: Native,
    idle: Native,
    /// A circuit to the terminator.
    hosted: Mutex<Connection>,
}

fn policy(name: &str, [cert, updb, token]: [bool; 3], signers: &[&str]) -> Value {
    json!({"name": name, "primary": {
        "cert": {"allowed": cert, "allowExpiredCerts": true},
        "updb": {"allowed": updb, "lockoutDurationMinutes": 0, "maxAttempts": 0,
            "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
            "requireSpecialChar": false},
        "extJwt": {"allowed": token, "allowedSigners": signers}},
        "secondary": {"requireTotp": false}})
}

/// A key with a self-signed certificate, PEM.
fn provider() -> (PrivateKey, String) {
    let root = Authority::make_root(&AuthoritySpec::new("idp"), SystemTime::now()).unwrap();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name("idp");
    let leaf = Leaf::for_key(key.public(), &subject, vec![], KeyPurpose::Both, SystemTime::now());
    (key, root.issue(&leaf.unwrap()).unwrap().to_pem())
}

impl Ground {
    pub(super) async fn new() -> Self {
        let network = Network::start().await;
        network.service("echo", false).await;
        let (host, dialer) = (network.endpoint("host").await, network.endpoint("dialer").await);
        echo(soon(host.bind("echo")).await.unwrap());
        drop(dial(&dialer, "echo").await);
        let echo = one_named(&network, &resource::service::KIND, "echo").await;
        let (_, pem) = provider();
        let body = json!({"name": "nobody's", "certPem": pem, "enabled": true, "kid": "other",
            "issuer": "https://other.example", "audience": "weft"});
        let other_signer = network.create(&resource::external_jwt_signer::KIND, &body).await;
        Self { network, echo, _host: host, dialer, other_signer }
    }

    /// Somebody who logs in, and holds a circuit, a terminator and an idle connection.
    pub(super) async fn open(&self, why: &str, login: Login, form: Form) -> Held {
        let network = &self.network;
        let name = format!("{why}-{login:?}-{form:?}");
        let body = policy(&name, [true; 3], &[]);
        let policy = network.create(&resource::auth_policy::KIND, &body).await;
        let (identity, issuer, shows) = self.enroll(&name, login, &policy).await;
        let session = Session::begin(network, form, &shows).await;
        network.service(&name, false).await;
        let own = one_named(network, &resource::service::KIND, &name).await;
        let (url, _) = session.service_session(&self.echo, "Dial").await;
        let dials = session.connect(&self.echo, "Dial").await;
        dials.connect(ONE).await;
        dials.until("a circuit", |state| state.connected.contains(&ONE)).await;
        let hosts = session.connect(&own, "Bind").await;
        hosts.bind(ONE).await;
        let mut hosted = dial(&self.dialer, &name).await;
        said(&mut hosted).await;
        let idle = session.connect(&self.echo, "Dial").await;
        let hosted = Mutex::new(hosted);
        let held = Held {
            name,
            login,
            session,
            identity,
            policy,
            issuer,
            url,
            dials,
            hosts,
            idle,
            hosted,
        };
        held.talk().await;
        held
    }

    /// An identity with the credentials of a login; also the CA or the signer.
    async fn enroll(&self, name: &str, login: Login, policy: &str) -> (String, String, Shows) {
        let network = &self.network;
        if login == Login::Certificate {
            let file = network.identity_file(name).await;
            let kind = &resource::identity::KIND;
            let identity = one_named(network, kind, name).await;
            network.patch(kind, &identity, &json!({"authPolicyId": policy})).await;
            let shown = LiveIdentity::load(file.section()).unwrap().current();
            let chain = shown.client().unwrap().clone();
            return (identity, String::new(), Shows::Certificate(chain));
        }
        let body =
            json!({"name": name, "type": "Default", "isAdmin": false, "authPolicyId": policy});
        let identity = network.create(&resource::identity::KIND, &body).await;
        match login {
            Login::Password => {
                let body = json!({"method": "updb", "identityId": identity, "username": name,
                    "password": name});
                network.create(&resource::authenticator::KIND, &body).await;
                (identity, String::new(), Shows::Password(name.to_owned()))
            }
            Login::Token => {
                let (key, pem) = provider();
                let body = json!({"name": name, "certPem": pem, "enabled": true, "kid": name,
                    "issuer": format!("{ISSUER}/{name}"), "audience": "weft",
                    "claimsProperty": "sub", "useExternalId": false});
                let signer = network.create(&resource::external_jwt_signer::KIND, &body).await;
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                let claims = json!({"iss": format!("{ISSUER}/{name}"), "aud": "weft",
                    "sub": identity, "exp": now.as_secs() + 3600});
                let token = TokenSigner::with_kid(key, name).unwrap().sign(&claims).unwrap();
                (identity, signer, Shows::Token(token))
            }
            Login::CaCertificate | Login::Certificate => {
                let (ca, chain) = self.third_party(name, &identity).await;
                (identity, ca, Shows::Certificate(chain))
            }
        }
    }

    /// A verified CA, and a certificate of it for an identity.
    async fn third_party(&self, name: &str, identity: &str) -> (String, KeyedChain) {
        let now = SystemTime::now();
        let root = Authority::make_root(&AuthoritySpec::new(name), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name(name);
        let leaf = Leaf::for_key(key.public(), &subject, vec![], KeyPurpose::Client, now).unwrap();
        let leaf = root.issue(&leaf).unwrap();
        let controller = self.network.controller();
        let (at, ids) = (controller.kernel().now(), controller.kernel().ids());
        let ca = Ca {
            base: Base::new(ids.entity(), at),
            name: name.into(),
            cert_pem: root.certificate().to_pem(),
            fingerprint: root.certificate().fingerprint().into(),
            is_verified: true,
            is_auth_enabled: true,
            ..Ca::default()
        };
        let authenticator = Authenticator {
            base: Base::new(ids.entity(), at),
            identity_id: Id::new(identity),
            updb: None,
            cert: Some(CertCredential {
                fingerprint: leaf.fingerprint().into(),
                cert_pem: leaf.to_pem(),
                ca_id: Some(ca.base.id.clone()),
                public_key_print: key.public().print(),
                ..CertCredential::default()
            }),
        };
        let id = ca.base.id.to_string();
        let system = Caller::system();
        let put = controller.kernel().decide(&system, move |decision| {
            decision.put(ca.clone());
            decision.put(authenticator.clone());
            Ok(())
        });
        put.await.unwrap();
        (id, KeyedChain::new(vec![leaf], key).unwrap())
    }

    async fn delete(&self, kind: &Kind, id: &str) {
        self.network.admin.delete(kind, id).await.unwrap();
    }

    /// Lets something go that a session rests on.
    pub(super) async fn take_away(&self, gone: EndCause, held: &Held) {
        let network = &self.network;
        let (signers, policies) =
            (&resource::external_jwt_signer::KIND, &resource::auth_policy::KIND);
        let session = &held.session;
        let authenticator = async || {
            let filter = format!("identity = \"{}\"", held.identity);
            let kind = &resource::authenticator::KIND;
            let found: Vec<Value> = network.admin.list(kind, Some(&filter)).await.unwrap();
            found[0]["id"].as_str().unwrap().to_owned()
        };
        match gone {
            EndCause::IdentityDisabled => {
                let operations = resource::identity::KIND.operations;
                let disable = operations.iter().find(|it| it.id == "disableIdentity").unwrap();
                let (one, body) = ([held.identity.as_str()], json!({"durationMinutes": 0}));
                let _: Value = network.admin.call(disable, &one, &[], Some(&body)).await.unwrap();
            }
            EndCause::IdentityDeleted => {
                self.delete(&resource::identity::KIND, &held.identity).await;
            }
            EndCause::AuthenticatorDeleted => {
                self.delete(&resource::authenticator::KIND, &authenticator().await).await;
            }
            EndCause::PasswordChanged => {
                let body = json!({"password": "another one"});
                let kind = &resource::authenticator::KIND;
                network.patch(kind, &authenticator().await, &body).await;
            }
            EndCause::SessionDeleted => self.delete(&resource::session::KIND, &session.id).await,
            EndCause::LoggedOut => {
                let path = "/edge/client/v1/current-api-session";
                let seen = session.request(Method::DELETE, path).send().await.unwrap();
                assert!(seen.status().is_success(), "{seen:?}");
            }
            EndCause::AccessTokenRevoked => session.revoke(&session.token).await,
            EndCause::RefreshTokenRevoked => session.revoke(&session.refresh).await,
            EndCause::LoggedOutByBrowser => session.log_out().await,
            EndCause::SignerDisabled => {
                network.patch(signers, &held.issuer, &json!({"enabled": false})).await;
            }
            EndCause::SignerDeleted => self.delete(signers, &held.issuer).await,
            EndCause::SignerWithOtherKey => {
                let (_, pem) = provider();
                network.patch(signers, &held.issuer, &json!({"certPem": pem})).await;
            }
            EndCause::CaDisabled => {
                let body = json!({"isAuthEnabled": false});
                network.patch(&resource::ca::KIND, &held.issuer, &body).await;
            }
            EndCause::CaDeleted => self.delete(&resource::ca::KIND, &held.issuer).await,
            EndCause::MethodForbidden => {
                let is = |login: &[Login]| !login.contains(&held.login);
                let cert = is(&[Login::Certificate, Login::CaCertificate]);
                let allowed = [cert, is(&[Login::Password]), is(&[Login::Token])];
                network.patch(policies, &held.policy, &policy(&held.name, allowed, &[])).await;
            }
            EndCause::SignerForbidden => {
                let body = policy(&held.name, [true; 3], &[&self.other_signer]);
                network.patch(policies, &held.policy, &body).await;
            }
            EndCause::OtherPolicy => {
                let body = policy(&format!("{} no more", held.name), [false, true, true], &[]);
                let other = network.create(policies, &body).await;
                let body = json!({"authPolicyId": other});
                network.patch(&resource::identity::KIND, &held.identity, &body).await;
            }
            EndCause::FactorDemanded => {
                let body = json!({"secondary": {"requireTotp": true}});
                network.patch(policies, &held.policy, &body).await;
            }
        }
    }
}

impl Held {
    /// Everything that the session has before its end.
    pub(super) fn everything(&self) -> Vec<&'static str> {
        vec![
            "the dialing connection",
            "the hosting connection",
            "the idle connection",
            "circuits",
            "circuits to its terminators",
            "terminators",
        ]
    }

    /// What the session has.
    pub(super) async fn left(&self, ground: &Ground) -> Vec<&'static str> {
        let everything = self.everything();
        let circuits = ground.network.circuits().circuits().all();
        let identity = Id::new(&self.identity);
        let terminators = ground.network.controller().kernel().snapshot();
        let is_its = |host: &Id| *host == identity;
        let are = [
            !self.dials.channel.is_closed(),
            !self.hosts.channel.is_closed(),
            !self.idle.channel.is_closed(),
            circuits.iter().any(|it| it.tags.client.as_ref().is_some_and(is_its)),
            circuits.iter().any(|it| it.tags.host.as_ref().is_some_and(is_its)),
            terminators.list::<Terminator>().any(|it| is_its(&it.host_id)),
        ];
        everything.into_iter().zip(are).filter_map(|(what, is)| is.then_some(what)).collect()
    }

    /// Says something on both circuits.
    pub(super) async fn talk(&self) {
        let count = |state: &crate::native::State| {
            state.received.get(&ONE).map(Vec::len).unwrap_or_default()
        };
        let before = count(&self.dials.state());
        self.dials.send(ONE, "hello").await;
        self.dials.until("an answer", |state| count(state) >= before + 5).await;
        said(&mut *self.hosted.lock().await).await;
    }

    /// Whether the router takes the token again.
    pub(super) async fn is_taken(&self) -> bool {
        self.session.is_taken(&self.url).await
    }
}

/// Says something and hears it again.
async fn said(connection: &mut Connection) {
    let mut heard = [0; 5];
    connection.write_all(b"hello").await.unwrap();
    connection.flush().await.unwrap();
    soon(connection.read_exact(&mut heard)).await.unwrap();
}

async fn one_named(network: &Network, kind: &Kind, name: &str) -> String {
    let filter = format!("name = \"{name}\"");
    let found: Vec<Value> = network.admin.list(kind, Some(&filter)).await.unwrap();
    found[0]["id"].as_str().unwrap().to_owned()
}
