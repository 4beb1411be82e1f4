//! Services (docs/protocol/management-api.md 7.2; docs/protocol/auth.md 17.6).

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_auth::posture::queries;
use weft_auth::posture::viewer::Viewer;
use weft_auth::wanted_configs::WantedConfigs;
use weft_contract::entity::DialBind;
use weft_contract::resource::service as contract;
use weft_contract::resource::service::{DEFAULT_STRATEGY, STRATEGIES, ServiceBody, ServiceDetail};
use weft_contract::{JsonMap, Kind as ContractKind};
use weft_kernel::decision::Decision;
use weft_kernel::view::View;
use weft_kernel::{Caller, Failure, QueryParameters, Result};
use weft_model::entity::{ConfigTarget, PolicyType, Service, ServicePolicy, TerminatorStrategy};
use weft_model::filter::Index;
use weft_model::{Choice as _, Id};

use super::config_type::check_configs;
use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{ListedRecords, Readable, Resource};

/// The resource.
pub(crate) struct Services;

fields! {
    Services of Service, set by ServiceBody, shown as ServiceDetail, searched as "services";

    tags;
    name { set, shown, searched }
    terminator_strategy { set by strategy, shown by ToString::to_string, searched }
    role_attributes { set, shown, searched }
    configs { set, shown, searched indexed Index::Link(0) }
    is_fabric_only { kept, searched }
    encryption_required { set on Create | Replace, shown }
    authenticated_ends { set, kept, shown, searched }
    max_idle_millis as max_idle_time_millis { set by idle_millis, shown }
    show config, permissions, posture_queries elsewhere;
}

impl Readable for Services {
    const KIND: &'static ContractKind = &contract::KIND;

    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::Eligible
    }

    fn belongs(record: &Service) -> bool {
        !record.is_fabric_only
    }

    fn detail(context: &Context, record: &Service) -> ServiceDetail {
        shown(context, record, context.viewer(), BTreeMap::new())
    }
}

impl Resource for Services {
    type Prepared = ();

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Service>,
        after: &mut Service,
        _prepared: &(),
    ) -> Result<()> {
        if after.authenticated_ends && !after.encryption_required {
            let reason =
                "ends prove themselves over encrypted connections: needs encryptionRequired";
            return Err(Failure::field("authenticatedEnds", reason, "true"));
        }
        if before.is_some_and(|before| before.configs == after.configs) {
            return Ok(());
        }
        check_configs(decision, ConfigTarget::Service, &after.configs)
    }
}

/// Reads the idle time of a service's circuits from a body, in milliseconds.
pub(super) fn idle_millis(millis: &i64) -> Result<i64> {
    match millis {
        0.. => Ok(*millis),
        _ => Err(Failure::field("maxIdleTimeMillis", "must be 0 or more", millis.to_string())),
    }
}

/// Reads the strategy that chooses terminators from a body; an empty text means the default.
pub(super) fn strategy(word: &str) -> Result<TerminatorStrategy> {
    let word = if word.is_empty() { DEFAULT_STRATEGY } else { word };
    TerminatorStrategy::parse(word).ok_or_else(|| {
        let reason = format!("must be one of {}", STRATEGIES.join(", "));
        Failure::field("terminatorStrategy", reason, word)
    })
}

/// The permissions of an identity for a service. The list is never empty, because SDKs depend on an
/// entry.
pub(crate) fn permissions(view: View<'_>, identity: &str, service: &Id) -> Vec<DialBind> {
    granted_by(&view.snapshot().service_policies_between(&Id::new(identity), service))
}

fn granted_by(between: &[(u32, &Arc<ServicePolicy>)]) -> Vec<DialBind> {
    let has = |wanted| between.iter().any(|(_, policy)| policy.policy_type == wanted);
    let mut words = Vec::new();
    if has(PolicyType::Bind) {
        words.push(DialBind::Bind);
    }
    if has(PolicyType::Dial) {
        words.push(DialBind::Dial);
    }
    if words.is_empty() {
        words.push(DialBind::Invalid);
    }
    words
}

/// A service as a viewer sees it.
pub(crate) fn shown(
    context: &Context,
    record: &Service,
    viewer: &Viewer,
    config: BTreeMap<String, JsonMap>,
) -> ServiceDetail {
    let id = &record.base.id;
    let snapshot = context.snapshot();
    let between = viewer.policies_with(snapshot, id);
    let permissions = granted_by(&between);
    let posture_queries =
        queries::of_service(snapshot, viewer, &between, &permissions, context.now());
    ServiceDetail { config, permissions, posture_queries, ..Services::show(context, record) }
}

/// The config types that the query asks for; without such a query, those of the session.
pub(crate) fn wanted_configs(context: &Context, query: &QueryParameters) -> WantedConfigs {
    if query.get("configTypes").is_some() {
        return WantedConfigs::of(context.view(), query.all("configTypes"));
    }
    let session = context.caller().login().map(|login| login.session.id.as_str());
    let types = session.and_then(|id| context.sessions().config_types(id)).unwrap_or_default();
    WantedConfigs::kept(types)
}
