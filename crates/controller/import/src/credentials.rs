//! Credentials: authenticators, enrollments and second factors.

use weft_identity::Certificate;
use weft_model::entity::{
    Authenticator, CertCredential, Enrollment, EnrollmentMethod, Mfa, UpdbCredential,
};
use weft_model::{Choice, Entity, Timestamp};

use crate::fields::{Fields, Taken, Untaken};
use crate::layout::Layout;

/// Reads an authenticator.
pub(crate) fn authenticator(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let method = fields.needed("method")?;
    let identity_id = fields
        .id("identity")
        .ok_or_else(|| Untaken::Entity("it belongs to no identity".to_owned()))?;
    let (mut updb, mut cert) = (None, None);
    match method.as_str() {
        "updb" => updb = Some(Box::new(password(fields)?)),
        "cert" => cert = Some(certificate(fields)?),
        other => {
            return Err(Untaken::Entity(format!("weft has no method {other:?}")));
        }
    }
    Ok(Authenticator { base: fields.base()?, identity_id, updb, cert }.into())
}

fn password(fields: &mut Fields<'_, '_>) -> Taken<UpdbCredential> {
    let username = fields.needed("updbUsername")?;
    fields.stored.name.clone_from(&username);
    let (password, salt) = (fields.full_text("updbPassword"), fields.full_text("updbSalt"));
    let (Some(password), Some(salt)) = (password, salt) else {
        let reason = "it has no hash or no salt: set a new password";
        return Err(Untaken::Entity(reason.to_owned()));
    };
    Ok(UpdbCredential { username: username.into(), password, salt, ..UpdbCredential::default() })
}

fn certificate(fields: &mut Fields<'_, '_>) -> Taken<CertCredential> {
    let stored = fields.full_text("certFingerprint");
    let cert_pem = fields.text("certPem").unwrap_or_default();
    let fingerprint = checked_print(fields, "certFingerprint", stored, &cert_pem);
    let fingerprint = fingerprint.ok_or_else(|| {
        Untaken::Entity("it has neither a certificate nor a fingerprint".to_owned())
    })?;
    let unverified_pem = fields.text("unverifiedCertPem").unwrap_or_default();
    let unverified_print = fields.text("unverifiedCertFingerprint").unwrap_or_default();
    let is_extend_requested = fields.flag("isExtendRequested", false);
    Ok(CertCredential {
        fingerprint: fingerprint.into(),
        cert_pem,
        is_issued_by_network: fields.flag("isIssuedByNetwork", false),
        // Found again when all authorities are read.
        ca_id: None,
        is_extend_requested,
        is_key_roll_requested: is_extend_requested && fields.flag("isKeyRollRequested", false),
        extend_requested_at: fields.time("extendRequestedAt"),
        last_extend_rolled_keys: fields.flag("lastExtendRolledKeys", false),
        last_auth_resolved_to_root: fields.flag("lastAuthResolvedToRoot", false),
        public_key_print: fields.text("publicKeyPrint").unwrap_or_default(),
        unverified_cert_pem: unverified_pem.into(),
        unverified_fingerprint: unverified_print.into(),
    })
}

/// The fingerprint of a certificate: that of its text, if there is one. A stored one that differs is a loss.
pub(crate) fn checked_print(
    fields: &mut Fields<'_, '_>,
    field: &'static str,
    stored: Option<String>,
    pem: &str,
) -> Option<String> {
    let first = Certificate::from_pem(pem.as_bytes()).ok().and_then(|all| all.into_iter().next());
    let Some(certificate) = first else {
        if !pem.is_empty() {
            fields.lose("certPem", "it holds no certificate that can be read");
        }
        return stored;
    };
    let print = certificate.fingerprint();
    if let Some(stored) = stored.filter(|stored| stored != print) {
        fields.lose(field, format!("{stored} is not that of the certificate, which is {print}"));
    }
    Some(print.to_owned())
}

/// Reads an open enrollment.
pub(crate) fn enrollment(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let method = fields.needed("method")?;
    let method = EnrollmentMethod::parse(&method)
        .ok_or_else(|| Untaken::Entity(format!("weft has no method {method:?}")))?;
    let token = fields.needed("token")?;
    let expires_at = fields.time("expiresAt");
    let router = fields.id("edgeRouter").or_else(|| fields.id("transitRouter"));
    // The original knows this time by another name.
    let issued_at = fields.time("issuedAt");
    let mut base = fields.base()?;
    if let Some(issued_at) = issued_at.filter(|_| base.created_at == Timestamp::default()) {
        (base.created_at, base.updated_at) = (issued_at, base.updated_at.max(issued_at));
    }
    let enrollment = Enrollment {
        method,
        token: token.into(),
        jwt: fields.text("jwt").unwrap_or_default(),
        expires_at: expires_at.unwrap_or(base.created_at),
        identity_id: fields.id("identity"),
        router_id: router,
        ca_id: fields.id("caId"),
        username: fields.full_text("username").map(Into::into),
        base,
    };
    if enrollment.identity_id.is_none() && enrollment.router_id.is_none() {
        let reason = "it is for no identity and no router";
        return Err(Untaken::Entity(reason.to_owned()));
    }
    if expires_at.is_none() {
        fields.lose("expiresAt", "it has no end, which weft takes for ended");
    }
    Ok(enrollment.into())
}

/// Reads a second factor.
pub(crate) fn mfa(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let identity_id = fields
        .id("identity")
        .ok_or_else(|| Untaken::Entity("it belongs to no identity".to_owned()))?;
    let mfa = Mfa {
        base: fields.base()?,
        identity_id,
        is_verified: fields.flag("isVerified", false),
        secret: fields.needed("secret")?,
        recovery_codes: fields.list("recoveryCodes")?,
        last_step: 0,
    };
    Ok(mfa.into())
}
