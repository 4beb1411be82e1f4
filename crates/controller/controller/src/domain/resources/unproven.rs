//! Who could not use a service that demands that both ends prove who they are (docs/protocol/sdk.md 14.6): terminators
//! and service sessions of clients that have named no key of an end.

use std::sync::Arc;

use weft_auth::sessions::Sessions;
use weft_contract::entity::DialBind;
use weft_contract::permission::{Action, Subject};
use weft_contract::resource::edge_router::COLLECTION as ROUTERS;
use weft_contract::resource::identity::COLLECTION as IDENTITIES;
use weft_contract::resource::service::COLLECTION as SERVICES;
use weft_contract::resource::unproven::{MAX_PAGE, PAGE, UnprovenEnd, UnprovenEnds};
use weft_contract::{Api, EntityRef};
use weft_kernel::call::HandlerRow;
use weft_kernel::view::View;
use weft_kernel::work_limiter::BUDGET;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::entity::{
    ApiSession, Identity, Router, SdkInfo, Service, ServiceSession, Terminator,
};
use weft_model::filter::parse_param;
use weft_model::{Ended, Meter, Part, Snapshot};

use crate::Controller;

/// The operation.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[(Api::Weft, "listUnprovenEnds", &list)];

/// Units of work of a session or terminator that is looked at, and of one that is shown.
const LOOK: u64 = 4;
const SHOWN: u64 = 64;
/// The kinds of entities that the answer names; the caller needs the permission to read them.
const NAMED: [Subject; 4] =
    [Subject::Identity, Subject::Service, Subject::Router, Subject::Terminator];

async fn list(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let unread = NAMED.into_iter().find(|subject| !caller.may(*subject, Action::Read));
    if let Some(subject) = unread {
        let read = Action::Read;
        let reason = format!("the list names entities that need the permission {subject}.{read}");
        return Err(Failure::unauthorized(reason));
    }
    let snapshot = controller.kernel().snapshot();
    let id = call.id(0);
    let service = snapshot.by_id_or_name::<Service>(id).filter(|it| !it.is_fabric_only);
    let service = service.cloned().ok_or_else(|| Failure::not_found("service", id))?;
    let number = |name: &'static str, usual: usize, most: usize| match call.query.get(name) {
        None => Ok(usual),
        Some(text) => parse_param(name, text)
            .map(|given| usize::try_from(given).unwrap_or_default().min(most)),
    };
    let page = Page {
        offset: number("offset", 0, usize::MAX)?,
        limit: number("limit", PAGE, MAX_PAGE)?.max(1),
    };
    let request = controller.kernel().scans().asked_by(&caller);
    let meter = request.meter(BUDGET);
    let work = move || page.answer(controller.auth().sessions(), &snapshot, &service, &meter);
    Reply::detail(&request.work(work).await?)
}

/// The part of the list that is asked for.
struct Page {
    offset: usize,
    limit: usize,
}

impl Page {
    fn answer(
        &self,
        sessions: &Sessions,
        snapshot: &Snapshot,
        service: &Service,
        meter: &Meter,
    ) -> Result<UnprovenEnds> {
        let (id, view) = (&service.base.id, View::of(snapshot));
        let terminators = terminators(snapshot, service, meter)?;
        let sessions = unproven(sessions, service, meter)?;
        let total = terminators.len() + sessions.len();
        let hosts = terminators.iter().map(|it| of_terminator(view, it));
        let all = hosts.chain(sessions.iter().map(|(it, login)| of_session(view, it, login)));
        let mut ends = Vec::new();
        for end in all.skip(self.offset).take(self.limit) {
            meter.take(Part::Rows, SHOWN)?;
            ends.push(end);
        }
        Ok(UnprovenEnds {
            demanded: service.authenticated_ends,
            ends,
            offset: i64::try_from(self.offset).unwrap_or(i64::MAX),
            service: EntityRef::new(SERVICES, id.as_str(), &service.name),
            total: i64::try_from(total).unwrap_or(i64::MAX),
        })
    }
}

/// The terminators whose host has named no key, ordered by id.
fn terminators(
    snapshot: &Snapshot,
    service: &Service,
    meter: &Meter,
) -> Result<Vec<Arc<Terminator>>, Ended> {
    let mut found = Vec::new();
    for terminator in snapshot.referring::<Terminator>(Terminator::SERVICE, &service.base.id) {
        meter.take(Part::Rows, LOOK)?;
        if !terminator.host_proves {
            found.push(Arc::clone(terminator));
        }
    }
    found.sort_unstable_by(|a, b| a.base.id.cmp(&b.base.id));
    Ok(found)
}

/// A service session, and its login.
type Session = (Arc<ServiceSession>, Arc<ApiSession>);

/// The sessions whose login has named no key, ordered by id, and these logins.
fn unproven(sessions: &Sessions, service: &Service, meter: &Meter) -> Result<Vec<Session>, Ended> {
    // Paid for before any of them is copied.
    meter.take(Part::Rows, LOOK.saturating_mul(sessions.count_for(&service.base.id)))?;
    let mut found = Vec::new();
    for session in sessions.services_for(&service.base.id) {
        let login = sessions.by_id(session.api_session_id.as_str());
        if let Some(login) = login.filter(|login| login.end_key.is_empty()) {
            found.push((session, login));
        }
    }
    Ok(found)
}

fn of_terminator(view: View<'_>, terminator: &Terminator) -> UnprovenEnd {
    let host = &terminator.host_id;
    UnprovenEnd {
        binding: terminator.binding.to_string(),
        created_at: convert::time(terminator.base.created_at),
        identity: (!host.is_empty()).then(|| convert::mention::<Identity>(view, IDENTITIES, host)),
        role: DialBind::Bind,
        router: Some(convert::mention::<Router>(view, ROUTERS, &terminator.router_id)),
        terminator: terminator.base.id.to_string(),
        ..UnprovenEnd::default()
    }
}

fn of_session(view: View<'_>, session: &ServiceSession, login: &ApiSession) -> UnprovenEnd {
    let [application, sdk] = login.sdk_info.as_ref().map(SdkInfo::described).unwrap_or_default();
    UnprovenEnd {
        application,
        created_at: convert::time(session.base.created_at),
        identity: Some(convert::mention::<Identity>(view, IDENTITIES, &session.identity_id)),
        role: convert::word(session.session_type),
        sdk,
        session: session.base.id.to_string(),
        ..UnprovenEnd::default()
    }
}
