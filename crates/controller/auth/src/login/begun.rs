//! The session of a login as it begins, with what its client tells about itself.

use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use weft_contract::resource::session::AuthenticateBody;
use weft_identity::Certificate;
use weft_kernel::view::View;
use weft_kernel::{Caller, Failure, Result};
use weft_model::entity::{ApiSession, EnvInfo, ExternalFactors, SdkInfo, SessionCertificate};
use weft_model::{Base, Id, Timestamp};

use crate::end_statement;
use crate::first_factor::Shown;
use crate::handle::Auth;
use crate::sessions::ClientDescription;
use crate::wanted_configs::WantedConfigs;

/// The session of a login, in neither form of tokens yet.
pub(crate) fn new_session(
    auth: &Auth,
    caller: &Caller,
    body: &AuthenticateBody,
    shown: &Shown,
    id: Id,
) -> Result<ApiSession> {
    let now = auth.kernel().now();
    let snapshot = auth.kernel().snapshot();
    let wanted = body.config_types.iter().flatten().map(String::as_str);
    let told = ClientDescription {
        sdk: body.sdk_info.clone().unwrap_or_default(),
        env: body.env_info.clone().unwrap_or_default(),
    };
    let signer_id = shown.signer.clone();
    let certificates = shown.leaf.iter().map(|leaf| certificate(auth, leaf, now)).collect();
    let session = ApiSession {
        base: Base::new(id, now),
        identity_id: shown.identity.base.id.clone(),
        authenticator_id: shown.authenticator.clone(),
        config_types: WantedConfigs::of(View::of(&snapshot), wanted).into_ids(),
        ip_address: caller.origin.remote.map(|it| it.ip().to_string()).unwrap_or_default(),
        is_mfa_required: crate::factors::has_mfa(&snapshot, &shown.identity.base.id),
        is_mfa_complete: false,
        mfa_passed_at: None,
        is_cert_extendable: shown.is_cert_extendable,
        improper_client_cert_chain: shown.improper_chain,
        last_activity_at: now,
        sdk_info: body.sdk_info.as_ref().map(|_| sdk_info(&told)),
        env_info: body.env_info.as_ref().map(|_| env_info(&told)),
        certificates,
        ca_id: shown.ca.clone(),
        external: ExternalFactors { signer_id, second_signer: None, second_until: None },
        is_of_client: true,
        credential: shown.print.clone(),
        end_key: body.end_key.as_deref().map(end_key).transpose()?.unwrap_or_default(),
        ..ApiSession::default()
    };
    auth.sessions().put_told(&shown.identity.base.id, told);
    Ok(session)
}

/// Longest key that is decoded, in characters; one of 65 bytes has 88.
const MAX_END_KEY: usize = 88;

/// The key that proves a client to the ends of its connections.
pub(crate) fn end_key(text: &str) -> Result<Bytes> {
    let is_short = text.len() <= MAX_END_KEY;
    let key = is_short.then(|| STANDARD.decode(text).ok()).flatten();
    let key = key.filter(|key| end_statement::is_key(key));
    let reason = "must be an uncompressed point of P-256 (65 bytes) in base64";
    key.map(Bytes::from).ok_or_else(|| Failure::field("endKey", reason, text))
}

/// A certificate as a session keeps it.
pub fn certificate(auth: &Auth, leaf: &Certificate, now: Timestamp) -> SessionCertificate {
    let at = |time: std::time::SystemTime| {
        Timestamp(0).plus(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    };
    SessionCertificate {
        id: auth.kernel().ids().entity(),
        fingerprint: leaf.fingerprint().into(),
        cert_pem: leaf.to_pem(),
        created_at: now,
        not_before: at(leaf.not_before()),
        not_after: at(leaf.not_after()),
        subject: leaf.subject().to_owned(),
    }
}

pub(crate) fn sdk_info(told: &ClientDescription) -> SdkInfo {
    SdkInfo {
        app_id: told.sdk.app_id.clone(),
        app_version: told.sdk.app_version.clone(),
        branch: told.sdk.branch.clone(),
        revision: told.sdk.revision.clone(),
        kind: told.sdk.r#type.clone(),
        version: told.sdk.version.clone(),
    }
}

pub(crate) fn env_info(told: &ClientDescription) -> EnvInfo {
    EnvInfo {
        arch: told.env.arch.clone(),
        domain: told.env.domain.clone(),
        hostname: told.env.hostname.clone(),
        os: told.env.os.clone(),
        os_release: told.env.os_release.clone(),
        os_version: told.env.os_version.clone(),
    }
}
