//! External JWT signers (docs/protocol/auth.md 13; docs/protocol/management-api.md 7.7): the source
//! of their keys, the claims of their tokens, and the list that clients read before a login.

use url::Url;
use weft_auth::fetch_policy::check_url;
use weft_config::controller::JwksFetch;
use weft_contract::resource::external_jwt_signer as contract;
use weft_contract::resource::external_jwt_signer::{ClientSignerDetail, SignerBody, SignerDetail};
use weft_contract::{Api, ErrorCode, Kind as ContractKind, Verb};
use weft_identity::Certificate;
use weft_kernel::call::HandlerRow;
use weft_kernel::clock::timestamp;
use weft_kernel::decision::Decision;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert, list};
use weft_model::entity::{AuthPolicy, ExtJwtSigner};
use weft_model::filter::{Column, PageRules, Symbols, Type, Value};
use weft_model::{Id, Kind, Meter, Timestamp};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{Readable, Resource, detail_base};
use crate::domain::symbols::symbols;
use crate::domain::values::{choice, word};

/// The resource.
pub(crate) struct Signers;

/// The claim that names an identity if the signer sets none.
pub(crate) const SUBJECT: &str = "/sub";
/// Scopes of a signer at most.
const MAX_SCOPES: usize = 100;

fields! {
    Signers of ExtJwtSigner, set by SignerBody, shown as SignerDetail,
    searched as "external-jwt-signers";

    tags;
    name { set, shown, searched }
    fingerprint { merged, shown, searched }
    kid { set, shown, searched }
    issuer { set, shown, searched }
    cert_pem { merged, shown, searched }
    jwks_endpoint { set, shown, searched }
    common_name { merged, shown, searched }
    not_after { merged, shown, searched }
    not_before { merged, shown, searched }
    enabled { set, shown, searched }
    claims_property { merged, shown, searched }
    use_external_id { set, shown, searched }
    audience { set, shown, searched }
    client_id { set, shown, searched }
    scopes { set by scopes_of, shown, searched }
    target_token { set by choice, shown by word, searched }
    enroll_to_cert_enabled { set, shown, searched }
    enroll_to_token_enabled { set, shown, searched }
    enroll_attribute_claims_selector { merged, shown, searched }
    enroll_name_claims_selector { merged, shown, searched }
    enroll_auth_policy_id { merged, shown, searched }
    external_auth_url { set, shown }
    read cert_pem, claims_property, enroll_auth_policy_id;
    read enroll_attribute_claims_selector, enroll_name_claims_selector;
}

impl Readable for Signers {
    const KIND: &'static ContractKind = &contract::KIND;
}

/// Values read from a body in prepare.
#[derive(Default)]
pub(crate) struct Prepared {
    /// The certificate in the body.
    certificate: Option<Certificate>,
}

impl Resource for Signers {
    type Prepared = Prepared;

    async fn prepare(
        controller: &Controller,
        _caller: &Caller,
        body: &SignerBody,
        _verb: Verb,
        _id: &Id,
    ) -> Result<Prepared> {
        check_addresses(&controller.kernel().settings().jwks_fetch, body)?;
        Ok(Prepared { certificate: certificate_of(body)? })
    }

    fn merge(
        record: &mut ExtJwtSigner,
        body: &SignerBody,
        prepared: &Prepared,
        verb: Verb,
    ) -> Result<()> {
        Self::set(record, body, verb)?;
        if body.cert_pem.is_some() {
            set_certificate(record, body.cert_pem.as_deref(), prepared.certificate.as_ref());
        }
        set_claims(record, body)?;
        set_enrollment(record, body)
    }

    fn validate(
        decision: &mut Decision<'_>,
        _before: Option<&ExtJwtSigner>,
        after: &mut ExtJwtSigner,
        _prepared: &Prepared,
    ) -> Result<()> {
        if after.issuer.is_none() {
            return Err(Failure::field("issuer", "issuer is required", ""));
        }
        let keys = "exactly one of certPem and jwksEndpoint must be set";
        match (&after.cert_pem, &after.jwks_endpoint) {
            (None, None) => return Err(Failure::invalid_field("certPem", keys, "")),
            (Some(_), Some(endpoint)) => {
                return Err(Failure::invalid_field("jwksEndpoint", keys, endpoint.as_str()));
            }
            _ => {}
        }
        let Some(id) = &after.enroll_auth_policy_id else { return Ok(()) };
        let policy = decision.require::<AuthPolicy>("enrollAuthPolicyId", id)?;
        let refused = |what: &str, method: &str| {
            let reason = format!("{what} needs a policy that allows login by {method}");
            Err(Failure::field("enrollAuthPolicyId", reason, id.as_str()))
        };
        if after.enroll_to_cert_enabled && !policy.cert.allowed {
            return refused("enrollToCertEnabled", "certificate");
        }
        if after.enroll_to_token_enabled && !policy.ext_jwt.allowed {
            return refused("enrollToTokenEnabled", "external JWT");
        }
        Ok(())
    }
}

/// A text of a body; `Some(None)` if it is blank.
fn given(text: &Option<String>) -> Option<Option<&str>> {
    let text = text.as_deref()?.trim();
    Some((!text.is_empty()).then_some(text))
}

fn check_addresses(rules: &JwksFetch, body: &SignerBody) -> Result<()> {
    if let Some(Some(text)) = given(&body.jwks_endpoint) {
        let refused = |reason| Failure::invalid_field("jwksEndpoint", reason, text);
        check_url(rules, text).map_err(refused)?;
    }
    if let Some(Some(text)) = given(&body.external_auth_url) {
        let url = Url::parse(text).map_err(|error| error.to_string());
        let url = url.and_then(|url| match url.scheme() {
            "http" | "https" if url.has_host() => Ok(url),
            _ => Err("not an address of http or https".into()),
        });
        url.map_err(|error| {
            Failure::field("externalAuthUrl", format!("must be a URL: {error}"), text)
        })?;
    }
    Ok(())
}

/// The certificate in a body, which has to be exactly one.
fn certificate_of(body: &SignerBody) -> Result<Option<Certificate>> {
    let Some(Some(pem)) = given(&body.cert_pem) else { return Ok(None) };
    let parsed = Certificate::from_pem(pem.as_bytes()).unwrap_or_default();
    let [certificate] = parsed.as_slice() else {
        let reason = format!("must hold exactly one certificate, not {}", parsed.len());
        return Err(Failure::coded_field(ErrorCode::InvalidCertPem, "certPem", reason, ""));
    };
    if let Err(error) = certificate.public_key() {
        let reason = format!("its key cannot sign tokens: {error}");
        return Err(Failure::coded_field(ErrorCode::InvalidCertPem, "certPem", reason, ""));
    }
    Ok(Some(certificate.clone()))
}

fn set_certificate(
    record: &mut ExtJwtSigner,
    pem: Option<&str>,
    certificate: Option<&Certificate>,
) {
    let time = |of: fn(&Certificate) -> std::time::SystemTime| -> Option<Timestamp> {
        certificate.map(|certificate| timestamp(of(certificate)))
    };
    record.cert_pem = certificate.and(pem).map(str::to_owned);
    record.fingerprint = certificate.map(|certificate| certificate.fingerprint().into());
    record.common_name =
        certificate.and_then(Certificate::common_name).unwrap_or_default().to_owned();
    record.not_before = time(Certificate::not_before);
    record.not_after = time(Certificate::not_after);
}

fn scopes_of(scopes: &[String]) -> Result<Vec<String>> {
    if scopes.len() > MAX_SCOPES {
        let reason = format!("takes at most {MAX_SCOPES} scopes");
        return Err(Failure::field("scopes", reason, scopes.len().to_string()));
    }
    let wrong = |scope: &&String| scope.is_empty() || scope.contains(char::is_whitespace);
    match scopes.iter().find(wrong) {
        Some(scope) => {
            Err(Failure::field("scopes", "a scope is a word without spaces", scope.as_str()))
        }
        None => Ok(scopes.to_vec()),
    }
}

/// Checks a JSON pointer, whose leading slash may be missing. The pointer is kept as it was sent.
fn pointer(field: &str, text: &str) -> Result<String> {
    let mut escapes = text.split('~').skip(1);
    if escapes.any(|rest| !rest.starts_with(['0', '1'])) {
        let reason = "must be a JSON pointer: `~` is written `~0`, `/` in a name `~1`";
        return Err(Failure::field(field, reason, text));
    }
    Ok(text.to_owned())
}

fn set_claims(record: &mut ExtJwtSigner, body: &SignerBody) -> Result<()> {
    match given(&body.claims_property) {
        Some(Some(text)) => record.claims_property = Some(pointer("claimsProperty", text)?),
        None if record.claims_property.is_some() => {}
        _ => record.claims_property = Some(SUBJECT.to_owned()),
    }
    match given(&body.enroll_name_claims_selector) {
        Some(Some(text)) => {
            let field = "enrollNameClaimsSelector";
            record.enroll_name_claims_selector = pointer(field, text)?;
        }
        None if !record.enroll_name_claims_selector.is_empty() => {}
        _ => record.enroll_name_claims_selector = SUBJECT.to_owned(),
    }
    match given(&body.enroll_attribute_claims_selector) {
        Some(Some(text)) => {
            let field = "enrollAttributeClaimsSelector";
            record.enroll_attribute_claims_selector = pointer(field, text)?;
        }
        Some(None) => record.enroll_attribute_claims_selector.clear(),
        None => {}
    }
    Ok(())
}

fn set_enrollment(record: &mut ExtJwtSigner, body: &SignerBody) -> Result<()> {
    match given(&body.enroll_auth_policy_id) {
        Some(Some(id)) => {
            let id = convert::id_field("enrollAuthPolicyId", id)?;
            record.enroll_auth_policy_id = Some(id);
        }
        None if record.enroll_auth_policy_id.is_some() => {}
        _ => record.enroll_auth_policy_id = Some(Id::new(AuthPolicy::DEFAULT_ID)),
    }
    Ok(())
}

/// The operations of the client API.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] =
    &[(Api::Client, "listExternalJwtSigners", &list_for_clients)];

type SignerColumn = Column<Context, ExtJwtSigner>;

/// The symbols for clients: only the members in the list, because its callers are not logged in.
static CLIENT_SYMBOLS: Symbols<Context, ExtJwtSigner> = symbols(
    "external-jwt-signers",
    &[SignerColumn::one("name", Type::String, |_, it| Value::text(&it.name)).public()],
);

/// The enabled signers, with the members that a client needs to get a token (docs/protocol/auth.md
/// 13.5).
async fn list_for_clients(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let selection = list::selection(&caller, &call.query, &CLIENT_SYMBOLS, &PageRules::LIST)?;
    let signers = context.snapshot().table(Kind::ExtJwtSigner).len();
    let request = controller.kernel().scans().asked_by(&caller);
    let effort = selection.effort_of(signers);
    let page = move |meter: &Meter| {
        let enabled = context.view().all::<ExtJwtSigner>().filter(|it| it.enabled);
        let rows = enabled.map(|it| CLIENT_SYMBOLS.row(&context, it));
        list::answer(&selection, &CLIENT_SYMBOLS, rows, meter, |it| Ok(shown(it)))
    };
    request.counted(effort, page).await
}

fn shown(record: &ExtJwtSigner) -> ClientSignerDetail {
    ClientSignerDetail {
        base: detail_base::<Signers>(&record.base),
        audience: record.audience.as_deref().map(str::to_owned),
        client_id: record.client_id.clone(),
        enroll_to_cert_enabled: record.enroll_to_cert_enabled,
        enroll_to_token_enabled: record.enroll_to_token_enabled,
        external_auth_url: record.external_auth_url.clone(),
        name: record.name.to_string(),
        scopes: record.scopes.clone().into(),
        target_token: convert::word(record.target_token),
    }
}
