//! API sessions, as administrators see them (docs/protocol/management-api.md 7.8): those with opaque tokens and those
//! with signed ones.

use std::sync::Arc;

use weft_auth::current::shown;
use weft_auth::factors::SECOND_TOKEN;
use weft_contract::Api;
use weft_contract::permission::{Action, Subject};
use weft_contract::resource::edge_router::COLLECTION as ROUTERS;
use weft_contract::resource::session::{ApiSessionDetail, LoginDetail};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Reply, Result, convert, rank};
use weft_model::Id;
use weft_model::entity::{ApiSession, Authenticator, ExtJwtSigner, Router, SdkInfo};
use weft_model::filter::{Column, Symbols, Type, Value};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::live::{self, InMemoryKind};
use crate::domain::symbols::{at, symbols};

/// The resource.
pub(crate) struct ApiSessions;

type SessionColumn = Column<Context, ApiSession>;

// The token is no symbol: a caller could guess it by filters.
static SYMBOLS: Symbols<Context, ApiSession> = symbols(
    "api-sessions",
    &[
        SessionColumn::one("identity", Type::String, |_, it| Value::text(it.identity_id.as_str()))
            .public(),
        SessionColumn::one("authenticator", Type::String, |_, it| {
            Value::text(it.authenticator_id.as_str())
        })
        .public(),
        SessionColumn::one("ipAddress", Type::String, |_, it| Value::text(&it.ip_address)).public(),
        SessionColumn::one("lastActivityAt", Type::Time, |context, it| {
            at(context.last_activity(it))
        })
        .public(),
        SessionColumn::one("mfaComplete", Type::Bool, |_, it| Value::Bool(it.is_mfa_complete))
            .public(),
        SessionColumn::one("mfaRequired", Type::Bool, |_, it| Value::Bool(it.is_mfa_required))
            .public(),
        SessionColumn::one("improperClientCertChain", Type::Bool, |_, it| {
            Value::Bool(it.improper_client_cert_chain)
        })
        .public(),
    ],
);

impl InMemoryKind for ApiSessions {
    type Record = ApiSession;
    type Detail = ApiSessionDetail;

    const NAME: &'static str = "API session";
    const SYMBOLS: &'static Symbols<Context, ApiSession> = &SYMBOLS;

    fn count(context: &Context) -> usize {
        context.sessions().count()
    }

    fn all(context: &Context) -> Vec<Arc<ApiSession>> {
        context.sessions().all()
    }

    fn find(context: &Context, id: &str) -> Option<Arc<ApiSession>> {
        context.sessions().by_id(id)
    }

    fn detail(context: &Context, record: &ApiSession) -> Result<ApiSessionDetail> {
        // The token lets its holder use the session, so only the client of the session gets it.
        let login = context.caller().login();
        let own = login.filter(|_| context.caller().is_admin());
        let own = own.filter(|login| login.session.id == record.base.id.as_str());
        let origin = &context.caller().origin;
        let own = own.map(|login| (login.session.token.as_str(), &[][..], origin));
        let mut detail = shown(context.controller().auth(), record, own);
        detail.auth_queries.clear();
        (detail.expiration_seconds, detail.expires_at) = (None, None);
        detail.login = Some(login_of(context, record));
        Ok(detail)
    }
}

/// How the client of a session logged in, and what it is connected to.
fn login_of(context: &Context, session: &ApiSession) -> LoginDetail {
    let sessions = context.sessions();
    let may_read = context.caller().may(Subject::Router, Action::Read);
    let routers = may_read.then(|| context.online().routers_of(&session.identity_id));
    let routers = routers.unwrap_or_default();
    let name = |router| convert::mention::<Router>(context.view(), ROUTERS, router);
    let may_know = context.caller().may(Subject::Identity, Action::Read);
    let sdk = session.sdk_info.as_ref().filter(|_| may_know);
    let [application, sdk] = sdk.map(SdkInfo::described).unwrap_or_default();
    LoginDetail {
        application,
        edge_routers: routers.iter().map(name).collect(),
        ends_at: convert::time(sessions.expires_at(session)),
        factors: factors(context, session),
        has_end_key: !session.end_key.is_empty(),
        has_signed_tokens: session.tokens.is_some(),
        last_end: sessions.last_end(session).map(convert::time),
        sdk,
    }
}

/// The factors of a login, in the words of its tokens; a second factor by token has the name of its signer.
fn factors(context: &Context, session: &ApiSession) -> Vec<String> {
    if let Some(login) = &session.tokens {
        return login.methods.iter().map(|method| named(context, method)).collect();
    }
    let authenticator = context.view().get::<Authenticator>(session.authenticator_id.as_str());
    let first = match authenticator {
        _ if session.external.signer_id.is_some() => "ext-jwt",
        Some(it) if it.updb.is_some() => "password",
        _ => "cert",
    };
    let totp = (session.is_mfa_required && session.is_mfa_complete).then(|| "totp".to_owned());
    let token = session.external.second_signer.as_ref().map(|signer| token_of(context, signer));
    [Some(first.to_owned()), totp, token].into_iter().flatten().collect()
}

/// A login method of a token, in words.
fn named(context: &Context, method: &str) -> String {
    match method.strip_prefix(SECOND_TOKEN) {
        Some(signer) => token_of(context, &Id::new(signer)),
        None => method.to_owned(),
    }
}

/// A token as second factor, with the name of its signer. Its id stands for a signer that is gone, and for a caller who may not
/// read signers.
fn token_of(context: &Context, signer: &Id) -> String {
    let may_know = context.caller().may(Subject::ExternalJwtSigner, Action::Read);
    let known = context.view().get::<ExtJwtSigner>(signer.as_str()).filter(|_| may_know);
    let name = known.map_or(signer.as_str(), |signer| &*signer.name);
    format!("token of {name}")
}

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listAPISessions", &live::list::<ApiSessions>),
    (Api::Management, "detailAPISessions", &live::detail::<ApiSessions>),
    (Api::Management, "deleteAPISessions", &delete),
];

/// Ends a session and its service sessions. The reply is sent after the end is on the disk: a
/// controller that is killed after the reply does not restore the session.
async fn delete(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let session = live::require::<ApiSessions>(&context, call.id(0))?;
    rank::guard_owner(&caller, context.snapshot(), &session.identity_id)?;
    let sessions = controller.auth().sessions();
    sessions.end(std::slice::from_ref(&session.base.id));
    sessions.kept().await?;
    Reply::empty()
}
