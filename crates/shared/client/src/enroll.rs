//! Enrollment: from a one-time token to certificates.
//!
//! The token is a JWT signed with the key of the certificate that the controller presents at the
//! address in the token. Enrollment therefore takes that certificate, checks the token with it,
//! fetches the CA bundle from its holder ([`crate::trust`]), and only then requests certificates
//! from a server whose chain leads to the bundle (docs/protocol/auth.md 4 to 6;
//! docs/protocol/edge-control-plane.md 17.1).
//!
//! ```text
//! token -> address -> leaf certificate -> signature of the token -> CA bundle -> certificates
//! ```

use std::sync::Arc;
use std::time::SystemTime;

use url::Url;
use weft_contract::json::Password;
use weft_contract::resource::enrollment::{EnrollBody, EnrollmentCerts, EnrollmentClaims, method};
use weft_contract::{Api, Load, Method, Word as _, headers};
use weft_identity::token::{self, Expect, TokenError};
use weft_identity::{
    BYTE_ORDER_MARK, Certificate, CertificateRequest, ExternalLogin, IdentityFile,
    IdentityMaterial, KeyedChain, LiveIdentity, PrivateKey, San, SubjectName, TrustBundle,
};
use weft_proxy::Proxies;

use crate::address::ControllerAddress;
use crate::call::to_value;
use crate::error::{Error, Result};
use crate::http::{Http, HttpResponse, MAX_WAIT, Outgoing, Tls};
use crate::trust::{bundle_at, leaf_of};

/// A verified token, with the CA bundle to trust from then on.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// Claims of the token.
    pub claims: EnrollmentClaims,
    /// Address of the controller that issued it.
    pub address: ControllerAddress,
    /// The CA bundle of the network.
    pub bundle: TrustBundle,
    /// The proxies on the way to the controller.
    proxies: Arc<Proxies>,
}

/// Names in a router's certificates, besides its id.
#[derive(Clone, Debug, Default)]
pub struct CertificateNames {
    /// Subject; its common name is replaced with the router's id.
    pub subject: SubjectName,
    /// DNS names and addresses of the router.
    pub sans: Vec<San>,
}

/// Result of a router's enrollment.
#[derive(Clone, Debug)]
pub struct RouterCerts {
    /// Id of the router.
    pub id: String,
    /// True if controllers know it as an edge router, false if as a router of the fabric only.
    pub is_edge: bool,
    /// Client certificate and chain, PEM.
    pub cert: String,
    /// Server certificate and chain, PEM.
    pub server_cert: String,
    /// CA bundle, PEM.
    pub ca: String,
    /// Control addresses of the controllers, from the token.
    pub controllers: Vec<String>,
}

/// Claims of a token without any check: for display, never to be trusted.
///
/// # Errors
/// When the text is not an enrollment token.
pub fn peek(jwt: &str) -> Result<EnrollmentClaims> {
    Ok(read_unverified(jwt)?.0)
}

/// Checks a token with the certificate of its issuer and fetches the CA bundle.
async fn verify(jwt: &str, proxies: Proxies) -> Result<Invitation> {
    let (claims, address) = read_unverified(jwt)?;
    let proxies = Arc::new(proxies);
    let leaf = leaf_of(&address, &proxies).await?;
    let expect = Expect {
        now: SystemTime::now(),
        issuer: Some(&claims.iss),
        audience: &[],
        require_expiry: false,
        longest: None,
    };
    let checked = token::verify_with_certificate(trimmed(jwt), &leaf, &expect);
    let claims: EnrollmentClaims = checked.map_err(|error| match error {
        weft_identity::Error::Token(reason) => refused(&reason, &address, &leaf),
        other => other.into(),
    })?;
    let bundle = bundle_at(&address, &ca_path(&claims.iss), &leaf, &proxies).await?;
    Ok(Invitation { claims, address, bundle, proxies })
}

/// Enrolls an identity by one-time token. The private key is not sent.
///
/// # Errors
/// When the token cannot be verified, is for something else, or the controller refuses.
pub async fn enroll_ott(jwt: &str, key: &PrivateKey) -> Result<IdentityFile> {
    wanted(&peek(jwt)?, &[method::OTT])?;
    let invitation = verify(jwt, Proxies::of_process()).await?;
    let claims = &invitation.claims;
    let subject =
        SubjectName { organization: "weft".into(), ..SubjectName::common_name(&claims.sub) };
    let request = CertificateRequest::make_pem(key, &subject, &[])?;
    let certs = invitation.send(method::OTT, headers::PEM, request.into_bytes()).await?;
    fits(&certs.cert, key)?;
    let id = IdentityMaterial::inline(&key.to_pem(), &certs.cert, &invitation.bundle.to_pem());
    invitation.file(id, &certs)
}

/// A certificate of a third-party CA and its key, as an identity file names them: `file://` and a path, or `pem:` and
/// the text.
#[derive(Clone, Debug)]
pub struct OwnCertificate {
    /// The certificate and its chain.
    pub cert: String,
    /// The key. It is not sent.
    pub key: String,
}

/// Enrolls an identity with a certificate of a third-party CA: by the one-time token of the identity, or by the token
/// of the CA, with which the controller makes a new identity. `name` is what the new one would like to be called.
///
/// # Errors
/// As [`enroll_ott`].
pub async fn enroll_certificate(
    jwt: &str,
    own: &OwnCertificate,
    name: Option<&str>,
) -> Result<IdentityFile> {
    wanted(&peek(jwt)?, &[method::OTT_CA, method::CA])?;
    let invitation = verify(jwt, Proxies::of_process()).await?;
    let ca = format!("pem:{}", invitation.bundle.to_pem());
    let id = IdentityMaterial { cert: own.cert.clone(), key: own.key.clone(), ca };
    let file = IdentityFile { id, ..IdentityFile::default() };
    let tls = Tls::Identity(LiveIdentity::load(file.section())?);
    let em = &invitation.claims.em;
    let name = name.filter(|_| em == method::CA).map(str::to_owned);
    let body = to_value(&EnrollBody { name, ..EnrollBody::default() })?.to_string();
    let certs = invitation.send_over(&tls, em, headers::JSON, body.into_bytes()).await?;
    invitation.file(file.id, &certs)
}

/// Enrolls an identity that chooses a password by its one-time token; returns its user name.
///
/// # Errors
/// As [`enroll_ott`].
pub async fn enroll_password(jwt: &str, password: Password) -> Result<String> {
    wanted(&peek(jwt)?, &[method::UPDB])?;
    let invitation = verify(jwt, Proxies::of_process()).await?;
    let body = EnrollBody { password: Some(password), ..EnrollBody::default() };
    let body = to_value(&body)?.to_string().into_bytes();
    Ok(invitation.send(method::UPDB, headers::JSON, body).await?.username)
}

/// Makes the identity file of somebody who logs in with tokens of an identity provider, of the token of a network: it names
/// the controller and whom to trust. Nothing is enrolled, and the token can be used again.
///
/// # Errors
/// When the token cannot be verified, or is for something else.
pub async fn join(jwt: &str, login: ExternalLogin) -> Result<IdentityFile> {
    wanted(&peek(jwt)?, &[method::NETWORK])?;
    let invitation = verify(jwt, Proxies::of_process()).await?;
    let api = invitation.address.at(Api::Client, "")?.to_string();
    Ok(IdentityFile {
        apis: vec![api.clone()],
        api,
        id: IdentityMaterial::inline("", "", &invitation.bundle.to_pem()),
        external_login: Some(login),
        ..IdentityFile::default()
    })
}

/// Enrolls a router, of the edge or of the fabric only, by one-time token. The private key is not
/// sent; both certificates are for it. `proxies` are those on the way to the controller.
///
/// # Errors
/// As [`enroll_ott`].
pub async fn enroll_router(
    jwt: &str,
    key: &PrivateKey,
    names: &CertificateNames,
    proxies: Proxies,
) -> Result<RouterCerts> {
    wanted(&peek(jwt)?, &[method::EDGE_ROUTER, method::ROUTER])?;
    let invitation = verify(jwt, proxies).await?;
    let claims = &invitation.claims;
    let subject = SubjectName { common_name: claims.sub.clone(), ..names.subject.clone() };
    let body = EnrollBody {
        cert_csr: Some(CertificateRequest::make_pem(key, &subject, &names.sans)?),
        server_cert_csr: Some(CertificateRequest::make_pem(key, &subject, &names.sans)?),
        ..EnrollBody::default()
    };
    let body = to_value(&body)?.to_string().into_bytes();
    let certs = invitation.send(&claims.em, headers::JSON, body).await?;
    fits(&certs.cert, key)?;
    fits(&certs.server_cert, key)?;
    TrustBundle::from_pem(certs.ca.as_bytes())?;
    Ok(RouterCerts {
        id: claims.sub.clone(),
        is_edge: claims.em == method::EDGE_ROUTER,
        cert: certs.cert,
        server_cert: certs.server_cert,
        ca: certs.ca,
        controllers: claims.controllers(),
    })
}

impl Invitation {
    /// The identity file with these keys, after the answer of the controller.
    fn file(&self, id: IdentityMaterial, answer: &EnrollmentCerts) -> Result<IdentityFile> {
        let api = self.address.at(Api::Client, "")?.to_string();
        let controllers = answer.controllers.iter();
        let apis = controllers.filter_map(|it| it.api_addresses.get(Api::Client.as_str()));
        let apis = apis.flatten().filter(|address| address.version == "v1");
        let apis: Vec<String> = apis.map(|address| address.url.clone()).collect();
        let apis = if apis.is_empty() { vec![api.clone()] } else { apis };
        Ok(IdentityFile { api, apis, id, ..IdentityFile::default() })
    }

    /// Sends the token and the request, without a certificate.
    async fn send(
        &self,
        method: &str,
        media: &'static str,
        body: Vec<u8>,
    ) -> Result<EnrollmentCerts> {
        self.send_over(&Tls::Anonymous(self.bundle.clone()), method, media, body).await
    }

    async fn send_over(
        &self,
        tls: &Tls,
        method: &str,
        media: &'static str,
        body: Vec<u8>,
    ) -> Result<EnrollmentCerts> {
        let mut url = self.address.at(Api::Client, "/enroll")?;
        url.query_pairs_mut().append_pair("method", method);
        // The token of a CA opens nothing by itself, and is not sent.
        if method != method::CA {
            url.query_pairs_mut().append_pair("token", &self.claims.jti);
        }
        let request = Outgoing {
            method: Method::Post,
            url,
            headers: vec![("accept", headers::JSON.to_owned())],
            body: Some((media, body)),
            load: Load::Usual,
            patience: MAX_WAIT,
        };
        let http = Http::through(tls, Arc::clone(&self.proxies))?;
        read_certs(http.send(&request).await?.accept()?)
    }
}

/// Certificates in an answer. Very old controllers answer with bare PEM (docs/protocol/auth.md
/// 5.2).
fn read_certs(answer: HttpResponse) -> Result<EnrollmentCerts> {
    if answer.body.starts_with(b"-----BEGIN") {
        let cert = String::from_utf8(answer.body.clone())
            .map_err(|_| answer.odd("PEM with odd characters"))?;
        return Ok(EnrollmentCerts { cert, ..EnrollmentCerts::default() });
    }
    Ok(answer.envelope()?.data)
}

/// Claims and issuer's address of an unverified token.
/// The token without spaces, line ends and the byte order mark that some programs save around it.
fn trimmed(jwt: &str) -> &str {
    jwt.trim_matches(|one: char| one.is_whitespace() || one == BYTE_ORDER_MARK)
}

fn read_unverified(jwt: &str) -> Result<(EnrollmentClaims, ControllerAddress)> {
    let (_, claims): (_, EnrollmentClaims) =
        token::peek(trimmed(jwt)).map_err(|error| Error::Token(error.to_string()))?;
    let address = claims.iss.parse()?;
    Ok((claims, address))
}

/// Path of the issuer's CA bundle; a path in the token's address replaces the usual one.
fn ca_path(issuer: &str) -> String {
    let path = Url::parse(issuer).map(|url| url.path().trim_end_matches('/').to_owned());
    let base = path.ok().filter(|path| !path.is_empty());
    format!(
        "{}{}",
        base.as_deref().unwrap_or(Api::Client.base()),
        weft_contract::paths::CA_CERTIFICATES
    )
}

fn wanted(claims: &EnrollmentClaims, methods: &[&str]) -> Result<()> {
    if methods.contains(&claims.em.as_str()) {
        return Ok(());
    }
    let what = match claims.em.as_str() {
        method::OTT => "it enrolls an identity: use `weft enroll`",
        method::OTT_CA | method::CA => {
            "it enrolls with a certificate of a third-party CA: use `weft enroll TOKENFILE --cert FILE --key FILE`"
        }
        method::UPDB => "it enrolls with a password that you choose: use `weft enroll TOKENFILE`",
        method::NETWORK => {
            "it enrolls nobody: it says which network this is, for logins with tokens of a provider"
        }
        method::EDGE_ROUTER | method::ROUTER => "it enrolls a router: use `weft router enroll`",
        other => {
            let methods = methods.join("` or `");
            return Err(Error::Token(format!("its method is `{other}`, not `{methods}`")));
        }
    };
    Err(Error::Token(what.to_owned()))
}

fn refused(reason: &TokenError, address: &ControllerAddress, leaf: &Certificate) -> Error {
    Error::Token(match reason {
        TokenError::Signature | TokenError::Algorithm(_) => format!(
            "it is not signed with the key that {address} presents (certificate {}); either the \
             token is not from there, or somebody is in between",
            leaf.fingerprint()
        ),
        TokenError::Expired => "it has expired; ask for a new one".to_owned(),
        other => other.to_string(),
    })
}

/// Checks that the issued certificate is for this key.
fn fits(pem: &str, key: &PrivateKey) -> Result<()> {
    KeyedChain::new(Certificate::from_pem(pem.as_bytes())?, key.clone())?;
    Ok(())
}
