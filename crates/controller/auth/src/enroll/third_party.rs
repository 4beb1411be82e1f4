//! Enrollment with a certificate of a third-party CA: with a ticket (`ottca`), or by the
//! certificate alone (`ca`), which makes a new identity (docs/protocol/auth.md 5.3, 14.3, 14.4).

use std::sync::Arc;

use weft_contract::resource::ca::DEFAULT_NAME_FORMAT;
use weft_contract::resource::enrollment::EnrollmentCerts;
use weft_contract::{Api, Cause, ErrorCode};
use weft_identity::{Certificate, Error, RequiredKeyUsage, Verify, to_pem};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Reply, Result};
use weft_model::entity::{AuthPolicy, Authenticator, Ca, CertCredential, Enrollment, Identity};
use weft_model::{Base, Id, Snapshot};

use crate::admission::{LoginPermit, Sender};
use crate::credentials::credential;
use crate::enroll::issue::take;
use crate::handle::Auth;
use crate::{external_id, third_party_ca, this_controller};

/// Numbers that are tried for the name of a new identity when the name is taken.
const MAX_TRIES: u32 = 999_999;

/// A chain as clients have to show it.
const SHOWN: Verify<'static> =
    Verify { usage: RequiredKeyUsage::Client, ignore_leaf_validity: false, intermediates: &[] };

/// The refusal of a chain, with the reason.
fn refused(auth: &Auth, caller: &Caller, code: ErrorCode, error: &Error) -> Failure {
    auth.refusals().write(caller, "an enrollment", error);
    Failure::because(code, error.to_string())
}

/// Waits for a permit to check a chain.
async fn permit(auth: &Auth, caller: &Caller) -> Result<LoginPermit> {
    let who = caller.leaf().map(Certificate::fingerprint).unwrap_or_default();
    auth.admission().enter(Sender::of(caller), who, auth.patience(), || false).await
}

/// An authenticator of a certificate that a CA issued.
fn authenticator(
    auth: &Auth,
    identity: &Id,
    ca: &Ca,
    chain: &[Certificate],
) -> Option<Authenticator> {
    let leaf = chain.first()?;
    Some(Authenticator {
        base: Base::new(auth.kernel().ids().entity(), auth.kernel().now()),
        identity_id: identity.clone(),
        updb: None,
        cert: Some(CertCredential {
            ca_id: Some(ca.base.id.clone()),
            ..credential(leaf, &to_pem(chain.iter()), false)
        }),
    })
}

/// Checks that no other authenticator has the certificate.
fn check_unused(decision: &Decision<'_>, authenticator: &Authenticator) -> Result<()> {
    let fingerprint = authenticator.cert.as_ref().map(|cert| &cert.fingerprint);
    let Some(fingerprint) = fingerprint else { return Ok(()) };
    if decision.tip().authenticator_by_fingerprint(fingerprint).is_none() {
        return Ok(());
    }
    Err(Failure::new(ErrorCode::CertInUse).with_cause(Cause {
        data: Some(serde_json::json!({"fingerprint": &**fingerprint})),
        ..Cause::error(ErrorCode::CertInUse, "an authenticator has this certificate")
    }))
}

/// Enrolls an existing identity that shows a certificate of the CA in its ticket.
pub(super) async fn by_ticket(
    auth: &Auth,
    caller: &Caller,
    enrollment: Arc<Enrollment>,
) -> Result<Reply> {
    let snapshot = auth.kernel().snapshot();
    let ca = enrollment.ca_id.as_ref().and_then(|id| snapshot.get::<Ca>(id));
    let ca = ca.ok_or_else(|| Failure::from(ErrorCode::InvalidEnrollmentToken))?;
    if !ca.is_ott_ca_enrollment_enabled || !ca.is_verified {
        return Err(ErrorCode::EnrollmentCaNotValid.into());
    }
    let looking = (auth.clone(), snapshot.clone(), caller.origin.certificates.clone());
    let wanted = ca.base.id.clone();
    let _place = permit(auth, caller).await?;
    let chain = auth
        .hasher()
        .work(move || {
            let (auth, snapshot, shown) = looking;
            let is_wanted = |ca: &Ca| ca.base.id == wanted;
            third_party_ca::issuer(&auth, &snapshot, &shown, SHOWN, is_wanted).map(|(_, path)| path)
        })
        .await?;
    let chain = chain
        .map_err(|error| refused(auth, caller, ErrorCode::CertificateFailedValidation, &error))?;
    let identity = enrollment.identity_id.clone().unwrap_or_default();
    let authenticator = authenticator(auth, &identity, ca, &chain);
    let authenticator =
        authenticator.ok_or_else(|| Failure::from(ErrorCode::CertificateFailedValidation))?;
    let ca = ca.base.id.clone();
    auth.kernel()
        .decide(caller, move |decision| {
            let current = decision.tip().get::<Ca>(&ca);
            if !current.is_some_and(|ca| ca.is_ott_ca_enrollment_enabled && ca.is_verified) {
                return Err(ErrorCode::EnrollmentCaNotValid.into());
            }
            take(decision, &enrollment)?;
            check_unused(decision, &authenticator)?;
            decision.put(authenticator.clone());
            Ok(())
        })
        .await?;
    Reply::detail(&EnrollmentCerts {
        controllers: this_controller::all(auth, Api::Client),
        ..EnrollmentCerts::default()
    })
}

/// Makes an identity for a certificate of a CA that allows it.
pub(super) async fn by_certificate(
    auth: &Auth,
    caller: &Caller,
    requested_name: Option<String>,
) -> Result<Reply> {
    let snapshot = auth.kernel().snapshot();
    if !snapshot.list::<Ca>().any(|ca| may_enroll(ca)) {
        return Err(ErrorCode::EnrollmentNoValidCas.into());
    }
    let _place = permit(auth, caller).await?;
    let (looking, shown) = (auth.clone(), caller.origin.certificates.clone());
    let found = auth
        .hasher()
        .work(move || {
            let found = third_party_ca::issuer(&looking, &snapshot, &shown, SHOWN, may_enroll);
            found.map(|(ca, path)| (Arc::clone(ca), path))
        })
        .await?;
    let (ca, chain) =
        found.map_err(|error| refused(auth, caller, ErrorCode::CertFailedValidation, &error))?;
    let leaf = chain.first().ok_or_else(|| Failure::from(ErrorCode::CertFailedValidation))?;

    let id = auth.kernel().ids().entity();
    let claim = ca.external_id_claim.as_ref().map(|claim| external_id::of(claim, leaf));
    let external_id = claim
        .transpose()
        .map_err(|error| Failure::because(ErrorCode::MissingCertClaim, error.to_string()))?;
    // An identity with an external id logs in with any certificate that claims it.
    let authenticator = match external_id {
        Some(_) => None,
        None => authenticator(auth, &id, &ca, &chain),
    };
    let name = Name {
        ca_name: &ca.name,
        ca_id: ca.base.id.as_str(),
        common_name: leaf.common_name().unwrap_or_default(),
        requested: requested_name.as_deref(),
        identity: id.as_str(),
    };
    let name = name.formatted(&ca.identity_name_format);
    let identity = Identity {
        base: Base::new(id, auth.kernel().now()),
        enrolled_by: external_id.as_ref().map(|_| ca.base.id.clone()),
        external_id: external_id.map(|text| text.as_str().into()),
        auth_policy_id: Id::new(AuthPolicy::DEFAULT_ID),
        role_attributes: ca.identity_roles.clone(),
        ..Identity::default()
    };
    let ca = ca.base.id.clone();
    auth.kernel()
        .decide(caller, move |decision| {
            let current = decision.tip().get::<Ca>(&ca);
            if !current.is_some_and(|ca| may_enroll(ca)) {
                return Err(ErrorCode::CertFailedValidation.into());
            }
            let mut identity = identity.clone();
            if let Some(external) = &identity.external_id
                && decision.tip().by_unique::<Identity>(Identity::EXTERNAL_ID, external).is_some()
            {
                return Err(ErrorCode::EnrollmentIdentityAlreadyEnrolled.into());
            }
            if let Some(authenticator) = &authenticator {
                check_unused(decision, authenticator)?;
                decision.put_later(authenticator.clone());
            }
            identity.name = free_name(decision.tip(), &name)?.as_str().into();
            decision.put_checked(identity)
        })
        .await?;
    Reply::empty()
}

fn may_enroll(ca: &Ca) -> bool {
    ca.is_auto_ca_enrollment_enabled && ca.is_verified
}

/// Values for the name of a new identity.
struct Name<'a> {
    ca_name: &'a str,
    ca_id: &'a str,
    common_name: &'a str,
    requested: Option<&'a str>,
    identity: &'a str,
}

impl Name<'_> {
    /// The name format of a CA with each symbol replaced once: a replaced value may itself look
    /// like a symbol.
    fn formatted(&self, format: &str) -> String {
        let format = if format.is_empty() { DEFAULT_NAME_FORMAT } else { format };
        let requested = self.requested.filter(|name| !name.trim().is_empty());
        let symbols = [
            ("[caName]", self.ca_name),
            ("[caId]", self.ca_id),
            ("[commonName]", self.common_name),
            ("[requestedName]", requested.unwrap_or(self.identity)),
            ("[identityId]", self.identity),
        ];
        let mut name = String::new();
        let mut rest = format;
        while let Some(at) = rest.find('[') {
            let (head, tail) = rest.split_at(at);
            name.push_str(head);
            let symbol = symbols.iter().find(|(symbol, _)| tail.starts_with(symbol));
            let (text, length) = symbol.map_or(("[", 1), |(symbol, text)| (text, symbol.len()));
            name.push_str(text);
            rest = &tail[length..];
        }
        name.push_str(rest);
        name
    }
}

/// The name if it is free; otherwise the name with the first free six-digit number.
fn free_name(snapshot: &Snapshot, name: &str) -> Result<String> {
    let is_free = |name: &str| snapshot.by_name::<Identity>(name).is_none();
    if is_free(name) {
        return Ok(name.to_owned());
    }
    let numbered = |number: u32| format!("{name}{number:06}");
    let number = free_number(|number| is_free(&numbered(number)));
    number.map(numbered).ok_or_else(|| Failure::field("name", "name must be unique", name))
}

/// A free number, searched in steps that double and then halve: with many devices of one name the
/// last is named as fast as the first. If numbers were given out in order, the result is the next
/// one.
fn free_number(is_free: impl Fn(u32) -> bool) -> Option<u32> {
    let mut taken = 0;
    let mut free = 1;
    while !is_free(free) {
        if free == MAX_TRIES {
            return None;
        }
        (taken, free) = (free, (free * 2).min(MAX_TRIES));
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if is_free(middle) {
            free = middle;
        } else {
            taken = middle;
        }
    }
    Some(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_order_and_quickly() {
        for taken in [0, 1, 2, 3, 7, 8, 9, 1000, 999_998] {
            let asked = std::cell::Cell::new(0);
            let found = free_number(|number| {
                asked.set(asked.get() + 1);
                number > taken
            });
            assert_eq!(found, Some(taken + 1));
            assert!(asked.get() <= 42, "{taken}: {}", asked.get());
        }
        assert_eq!(free_number(|_| false), None);
        assert_eq!(free_number(|number| number == 2 || number == 6), Some(2));
    }

    #[test]
    fn names_are_made_of_their_symbols() {
        let name = Name {
            ca_name: "ca",
            ca_id: "c1",
            common_name: "[caName]",
            requested: Some(" "),
            identity: "i1",
        };
        assert_eq!(name.formatted(""), "ca-[caName]");
        assert_eq!(name.formatted("[caId]/[identityId]/[requestedName]"), "c1/i1/i1");
        assert_eq!(name.formatted("x[y][commonName"), "x[y][commonName");
        let name = Name { requested: Some("laptop"), ..name };
        assert_eq!(name.formatted("[requestedName]!"), "laptop!");
    }
}
