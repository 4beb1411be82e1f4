//! Says check by check why a token of an external signer is good for logging in, or is not.

use serde_json::Value;
use weft_contract::resource::token_test::{TokenCheck, TokenTest, TokenTestBody};
use weft_contract::{Action, Api, Subject, Verb};
use weft_identity::PublicKey;
use weft_identity::token::{self, Expect, JwtHeader};
use weft_kernel::call::HandlerRow;
use weft_kernel::clock::system_time;
use weft_kernel::{Call, Caller, Reply, Result};
use weft_model::Snapshot;
use weft_model::entity::{ExtJwtSigner, Identity};

use crate::external_token::{Claimed, LONGEST, check_event, check_purpose, claim, name_claim};
use crate::handle::Auth;
use crate::token_login::check_source;
use crate::token_refusal::TokenRefused;
use crate::token_rules::forbidden;

/// The operation.
pub const HANDLERS: &[HandlerRow<Auth>] = &[(Api::Weft, "testExternalToken", &test)];

/// A leeway for which all times are right: times are a check of their own.
const ANY_TIME: std::time::Duration = std::time::Duration::from_secs(u32::MAX as u64);

async fn test(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: TokenTestBody = call.decode(Verb::Create)?;
    let from = caller.origin.remote.map(|remote| remote.ip());
    check_source(&auth, from)?;
    let mut checks = Checks { auth: &auth, caller: &caller, made: TokenTest::default() };
    checks.run(body.token.unwrap_or_default().trim()).await;
    let mut made = checks.made;
    made.is_good = made.checks.iter().all(|check| check.is_good);
    Reply::detail(&made)
}

/// The checks of a token.
struct Checks<'a> {
    auth: &'a Auth,
    caller: &'a Caller,
    made: TokenTest,
}

impl Checks<'_> {
    /// Notes a check; whether the token passed.
    fn note(&mut self, name: &str, result: Result<String, String>) -> bool {
        let is_good = result.is_ok();
        let text = result.unwrap_or_else(|reason| reason);
        self.made.checks.push(TokenCheck { name: name.to_owned(), is_good, text });
        is_good
    }

    /// Makes all checks, up to one without which the next ones mean nothing.
    async fn run(&mut self, token: &str) {
        let read = token::peek::<Value>(token);
        let read =
            read.and_then(|(header, claims)| header.check_extensions().map(|()| (header, claims)));
        let (header, claims): (JwtHeader, Value) = match read {
            Ok(read) => read,
            Err(error) => {
                self.note("form", Err(error.to_string()));
                return;
            }
        };
        let kid = header.kid.as_deref().unwrap_or_default();
        self.note("form", Ok(format!("signed by {} with the key {kid:?}", header.alg)));
        let purpose = check_purpose(header.typ.as_deref()).and_then(|()| check_event(&claims));
        let typ = header.typ.as_deref().unwrap_or("none");
        self.note("type", purpose.map(|()| typ.to_owned()).map_err(|error| error.to_string()));
        let snapshot = self.auth.kernel().snapshot();
        let Some(signer) = self.signer(&snapshot, &claims) else { return };
        let Some(key) = self.key(&snapshot, &signer, token).await else { return };
        if !self.signature(token, &key) {
            return;
        }
        self.times(token, &key, &claims);
        self.audience(token, &key, &signer, &claims);
        if let Some(identity) = self.identity(&snapshot, &signer, &claims) {
            self.policy(&snapshot, &identity, &signer);
        }
    }

    fn signer(
        &mut self,
        snapshot: &Snapshot,
        claims: &Value,
    ) -> Option<std::sync::Arc<ExtJwtSigner>> {
        let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
        let found = snapshot.by_unique::<ExtJwtSigner>(ExtJwtSigner::ISSUER, issuer);
        let result = match found {
            _ if issuer.is_empty() => Err("the token names no issuer (`iss`)".to_owned()),
            None => Err(format!(
                "no signer has the issuer {issuer:?}; the texts must be equal, also at their end: \
                 `weft list signers` shows them"
            )),
            Some(signer) if !signer.enabled => Err(format!(
                "the signer {:?} is disabled; `weft update signer {} --enabled` enables it",
                signer.name, signer.name
            )),
            Some(signer) => Ok(format!("{issuer}, the signer {:?}", signer.name)),
        };
        if let Some(signer) = found {
            self.made.signer_id = signer.base.id.to_string();
            self.made.signer_name = signer.name.to_string();
        }
        let is_good = self.note("issuer", result);
        found.filter(|_| is_good).cloned()
    }

    async fn key(
        &mut self,
        snapshot: &Snapshot,
        signer: &ExtJwtSigner,
        token: &str,
    ) -> Option<PublicKey> {
        let from = self.caller.origin.remote.map(|remote| remote.ip());
        let found = match Claimed::of(snapshot, Some(&signer.base.id), token) {
            Ok(claimed) => claimed.key(self.auth, from).await,
            Err(reason) => Err(reason),
        };
        let key = found.map(|keyed| keyed.key);
        let source = match &signer.jwks_endpoint {
            Some(endpoint) => format!("in the key set at {endpoint}"),
            None => "that of the certificate of the signer".to_owned(),
        };
        let result = match &key {
            Ok(_) => Ok(source),
            // Whoever may make signers learns nothing of what else answers near the controller.
            Err(reason) if self.caller.is_admin() => Err(reason.to_string()),
            Err(reason) => Err(reason.public()),
        };
        self.note("key", result);
        key.ok()
    }

    /// Verifies a token in one respect.
    fn verify(
        &self,
        token: &str,
        key: &PublicKey,
        expect: Expect<'_>,
        leeway: std::time::Duration,
    ) -> Result<(), String> {
        let seen = &self.auth.0.seen_tokens;
        let verified = seen.verify_within::<Value>(token, |_| Some(key.clone()), &expect, leeway);
        verified.map(drop).map_err(|error| error.to_string())
    }

    fn any(&self) -> Expect<'static> {
        let now = system_time(self.auth.kernel().now());
        Expect { now, issuer: None, audience: &[], require_expiry: false, longest: None }
    }

    fn signature(&mut self, token: &str, key: &PublicKey) -> bool {
        let result = self.verify(token, key, self.any(), ANY_TIME);
        if let Err(error) = &result {
            let reason = TokenRefused::Forged(error.clone());
            self.auth.wrong_tokens().note(&self.caller.origin, token, &reason);
        }
        self.note("signature", result.map(|()| "right".to_owned()))
    }

    fn times(&mut self, token: &str, key: &PublicKey, claims: &Value) {
        let leeway = self.auth.kernel().settings().external_tokens.leeway;
        let expect = Expect { require_expiry: true, longest: Some(LONGEST), ..self.any() };
        let result = self.verify(token, key, expect, leeway);
        let now = self.auth.kernel().now().secs();
        let left = |name: &str| {
            claims.get(name).and_then(Value::as_f64).map(|at| (at as i64).saturating_sub(now))
        };
        let told = match (left("nbf").filter(|left| *left > 0), left("exp")) {
            (Some(wait), _) => format!("it counts in {wait} s (`nbf`)"),
            (None, Some(left)) if left < 0 => {
                format!("it ended {} s ago (`exp`)", left.saturating_neg())
            }
            (None, Some(left)) => format!("good for {left} s (`exp`)"),
            (None, None) => "it has no end (`exp`)".to_owned(),
        };
        let clock = "; is the clock of the provider, or of this controller, right?";
        self.note(
            "times",
            match result {
                Ok(()) => Ok(told),
                Err(reason) => Err(format!("{reason}: {told}{clock}")),
            },
        );
    }

    fn audience(&mut self, token: &str, key: &PublicKey, signer: &ExtJwtSigner, claims: &Value) {
        let wanted = signer.audience.as_deref().unwrap_or_default();
        let audience = [wanted];
        let expect = Expect { audience: &audience, ..self.any() };
        let result = self.verify(token, key, expect, ANY_TIME);
        let found = claims.get("aud").map(Value::to_string).unwrap_or_else(|| "none".to_owned());
        let found: String = found.chars().take(200).collect();
        self.note("audience", match result {
            Ok(()) => Ok(wanted.to_owned()),
            Err(_) => Err(format!(
                "the signer wants {wanted:?}, the token has {found}: is it the ID token instead of the access \
                 token, or one for another program? `weft update signer {} --audience` changes what is wanted",
                signer.name
            )),
        });
    }

    /// The identity that the token names.
    fn identity(
        &mut self,
        snapshot: &Snapshot,
        signer: &ExtJwtSigner,
        claims: &Value,
    ) -> Option<std::sync::Arc<Identity>> {
        let pointer = name_claim(signer);
        let name = claim(claims, pointer).and_then(Value::as_str);
        let name = name.filter(|name| !name.trim().is_empty());
        let Some(name) = name else {
            let members: Vec<&str> = claims.as_object().map_or_else(Vec::new, |claims| {
                claims.keys().map(String::as_str).take(40).collect()
            });
            self.note("claim", Err(format!(
                "there is no text at {pointer} (claimsProperty of the signer); the token has: {}",
                members.join(", ")
            )));
            return None;
        };
        self.note("claim", Ok(format!("{pointer} is {name:?}")));
        let by = if signer.use_external_id { "external id" } else { "id" };
        let found = match signer.use_external_id {
            true => snapshot.by_unique::<Identity>(Identity::EXTERNAL_ID, name),
            false => snapshot.get::<Identity>(&weft_model::Id::new(name)),
        };
        let may_read = self.caller.may(Subject::Identity, Action::Read);
        if let Some(identity) = found.filter(|_| may_read) {
            self.made.identity_id = identity.base.id.to_string();
            self.made.identity_name = identity.name.to_string();
        }
        let is_disabled = found.is_some_and(|it| it.is_disabled(self.auth.kernel().now()));
        let result = match found {
            None => Err(format!("no identity has this {by}")),
            Some(_) if is_disabled => Err(format!("the identity with this {by} is disabled")),
            Some(it) if may_read => Ok(format!("{:?}, by its {by}", it.name)),
            Some(_) => Ok(format!("there is one with this {by}")),
        };
        self.note("identity", result);
        found.cloned()
    }

    fn policy(&mut self, snapshot: &Snapshot, identity: &Identity, signer: &ExtJwtSigner) {
        let result = match forbidden(snapshot, identity, &signer.base.id) {
            None => Ok("the auth policy of the identity allows the login".to_owned()),
            Some(reason) => Err(format!(
                "{reason} (primary.extJwt of its auth policy, {:?})",
                identity.auth_policy_id.as_str()
            )),
        };
        self.note("policy", result);
    }
}
