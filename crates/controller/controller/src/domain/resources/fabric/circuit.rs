//! Circuits, looked up in the running network.

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
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
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

type CircuitColumn = Column<Context, Circuit>;

static SYMBOLS: Symbols<Context, Circuit> = Symbols {
    kind: "circuits",
    id: |circuit| &circuit.id,
    shared: &[],
    columns: &[
        CircuitColumn::one("id", Type::String, |_, it| Value::text(&it.id)).public(),
        CircuitColumn::one("createdAt", Type::Time, |_, it| at(it.created_at)).public(),
        CircuitColumn::one("clientId", Type::String, |_, it| Value::text(&it.client)).public(),
        CircuitColumn::one("service", Type::String, |_, it| Value::text(it.service.as_str()))
            .public(),
        CircuitColumn::one("service.name", Type::String, |context, it| {
            let service = context.view().get::<Service>(it.service.as_str());
            service.map_or(Value::Null, |service| Value::text(&service.name))
        })
        .public(),
        CircuitColumn::one("terminator", Type::String, |_, it| Value::text(it.terminator.as_str()))
            .public(),
        CircuitColumn::set("routers", Type::String, |_, it, visit| each(&it.path.nodes, visit))
            .public(),
        CircuitColumn::set("links", Type::String, |_, it, visit| each(&it.path.links, visit))
            .public(),
        CircuitColumn::map("tags", |_, it, key| it.tags.get(key).map_or(Value::Null, Value::text))
            .public(),
    ],
};

impl InMemoryKind for Circuits {
    type Record = Circuit;
    type Detail = CircuitDetail;

    const NAME: &'static str = "circuit";
    const SYMBOLS: &'static Symbols<Context, Circuit> = &SYMBOLS;

    fn count(context: &Context) -> usize {
        context.controller().network().map_or(0, |network| network.circuits().len())
    }

    fn all(context: &Context) -> Vec<Arc<Circuit>> {
        let circuits = context.controller().network().map(|network| network.circuits().all());
        circuits.unwrap_or_default()
    }

    fn find(context: &Context, id: &str) -> Option<Arc<Circuit>> {
        context.controller().network()?.circuits().get(id)
    }

    fn detail(context: &Context, record: &Circuit) -> Result<CircuitDetail> {
        let view = context.view();
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
    (Api::Fabric, "listCircuits", &live::list::<Circuits>),
    (Api::Fabric, "detailCircuit", &live::detail::<Circuits>),
    (Api::Fabric, "deleteCircuit", &delete),
];

/// Ends a circuit. With `immediate` it ends at once, and data on its way is lost; otherwise it ends
/// after routers have delivered the data that they hold.
async fn delete(controller: Controller, _caller: Caller, call: Call) -> Result<Reply> {
    let body: CircuitDelete = call.decode_optional(Verb::Create)?;
    let now = body.immediate.unwrap_or(false);
    match network(&controller)?.remove_circuit(call.id(0), now) {
        true => Reply::empty(),
        false => Err(Failure::not_found(Circuits::NAME, call.id(0))),
    }
}
