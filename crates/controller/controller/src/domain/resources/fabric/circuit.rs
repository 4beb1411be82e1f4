//! Circuits, looked up in the running network. Each controller of several owns some of them, and asks the others for
//! theirs (docs/protocol/control-plane.md 31).

mod elsewhere;

use std::sync::Arc;

use weft_contract::entity::{Base, links};
use weft_contract::json::TagValue;
use weft_contract::resource::fabric::circuit::{
    COLLECTION, CircuitDelete, CircuitDetail, CircuitPath, CircuitTraffic,
};
use weft_contract::resource::fabric::link::COLLECTION as LINKS;
use weft_contract::resource::fabric::terminator::COLLECTION as TERMINATORS;
use weft_contract::resource::identity::COLLECTION as IDENTITIES;
use weft_contract::{Api, EntityRef, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::view::View;
use weft_kernel::{Call, Caller, Reply, Result, convert};
use weft_model::entity::{Identity, Service};
use weft_model::filter::{Column, Symbols, Type, Value};
use weft_network::circuits::Circuit;
use weft_network::network::Network;

use super::{network, router_ref, service_ref};
use crate::Controller;
use crate::domain::context::Context;
use crate::domain::live::{self, InMemoryKind};
use crate::domain::symbols::{at, each};

/// The resource.
pub(crate) struct Circuits;

/// A circuit in a list.
pub(crate) enum ListedCircuit {
    /// Of this controller.
    Own(Arc<Circuit>),
    /// Of another one, as that one shows it.
    Elsewhere(Box<CircuitDetail>),
}

use ListedCircuit::{Elsewhere, Own};

impl ListedCircuit {
    fn id(&self) -> &str {
        match self {
            Own(own) => &own.id,
            Elsewhere(shown) => &shown.base.id,
        }
    }

    fn service(&self) -> &str {
        match self {
            Own(own) => own.service.as_str(),
            Elsewhere(shown) => &shown.service.id,
        }
    }

    fn tag(&self, key: &str) -> Option<&str> {
        match self {
            Own(own) => own.tags.get(key),
            Elsewhere(shown) => match shown.base.tags.get(key) {
                Some(TagValue::Text(text)) => Some(text),
                _ => None,
            },
        }
    }
}

type CircuitColumn = Column<Context, ListedCircuit>;

static SYMBOLS: Symbols<Context, ListedCircuit> = Symbols {
    kind: "circuits",
    id: ListedCircuit::id,
    shared: &[],
    columns: &[
        CircuitColumn::one("id", Type::String, |_, it| Value::text(it.id())).public(),
        CircuitColumn::one("createdAt", Type::Time, |_, it| match it {
            Own(own) => at(own.created_at),
            Elsewhere(shown) => Value::unix_millis(shown.base.created_at.millis()),
        })
        .public(),
        CircuitColumn::one("clientId", Type::String, |_, it| match it {
            Own(own) => Value::text(&own.client),
            Elsewhere(shown) => Value::text(&shown.client_id),
        })
        .public(),
        CircuitColumn::one("controllerId", Type::String, |context, it| match it {
            Own(_) => Value::text(&context.controller().kernel().settings().id),
            Elsewhere(shown) => shown.controller_id.as_deref().map_or(Value::Null, Value::text),
        })
        .public(),
        CircuitColumn::one("service", Type::String, |_, it| Value::text(it.service())).public(),
        CircuitColumn::one("service.name", Type::String, |context, it| {
            let service = context.view().get::<Service>(it.service());
            service.map_or(Value::Null, |service| Value::text(&service.name))
        })
        .public(),
        CircuitColumn::one("terminator", Type::String, |_, it| match it {
            Own(own) => Value::text(own.terminator.as_str()),
            Elsewhere(shown) => Value::text(&shown.terminator.id),
        })
        .public(),
        CircuitColumn::set("routers", Type::String, |_, it, visit| match it {
            Own(own) => each(&own.path.nodes, visit),
            Elsewhere(shown) => each(shown.path.nodes.iter().map(|router| &router.id), visit),
        })
        .public(),
        CircuitColumn::set("links", Type::String, |_, it, visit| match it {
            Own(own) => each(&own.path.links, visit),
            Elsewhere(shown) => each(shown.path.links.iter().map(|link| &link.id), visit),
        })
        .public(),
        CircuitColumn::map("tags", |_, it, key| it.tag(key).map_or(Value::Null, Value::text))
            .public(),
    ],
};

impl InMemoryKind for Circuits {
    type Record = ListedCircuit;
    type Detail = CircuitDetail;

    const NAME: &'static str = "circuit";
    const SYMBOLS: &'static Symbols<Context, ListedCircuit> = &SYMBOLS;

    fn count(context: &Context) -> usize {
        context.controller().network().map_or(0, |network| network.circuits().len())
    }

    fn all(context: &Context) -> Vec<Arc<ListedCircuit>> {
        let circuits = context.controller().network().map(|network| network.circuits().all());
        circuits.unwrap_or_default().into_iter().map(|own| Arc::new(Own(own))).collect()
    }

    fn find(context: &Context, id: &str) -> Option<Arc<ListedCircuit>> {
        context.controller().network()?.circuits().get(id).map(|own| Arc::new(Own(own)))
    }

    fn detail(context: &Context, record: &ListedCircuit) -> Result<CircuitDetail> {
        let view = context.view();
        let record = match record {
            Own(own) => own,
            Elsewhere(shown) => return Ok((**shown).clone()),
        };
        let at = convert::time(record.created_at);
        let tags = record.tags.iter();
        let terminator = record.terminator.as_str();
        Ok(CircuitDetail {
            base: Base {
                links: links(COLLECTION, &record.id, &[]),
                created_at: at,
                id: record.id.clone(),
                tags: tags
                    .map(|(name, text)| (name.to_owned(), TagValue::Text(text.to_owned())))
                    .collect(),
                updated_at: at,
            },
            client_id: record.client.clone(),
            controller_id: owner(context.controller()),
            dialer: record.dialer().and_then(|id| dialer(view, id)),
            path: CircuitPath {
                is_whole: (!record.is_whole).then_some(false),
                links: record.path.links.iter().map(|id| EntityRef::new(LINKS, id, id)).collect(),
                nodes: record.path.nodes.iter().map(|id| router_ref(view, id)).collect(),
            },
            service: service_ref(view, &record.service),
            terminator: EntityRef::new(TERMINATORS, terminator, terminator),
            traffic: context.controller().network().and_then(|it| traffic(&it, record)),
        })
    }
}

/// The id of this controller, unless it is alone.
fn owner(controller: &Controller) -> Option<String> {
    let is_one_of_several = controller.auth().is_member();
    is_one_of_several.then(|| controller.kernel().settings().id.clone())
}

/// The identity that dialed, unless it was deleted.
fn dialer(view: View<'_>, id: &str) -> Option<EntityRef> {
    let identity = view.get::<Identity>(id)?;
    Some(EntityRef::new(IDENTITIES, id, &identity.name))
}

fn traffic(network: &Network, circuit: &Circuit) -> Option<CircuitTraffic> {
    let shown = network.traffic_of(circuit)?;
    let [bytes_from_dialer, bytes_to_dialer] = shown.bytes;
    Some(CircuitTraffic {
        bytes_from_dialer,
        bytes_to_dialer,
        interval_seconds: shown.seconds,
        rate_from_dialer: shown.rates.map(|[from, _]| from),
        rate_to_dialer: shown.rates.map(|[_, to]| to),
        reported_at: convert::time(shown.reported_at),
    })
}

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Fabric, "listCircuits", &list),
    (Api::Fabric, "detailCircuit", &detail),
    (Api::Fabric, "deleteCircuit", &delete),
];

async fn list(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let selection = live::selection::<Circuits>(&caller, &call.query)?;
    let others = elsewhere::parts(&controller, &call.query, selection.page()).await?;
    live::list_with::<Circuits>(&controller, &caller, selection, others).await
}

async fn detail(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    match Circuits::find(&context, call.id(0)) {
        Some(own) => Reply::detail(&Circuits::detail(&context, &own)?),
        None => Reply::detail(&elsewhere::detail(&controller, call.id(0)).await?),
    }
}

/// Ends a circuit. With `immediate` it ends at once, and data on its way is lost; otherwise it ends
/// after routers have delivered the data that they hold.
async fn delete(controller: Controller, _caller: Caller, call: Call) -> Result<Reply> {
    let body: CircuitDelete = call.decode_optional(Verb::Create)?;
    let now = body.immediate.unwrap_or(false);
    if !network(&controller)?.remove_circuit(call.id(0), now) {
        elsewhere::delete(&controller, call.id(0), now).await?;
    }
    Reply::empty()
}

pub(crate) use elsewhere::answer;
