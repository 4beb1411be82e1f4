//! What an SDK may do: service session tokens and decisions
//! (protocol: edge-control-plane 11.5, 12).

use std::{collections::HashSet, sync::Arc, time::SystemTime};

use weft_wire::{
    ctrl::TerminatorPrecedence,
    edge_ctrl::{ErrorCode, data_model::PolicyType},
};

use super::{Inner, decide, live, model::Model, refused, token};
use crate::seam::{Grant, Hosting, Precedence, Refusal, RetryHint, Session, TunnelService, Use};

/// The one text of a refusal that C SDKs read: they drop the service session and begin anew
/// (protocol: sdk 6).
const INVALID_SESSION: &str = "Invalid Session";

fn invalid(detail: &dyn std::fmt::Display, session: &Session) -> Refusal {
    tracing::debug!(session = %session.id, identity = %session.identity, %detail, "service session refused");
    refused(ErrorCode::INVALID_SESSION, RetryHint::StartOver, INVALID_SESSION)
}

/// Judges a service token of a connect or a bind. Sessions with signed tokens are decided here; for
/// opaque ones the controller decided when it made the service session.
pub(crate) fn judge(
    inner: &Inner,
    session: &Session,
    token: &[u8],
    purpose: Use,
    now: SystemTime,
) -> Result<Grant, Refusal> {
    let text = std::str::from_utf8(token)
        .map_err(|_| invalid(&"the service token is not text", session))?;
    let grant = if token::is_signed(token) {
        of_token(inner, session, text, purpose, now)?
    } else {
        of_service(inner, session, text, purpose)?
    };
    if !session.legacy {
        // Held until the grant is noted: a change comes before the decision, or finds the grant.
        let model = inner.model.read();
        decide::decide(&model, &session.identity, &grant.service, purpose)?;
        let mut grants = inner.grants.lock();
        let of_identity = grants.entry(session.identity.clone()).or_default();
        of_identity.insert((grant.service.clone(), purpose));
    }
    Ok(grant)
}

fn of_token(
    inner: &Inner,
    session: &Session,
    text: &str,
    purpose: Use,
    now: SystemTime,
) -> Result<Grant, Refusal> {
    let claims = token::service(&inner.keys.load(), text, now);
    let claims = claims.map_err(|error| invalid(&error, session))?;
    if claims.z_asid != session.id {
        return Err(invalid(&"it is of another API session", session));
    }
    if !claims.z_iid.is_empty() && claims.z_iid != session.identity {
        return Err(invalid(&"it is of another identity", session));
    }
    if inner.ended.lock().contains_key(&claims.jti) {
        return Err(invalid(&"it ended", session));
    }
    let facts = live::TokenFacts { jti: claims.jti.clone(), issued: 0.0, expires: 0.0 };
    if live::is_revoked(&inner.model.read(), "", "", &facts) {
        return Err(invalid(&"it is revoked", session));
    }
    let wanted = match purpose {
        Use::Dial => "Dial",
        Use::Bind => "Bind",
    };
    if claims.z_st != wanted {
        let verb = wanted.to_lowercase();
        let got: String = claims.z_st.chars().take(16).collect();
        let text = format!("rejecting {verb}, invalid session type. expected {wanted}, got {got}");
        return Err(refused(ErrorCode::WRONG_SESSION_TYPE, RetryHint::StartOver, text));
    }
    Ok(Grant { service: claims.sub, service_session: claims.jti, token: text.to_owned(), purpose })
}

/// A service named by its id, which only a dial may do.
fn of_service(
    inner: &Inner,
    session: &Session,
    text: &str,
    purpose: Use,
) -> Result<Grant, Refusal> {
    if purpose == Use::Bind {
        return Err(invalid(&"a bind needs a signed service token", session));
    }
    if !inner.model.read().services.contains_key(text) {
        let shown: String = text.chars().take(64).collect();
        return Err(decide::unknown_service(&shown));
    }
    Ok(Grant {
        service: text.to_owned(),
        service_session: String::new(),
        token: text.to_owned(),
        purpose,
    })
}

/// The services that the router's own identity may use, with what their configs say
/// (protocol: edge-control-plane 15). The identity is there only while the tunneler is enabled.
pub(crate) fn tunneled(model: &Model, router_id: &str) -> Vec<TunnelService> {
    let Some(identity) = model.identities.get(router_id) else { return Vec::new() };
    // A router shows no posture data; whether a dial goes without, the controller decides.
    let dialed =
        if identity.disabled { Vec::new() } else { model.services_of(router_id, PolicyType::Dial) };
    let mut services = model.services_of(router_id, PolicyType::Bind);
    services.retain(|service| decide::decide(model, router_id, &service.id, Use::Bind).is_ok());
    let bound: HashSet<&str> = services.iter().map(|service| service.id.as_str()).collect();
    let can_bind = |id: &str| bound.contains(id);
    let can_dial: HashSet<&str> = dialed.iter().map(|service| service.id.as_str()).collect();
    services.extend(dialed.iter().filter(|service| !can_bind(&service.id)));
    let app_data = serde_json::from_slice(&identity.app_data_json).unwrap_or_default();
    let own = Arc::new(weft_tunnel::Identity { name: identity.name.clone(), app_data });
    let tunneled = services.into_iter().map(|service| TunnelService {
        id: service.id.clone(),
        name: service.name.clone(),
        encryption_required: service.encryption_required,
        configs: model.configs_for(router_id, service),
        can_dial: can_dial.contains(service.id.as_str()),
        can_bind: can_bind(&service.id),
        identity: Arc::clone(&own),
        hosting: Hosting {
            default_cost: cost(identity.default_hosting_cost),
            default_precedence: precedence(identity.default_hosting_precedence()),
            cost: identity.service_hosting_costs.get(&service.id).copied().map(cost),
            precedence: identity
                .service_hosting_precedences
                .get(&service.id)
                .and_then(|number| TerminatorPrecedence::try_from(*number).ok())
                .map(precedence),
        },
    });
    tunneled.collect()
}

fn cost(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn precedence(of: TerminatorPrecedence) -> Precedence {
    match of {
        TerminatorPrecedence::Default => Precedence::Default,
        TerminatorPrecedence::Required => Precedence::Required,
        TerminatorPrecedence::Failed => Precedence::Failed,
    }
}
