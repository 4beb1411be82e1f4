//! The factors of a login (docs/protocol/auth.md 15.4).

use std::sync::Arc;
use std::time::Instant;

use weft_contract::resource::client::{EnvInfo, SdkInfo};
use weft_contract::resource::session::{AuthenticateBody, method};
use weft_kernel::{Failure, Result};
use weft_model::entity::{ExtJwtSigner, Identity};
use weft_model::{Id, Snapshot};
use weft_oidc::authorize::PrimaryFactor;
use weft_oidc::login::{Missing, Owner, Primary, Totp, Visitor};
use weft_oidc::login_form::{AUTH_REQUEST_ID, LoginForm, SignerInfo, id_of, missing_body};

use super::{LoginFacts, OidcReply, OidcRequest};
use crate::factors::{Outstanding, has_mfa, second_factors};
use crate::handle::Auth;
use crate::login::{end_key, first_factor, remember_chain};

impl Auth {
    /// `GET` of a page: programs read the id of the login from a header.
    pub(super) fn login_page(&self, request: &OidcRequest, method: &str) -> OidcReply {
        let id = match id_of(&request.query) {
            Ok(id) => id.unwrap_or_default(),
            Err(error) => return OidcReply::form(&error),
        };
        if request.wants_page() {
            return self.next_page(request, &id, None, 200);
        }
        let unfinished = self.unfinished().lock();
        let login = unfinished.get(&id, Instant::now());
        if let Err(refused) = login.and_then(|login| login.admit(request.visitor())) {
            return OidcReply::refused(refused);
        }
        let text = format!("send the factor `{method}` with POST to this address\n");
        OidcReply::text(200, &text).with(AUTH_REQUEST_ID, id).with("cache-control", "no-store")
    }

    /// `POST /login/{password,cert,ext-jwt}`: a primary factor, and an external token as the second one beside it.
    pub(super) async fn primary_factor(&self, request: &OidcRequest, word: &str) -> OidcReply {
        match self.check_primary(request, word).await {
            Ok(reply) | Err(reply) => reply,
        }
    }

    async fn check_primary(
        &self,
        request: &OidcRequest,
        word: &str,
    ) -> Result<OidcReply, OidcReply> {
        let form = self.form_of(request)?;
        let id = form.id.clone().unwrap_or_default();
        let visitor = request.visitor();
        {
            let unfinished = self.unfinished().lock();
            let login = unfinished.get(&id, Instant::now());
            login.and_then(|login| login.admit(visitor)).map_err(OidcReply::refused)?;
        }
        // A token is the second factor of a login that has a first one and lacks a token.
        if word == method::EXT_JWT
            && let Some(missing) = self.lacks_token(&id, visitor)
        {
            let left = self.second_token(request, &form, missing).await?;
            if left.signer.is_some() {
                let text =
                    "the token is none of the identity and the signer that the login asks for";
                return Err(OidcReply::coded(401, "INVALID_AUTH", text));
            }
            return Ok(self.after_step(&id, &left));
        }
        let caller = &request.caller;
        if word == method::CERT && request.is_foreign() {
            let text = "a page of another site may not log in with the certificate of its browser";
            return Err(OidcReply::coded(403, "UNAUTHORIZED", text));
        }
        let body = body_of(&form).map_err(|failure| OidcReply::failure(&failure))?;
        let bearers: Vec<&str> = request.bearers().chain(form.token.as_deref()).collect();
        let found = first_factor(self, caller, word, (&body, &bearers)).await;
        let (shown, counted) = found.map_err(|failure| OidcReply::failure(&failure))?;
        let snapshot = self.kernel().snapshot();
        let wanted = wanted(&snapshot, &shown.identity.base.id);
        let primary = Primary {
            owner: Owner {
                identity: shown.identity.base.id.to_string(),
                authenticator: shown.authenticator.to_string(),
            },
            method: method_of(word),
            at: self.kernel().now(),
            wanted,
        };
        let facts = LoginFacts {
            body: AuthenticateBody { password: None, username: None, ..body },
            csr: form.csr.clone(),
            caller: caller.clone(),
            shown: shown.clone(),
            giver: self.kernel().ids().entity(),
            enrollment: Arc::default(),
        };
        let step = self
            .unfinished()
            .lock()
            .step(&id, Instant::now(), |login| login.primary(visitor, primary, facts));
        let missing = step.map_err(OidcReply::refused)?;
        counted.keep();
        remember_chain(self, &shown).await;
        let missing = self.second_token(request, &form, missing).await?;
        Ok(self.after_step(&id, &missing))
    }

    /// Checks the external tokens of a request as the second factor of a login that lacks one. A token that does not
    /// fit is ignored: the answer says what is still missing.
    async fn second_token(
        &self,
        request: &OidcRequest,
        form: &LoginForm,
        missing: Missing,
    ) -> Result<Missing, OidcReply> {
        let id = form.id.as_deref().unwrap_or_default();
        let Some(signer) = missing.signer.clone() else { return Ok(missing) };
        let pasted = form.token.as_deref();
        let tokens: Vec<String> = request.bearers().chain(pasted).map(str::to_owned).collect();
        let Some(owner) = self.owner_of(id) else { return Ok(missing) };
        let (caller, tokens) = (&request.caller, tokens.iter().map(String::as_str));
        let good = self.second_of_login(&owner, caller, tokens).await;
        let Some(signer) = good.map(|(good, _)| good.to_string()).filter(|it| *it == signer) else {
            return Ok(missing);
        };
        let identity = owner.to_string();
        let visitor = request.visitor();
        let mut unfinished = self.unfinished().lock();
        let step = |login: &mut weft_oidc::login::Login<LoginFacts>| {
            login.token(visitor, &identity, &signer)
        };
        unfinished.step(id, Instant::now(), step).map_err(OidcReply::refused)
    }

    /// The answer after a step: the callback if nothing is missing.
    pub(super) fn after_step(&self, id: &str, missing: &Missing) -> OidcReply {
        if missing.is_nothing() {
            let next = self.unfinished().lock().get(id, Instant::now()).map(|login| login.next(id));
            return match next {
                Ok(to) => OidcReply::redirect(to).of_login(id),
                Err(refused) => OidcReply::refused(refused),
            };
        }
        self.missing_in(id, missing)
    }

    /// The answer that names the factors that a login lacks.
    pub(super) fn missing_in(&self, id: &str, missing: &Missing) -> OidcReply {
        let (signer, snapshot) = (self.signer_of(missing), self.kernel().snapshot());
        let owner = self.owner_of(id);
        let owner = owner.and_then(|owner| snapshot.get::<Identity>(&owner));
        let body = missing_body(missing, signer.as_ref(), owner.map(|owner| &*owner.name));
        OidcReply::missing(missing, body).of_login(id)
    }

    /// The identity that a login belongs to.
    fn owner_of(&self, id: &str) -> Option<Id> {
        let unfinished = self.unfinished().lock();
        let login = unfinished.get(id, Instant::now()).ok()?;
        login.owner().map(|owner| Id::new(&owner.identity))
    }

    /// What a login lacks, if a token is among it.
    fn lacks_token(&self, id: &str, visitor: Visitor) -> Option<Missing> {
        let unfinished = self.unfinished().lock();
        let login = unfinished.get(id, Instant::now()).ok()?;
        login.wants_token(visitor).ok()?;
        login.missing()
    }

    /// The body of a step, and the id of its login.
    pub(super) fn form_of(&self, request: &OidcRequest) -> Result<LoginForm, OidcReply> {
        if request.answer().is_none() {
            let text =
                "the answer is application/json or text/html, and the header Accept takes neither";
            return Err(OidcReply::coded(406, "NOT_ACCEPTABLE", text));
        }
        let media = request.content_type.as_deref();
        LoginForm::read(media, &request.body, &request.query)
            .map_err(|error| OidcReply::form(&error))
    }

    /// The signer whose token is missing, as clients see it.
    pub(super) fn signer_of(&self, missing: &Missing) -> Option<SignerInfo> {
        let id = missing.signer.as_ref()?;
        let snapshot = self.kernel().snapshot();
        let signer = snapshot.get::<ExtJwtSigner>(&Id::new(id))?;
        Some(SignerInfo {
            id: id.clone(),
            url: signer.external_auth_url.clone(),
            client_id: signer.client_id.clone(),
            scopes: (!signer.scopes.is_empty()).then(|| signer.scopes.clone()),
        })
    }
}

/// The second factors that an identity needs.
fn wanted(snapshot: &Snapshot, identity: &Id) -> Missing {
    let Outstanding { totp, signer } = second_factors(snapshot, identity);
    let state = match has_mfa(snapshot, identity) {
        true => Totp::Enrolled,
        false => Totp::NotEnrolled,
    };
    Missing { totp: totp.then_some(state), signer: signer.map(|signer| signer.to_string()) }
}

fn method_of(word: &str) -> PrimaryFactor {
    match word {
        method::PASSWORD => PrimaryFactor::Password,
        method::CERT => PrimaryFactor::Cert,
        _ => PrimaryFactor::ExtJwt,
    }
}

/// A step in the form of the other protocol's login, whose rules for texts are the same.
fn body_of(form: &LoginForm) -> Result<AuthenticateBody> {
    let mut body = serde_json::Map::new();
    let texts = [("username", &form.username), ("password", &form.password)];
    for (name, text) in texts {
        body.extend(text.clone().map(|text| (name.to_owned(), text.into())));
    }
    let read = serde_json::from_value(body.into());
    let body: AuthenticateBody =
        read.map_err(|error| Failure::field("username or password", error.to_string(), ""))?;
    let sdk = form.sdk.clone().map(serde_json::from_value::<SdkInfo>);
    let env = form.env.clone().map(serde_json::from_value::<EnvInfo>);
    let refused = |error: serde_json::Error| Failure::field("sdkInfo", error.to_string(), "");
    if let Some(key) = &form.end_key {
        end_key(key)?;
    }
    Ok(AuthenticateBody {
        end_key: form.end_key.clone(),
        config_types: Some(form.config_types.clone()).filter(|types| !types.is_empty()),
        sdk_info: sdk.transpose().map_err(refused)?,
        env_info: env.transpose().map_err(refused)?,
        ..body
    })
}
