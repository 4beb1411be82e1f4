//! Lets a client check that it talks to the right controller before it enrolls: the keys that sign
//! tickets, and a proof that the controller holds them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use weft_contract::resource::enrollment::{ChallengeAnswer, ChallengeBody};
use weft_contract::{Api, ErrorCode, Verb, headers};
use weft_identity::token::{TokenSigner, algorithm_name};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result};

use crate::admission::Sender;
use crate::handle::Auth;

/// The operations.
pub const HANDLERS: &[HandlerRow<Auth>] = &[
    (Api::Client, "getEnrollmentJwks", &key_set),
    (Api::Client, "enrollmentChallenge", &challenge),
];

fn failed(error: weft_identity::Error) -> Failure {
    Failure::unhandled(error.to_string())
}

/// A body without envelope, because readers of key sets do not know the envelope.
fn bare(value: &impl Serialize) -> Result<Reply> {
    let text = serde_json::to_vec(value).map_err(|error| Failure::unhandled(error.to_string()))?;
    Ok(Reply::raw(headers::JSON, text))
}

/// The keys that sign tickets.
async fn key_set(auth: Auth, _caller: Caller, _call: Call) -> Result<Reply> {
    let keys = auth.ticket_keys().map_err(failed)?;
    bare(&keys.to_json().map_err(failed)?)
}

/// Signs a nonce of the client with the key that the client names.
async fn challenge(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: ChallengeBody = call.decode(Verb::Create)?;
    let nonce = body.nonce.unwrap_or_default();
    // The nonce must be a UUID, so that the signature can never pass as one of a ticket or a
    // token.
    if nonce.len() != 36 || uuid::Uuid::try_parse(&nonce).is_err() {
        let failure =
            Failure::coded_field(ErrorCode::InvalidUuid, "nonce", "must be a UUID", nonce);
        return Err(failure);
    }
    let keys = auth.keys();
    let chain = &keys.enrollment;
    let wanted = body.key_id.unwrap_or_default();
    if wanted != chain.leaf().fingerprint() {
        return Err(Failure::field("keyId", "no key has this id", wanted));
    }
    // The operation needs no login.
    let _place = auth.admission().challenge(Sender::of(&caller))?;
    let sign = move |auth: &Auth| {
        let signer = TokenSigner::new(&auth.keys().enrollment);
        signer.and_then(|signer| signer.sign_bytes(nonce.as_bytes())).map_err(failed)
    };
    let signature = auth.sign_in_turn(&caller, chain.key().algorithm(), sign).await?;
    bare(&ChallengeAnswer {
        algorithm: algorithm_name(chain.key().algorithm()).to_owned(),
        ca_pool: keys.bundle.to_pem(),
        kid: wanted,
        signature: STANDARD.encode(signature),
    })
}
