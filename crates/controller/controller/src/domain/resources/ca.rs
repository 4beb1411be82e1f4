//! Third-party certificate authorities (docs/protocol/auth.md 14; docs/protocol/management-api.md
//! 7.7). A CA counts once it is verified: its operator showed a certificate that the CA issued for
//! the verification token. Of several authorities in its text the one that issued this certificate counts, and
//! those below that one. A certificate with the key of one of the network's own authorities is
//! refused: that authority issues certificates to every identity, router and controller, so they
//! would all pass as identities of the CA.

use std::sync::Arc;

use weft_auth::{external_id, third_party_ca};
use weft_contract::entity::Link;
use weft_contract::resource::ca as contract;
use weft_contract::resource::ca::{CaBody, CaDetail, ExternalIdClaimBody, ExternalIdClaimDetail};
use weft_contract::{Api, Body as _, ErrorCode, Kind as ContractKind, Verb, headers};
use weft_identity::{Certificate, RequiredKeyUsage, TrustBundle, Verify};
use weft_kernel::call::HandlerRow;
use weft_kernel::clock::system_time;
use weft_kernel::decision::Decision;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::Id;
use weft_model::entity::{Ca, ExternalIdClaim};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{Readable, Resource, require};
use crate::domain::values::Show;

/// The resource.
pub(crate) struct Cas;

/// Index of the fingerprint among the unique values of a CA.
const FINGERPRINT: usize = 0;

/// The reason for refusing an authority of the network.
const OF_THE_NETWORK: &str = "has the key of an authority of this network, which issues to \
    controllers, routers and identities: give the certificate of another CA";

fields! {
    Cas of Ca, set by CaBody, shown as CaDetail, searched as "cas";

    tags;
    name { set, shown, searched }
    fingerprint { kept, merged, shown, searched }
    is_verified { kept, shown, searched }
    verified_by { kept }
    verification_token { kept, merged, shown, searched }
    is_auto_ca_enrollment_enabled { set, shown, searched }
    is_ott_ca_enrollment_enabled { set, shown, searched }
    is_auth_enabled { set, shown, searched }
    identity_roles { set, shown, searched }
    identity_name_format { set by trimmed, merged, shown }
    cert_pem { kept, merged, shown }
    external_id_claim { kept, merged, shown }
    read cert_pem, external_id_claim;
}

impl Readable for Cas {
    const KIND: &'static ContractKind = &contract::KIND;

    fn detail(context: &Context, record: &Ca) -> CaDetail {
        let mut detail = Self::show(context, record);
        let id = record.base.id.as_str();
        let mut link = |name: &str| {
            detail.base.links.insert(name.to_owned(), Link::to(&format!("cas/{id}/{name}")));
        };
        if !record.is_verified {
            link("verify");
        }
        if record.is_auto_ca_enrollment_enabled {
            link("jwt");
        }
        detail
    }
}

impl Show<ExternalIdClaimDetail> for ExternalIdClaim {
    fn show(&self) -> ExternalIdClaimDetail {
        let Self { location, matcher, matcher_criteria, parser, parser_criteria, index } = self;
        ExternalIdClaimDetail {
            index: index.show(),
            location: convert::word(*location),
            matcher: convert::word(*matcher),
            matcher_criteria: matcher_criteria.show(),
            parser: convert::word(*parser),
            parser_criteria: parser_criteria.show(),
        }
    }
}

/// Prepared values of a new CA.
#[derive(Default)]
pub(crate) struct Prepared {
    certificate: Option<Certificate>,
    token: String,
}

impl Resource for Cas {
    type Prepared = Prepared;

    async fn prepare(
        controller: &Controller,
        _caller: &Caller,
        body: &CaBody,
        verb: Verb,
        _id: &Id,
    ) -> Result<Prepared> {
        let certificate = match verb {
            Verb::Create => {
                let text = body.cert_pem.as_deref().unwrap_or_default();
                let all = ca_certificates(text)?;
                let own = all.iter().find(|it| controller.auth().keyring().is_of_authority(it));
                if let Some(own) = own {
                    let print = own.fingerprint();
                    return Err(Failure::field("certPem", OF_THE_NETWORK, print));
                }
                all.into_iter().next()
            }
            _ => None,
        };
        Ok(Prepared { certificate, token: controller.kernel().ids().entity().to_string() })
    }

    fn merge(record: &mut Ca, body: &CaBody, prepared: &Prepared, verb: Verb) -> Result<()> {
        if let Some(certificate) = &prepared.certificate {
            record.cert_pem = body.cert_pem.clone().unwrap_or_default();
            record.fingerprint = certificate.fingerprint().into();
            record.verification_token.clone_from(&prepared.token);
        }
        Self::set(record, body, verb)?;
        if record.identity_name_format.is_empty() {
            record.identity_name_format = contract::DEFAULT_NAME_FORMAT.to_owned();
        }
        match &body.external_id_claim {
            Some(claim) => set_claim(record, claim, verb)?,
            // A patch that does not name the claim clears it. Clients send an empty object to keep
            // it.
            None => record.external_id_claim = None,
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Ca>,
        after: &mut Ca,
        _prepared: &Prepared,
    ) -> Result<()> {
        let same = decision.tip().by_unique::<Ca>(FINGERPRINT, &after.fingerprint);
        if before.is_none() && same.is_some() {
            let reason = "another CA has this certificate";
            return Err(Failure::field("certPem", reason, &*after.fingerprint));
        }
        Ok(())
    }
}

fn trimmed(text: &str) -> Result<String> {
    Ok(text.trim().to_owned())
}

/// The certificates of a new CA: at least the first one has to be an authority's.
fn ca_certificates(pem: &str) -> Result<Vec<Certificate>> {
    let refused = |code, reason: &str| {
        Err(Failure::coded_field(code, "certPem", reason.to_owned(), String::new()))
    };
    let parsed = Certificate::from_pem(pem.as_bytes()).unwrap_or_default();
    let Some(first) = parsed.first() else {
        return refused(ErrorCode::CouldNotParsePemBlock, "must hold a certificate in PEM");
    };
    if !first.is_ca() {
        return refused(ErrorCode::CertificateIsNotCa, "must be the certificate of a CA");
    }
    if parsed.len() > third_party_ca::MAX_CERTIFICATES {
        let reason = format!("must hold at most {} certificates", third_party_ca::MAX_CERTIFICATES);
        return refused(ErrorCode::CouldNotValidate, &reason);
    }
    // No certificate below such a key is accepted (RSA below 2048 bits, unknown curves): better said now than later.
    if let Err(error) = first.public_key() {
        let reason = format!("has a key that cannot be used: {error}");
        return refused(ErrorCode::CouldNotValidate, &reason);
    }
    Ok(parsed)
}

/// Puts a claim into a CA. An empty object leaves the claim unchanged; a patch may send a part of
/// the claim.
fn set_claim(record: &mut Ca, body: &ExternalIdClaimBody, verb: Verb) -> Result<()> {
    if body.members().is_empty() {
        return Ok(());
    }
    let at = |name: &str| format!("externalIdClaim.{name}");
    let current = record.external_id_claim.take().filter(|_| verb == Verb::Patch);
    let is_new = current.is_none();
    let given = body.members();
    let missing = ExternalIdClaimBody::FIELDS.iter().find(|field| !given.contains(&field.name));
    if let Some(field) = missing.filter(|_| is_new) {
        let field = at(field.name);
        return Err(Failure::field(&field, format!("{field} in body is required"), ""));
    }
    let mut claim = current.unwrap_or_default();
    let ExternalIdClaimBody { index, location, matcher, matcher_criteria, parser, parser_criteria } =
        body;
    if let Some(word) = location {
        claim.location = convert::choice(*word);
    }
    if let Some(word) = matcher {
        claim.matcher = convert::choice(*word);
    }
    if let Some(word) = parser {
        claim.parser = convert::choice(*word);
    }
    if let Some(text) = matcher_criteria {
        claim.matcher_criteria.clone_from(text);
    }
    if let Some(text) = parser_criteria {
        claim.parser_criteria.clone_from(text);
    }
    if let Some(index) = index {
        claim.index = u32::try_from(*index)
            .map_err(|_| Failure::field(&at("index"), "must be 0 or more", index.to_string()))?;
    }
    external_id::check(&claim)
        .map_err(|(name, reason)| Failure::invalid_field(&at(name), reason, ""))?;
    record.external_id_claim = Some(claim);
    Ok(())
}

/// The actions on CAs.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] =
    &[(Api::Management, "getCaJwt", &jwt), (Api::Management, "verifyCa", &verify)];

/// The ticket with which holders of the CA's certificates enroll; all of them use the same.
async fn jwt(controller: Controller, _caller: Caller, call: Call) -> Result<Reply> {
    let snapshot = controller.kernel().snapshot();
    let view = weft_kernel::view::View::of(&snapshot);
    let ca = require::<Cas>(view, call.id(0))?;
    Ok(Reply::raw(headers::JWT, controller.auth().ca_jwt(ca.base.id.as_str())))
}

/// Verifies a CA: its operator shows a certificate that proves the key (docs/protocol/auth.md
/// 14.1).
async fn verify(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let snapshot = controller.kernel().snapshot();
    let view = weft_kernel::view::View::of(&snapshot);
    let seen = Arc::clone(require::<Cas>(view, call.id(0))?);
    if seen.is_verified {
        return Err(ErrorCode::CaAlreadyVerified.into());
    }
    let certificate = proof(&call.body)?;
    if certificate.common_name() != Some(seen.verification_token.as_str()) {
        return Err(ErrorCode::InvalidCommonName.into());
    }
    let proven = proven(&seen, &certificate, &controller)?;
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let ca = require::<Cas>(decision.view(), seen.base.id.as_str())?;
            if ca.is_verified {
                return Err(ErrorCode::CaAlreadyVerified.into());
            }
            let mut ca = (**ca).clone();
            ca.is_verified = true;
            ca.verified_by = proven.fingerprint().into();
            ca.base.updated_at = decision.now();
            decision.put(ca);
            Ok(())
        })
        .await?;
    Reply::empty()
}

/// The certificate in the body of a verification.
fn proof(body: &[u8]) -> Result<Certificate> {
    let text = String::from_utf8_lossy(body);
    if text.trim().is_empty() {
        return Err(Failure::because(ErrorCode::CouldNotParseBody, "a certificate is expected"));
    }
    let label = text.split("-----BEGIN ").nth(1).and_then(|rest| rest.split("-----").next());
    match label {
        None => return Err(ErrorCode::CouldNotParsePemBlock.into()),
        Some("CERTIFICATE") => {}
        Some(_) => return Err(ErrorCode::ExpectedPemCertificate.into()),
    }
    let parsed = Certificate::from_pem(body).unwrap_or_default();
    parsed.into_iter().next().ok_or_else(|| ErrorCode::CouldNotParseX509FromDer.into())
}

/// The authority in the text of a CA that issued a certificate, and whose key is thereby proven.
fn proven(ca: &Ca, certificate: &Certificate, controller: &Controller) -> Result<Certificate> {
    let authorities = third_party_ca::named(ca);
    let refused = |reason: String| Failure::because(ErrorCode::CertificateFailedValidation, reason);
    if authorities.iter().any(|it| controller.auth().keyring().is_of_authority(it)) {
        return Err(refused(format!("the CA {OF_THE_NETWORK}")));
    }
    // Certificates of the CA are public, and show nothing about the holders of the keys.
    if authorities.contains(certificate) || certificate.fingerprint() == &*ca.fingerprint {
        return Err(refused("the certificate is that of the CA itself".into()));
    }
    let how = Verify { usage: RequiredKeyUsage::Any, ..Verify::default() };
    let now = system_time(controller.kernel().now());
    let path = TrustBundle::new(authorities).verify_leaf(certificate, how, now);
    let path = path.map_err(|error| refused(error.to_string()))?;
    path.into_iter().next_back().ok_or_else(|| refused("no authority issued it".into()))
}
