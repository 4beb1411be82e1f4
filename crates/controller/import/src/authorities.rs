//! Other issuers: third-party CAs, and signers of tokens. Revocations.

use weft_bolt::BoltBucket;
use weft_model::entity::{
    Ca, ClaimLocation, ClaimMatcher, ClaimParser, ExtJwtSigner, ExternalIdClaim, Revocation,
    RevocationType, TargetToken,
};
use weft_model::{Choice, Entity};

use crate::credentials::checked_print;
use crate::fields::{Fields, Taken, Untaken};
use crate::layout::Layout;

/// Reads a third-party CA.
pub(crate) fn ca(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let cert_pem = fields.needed("certPem")?;
    let stored = fields.full_text("fingerprint");
    let print = checked_print(fields, "fingerprint", stored, &cert_pem);
    let fingerprint = print
        .ok_or_else(|| Untaken::Entity("it has no certificate that can be read".to_owned()))?;
    let claim = match fields.bucket("externalIdClaim") {
        Some(bucket) => Some(claim(fields, &bucket)?),
        None => None,
    };
    let mut identity_roles = fields.list("identityRoles")?;
    identity_roles.retain(|role| match weft_model::role::check_attribute(role) {
        Ok(()) => true,
        Err(error) => {
            fields.lose("identityRoles", error.to_string());
            false
        }
    });
    let ca = Ca {
        base: fields.base()?,
        name,
        cert_pem,
        fingerprint: fingerprint.into(),
        is_verified: fields.flag("isVerified", false),
        verification_token: fields.text("verificationToken").unwrap_or_default(),
        is_auth_enabled: fields.flag("isAuthEnabled", false),
        is_auto_ca_enrollment_enabled: fields.flag("isAutoCaEnrollmentEnabled", false),
        is_ott_ca_enrollment_enabled: fields.flag("isOttCaEnrollmentEnabled", false),
        identity_roles: identity_roles.into_iter().map(Into::into).collect(),
        identity_name_format: fields.text("identityNameFormat").unwrap_or_default(),
        external_id_claim: claim,
        verified_by: "".into(),
    };
    Ok(ca.into())
}

fn claim<'a>(fields: &mut Fields<'a, '_>, bucket: &BoltBucket<'a>) -> Taken<ExternalIdClaim> {
    fields.within(bucket, |fields| {
        let index = fields.number_within("externalIdClaim.index", 0, i64::from(u32::MAX));
        Ok(ExternalIdClaim {
            location: fields.choice("externalIdClaim.location", ClaimLocation::CommonName),
            matcher: fields.choice("externalIdClaim.matcher", ClaimMatcher::All),
            matcher_criteria: fields.text("externalIdClaim.matcherCriteria").unwrap_or_default(),
            parser: fields.choice("externalIdClaim.parser", ClaimParser::None),
            parser_criteria: fields.text("externalIdClaim.parserSeparator").unwrap_or_default(),
            index: u32::try_from(index).unwrap_or_default(),
        })
    })
}

/// Reads an external signer of tokens.
pub(crate) fn ext_jwt_signer(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let cert_pem = fields.full_text("certPem");
    let stored = fields.full_text("fingerprint");
    let fingerprint = match &cert_pem {
        Some(pem) => checked_print(fields, "fingerprint", stored, pem),
        None => stored,
    };
    let signer = ExtJwtSigner {
        base: fields.base()?,
        name,
        issuer: fields.full_text("issuer").map(Into::into),
        audience: fields.full_text("audience").map(Into::into),
        cert_pem,
        jwks_endpoint: fields.full_text("jwksEndpoint"),
        kid: fields.full_text("kid").map(Into::into),
        fingerprint: fingerprint.map(Into::into),
        common_name: fields.text("commonName").unwrap_or_default(),
        not_before: fields.time("notBefore"),
        not_after: fields.time("notAfter"),
        enabled: fields.flag("enabled", false),
        external_auth_url: fields.full_text("externalAuthUrl"),
        claims_property: fields.full_text("claimsProperty"),
        use_external_id: fields.flag("useExternalId", false),
        client_id: fields.full_text("clientId"),
        scopes: fields.list("scopes")?,
        target_token: fields.choice("targetToken", TargetToken::Access),
        enroll_to_cert_enabled: fields.flag("enrollToCertEnabled", false),
        enroll_to_token_enabled: fields.flag("enrollToTokenEnabled", false),
        enroll_attribute_claims_selector: fields
            .text("enrollAttributeClaimsSelector")
            .unwrap_or_default(),
        enroll_name_claims_selector: fields.text("enrollNameClaimsSelector").unwrap_or_default(),
        enroll_auth_policy_id: fields.id("enrollAuthPolicyId"),
    };
    Ok(signer.into())
}

/// Reads a revocation. Without a type, as 1.6 stores them, its id is that of an identity or of a token; which of them
/// is told when all identities are read.
pub(crate) fn revocation(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let expires_at =
        fields.time("expiresAt").ok_or_else(|| Untaken::Entity("it has no end".to_owned()))?;
    let revocation_type = match fields.full_text("type") {
        None => RevocationType::Jti,
        Some(text) => RevocationType::parse(&text)
            .ok_or_else(|| Untaken::Entity(format!("weft has no type {text:?}")))?,
    };
    let revocation = Revocation {
        base: fields.base()?,
        revocation_type,
        expires_at,
        issued_before: fields.time("issuedBefore"),
        ..Revocation::default()
    };
    Ok(revocation.into())
}
