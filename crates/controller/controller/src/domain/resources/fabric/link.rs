//! Links, looked up in the running network.

use std::sync::Arc;

use weft_contract::resource::fabric::link::{LinkBody, LinkConnection, LinkDetail, state};
use weft_contract::{Api, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result};
use weft_model::Id;
use weft_model::entity::Router;
use weft_model::filter::{Column, Symbols, Type, Value};
use weft_paths::links::Link;

use super::{network, router_ref};
use crate::Controller;
use crate::domain::context::Context;
use crate::domain::live::{self, InMemoryKind};

/// The resource.
pub(crate) struct Links;

type LinkColumn = Column<Context, Link>;

static SYMBOLS: Symbols<Context, Link> = Symbols {
    kind: "links",
    id: |link| &link.id,
    shared: &[],
    columns: &[
        LinkColumn::one("id", Type::String, |_, it| Value::text(&it.id)).public(),
        LinkColumn::one("protocol", Type::String, |_, it| Value::text(&it.protocol)).public(),
        LinkColumn::one("sourceRouter", Type::String, |_, it| Value::text(it.source.as_str()))
            .public(),
        LinkColumn::one("sourceRouter.name", Type::String, |context, it| {
            router_name(context, &it.source)
        })
        .public(),
        LinkColumn::one("destRouter", Type::String, |_, it| Value::text(it.destination.as_str()))
            .public(),
        LinkColumn::one("destRouter.name", Type::String, |context, it| {
            router_name(context, &it.destination)
        })
        .public(),
        LinkColumn::one("state", Type::String, |_, _| Value::text(state::CONNECTED)).public(),
        LinkColumn::one("down", Type::Bool, |_, it| Value::Bool(it.down)).public(),
        LinkColumn::one("staticCost", Type::Int, |_, it| Value::Int(it.static_cost.into()))
            .public(),
        LinkColumn::one("cost", Type::Int, |_, it| whole(it.cost())).public(),
        LinkColumn::one("sourceLatency", Type::Int, |_, it| whole(it.source_latency)).public(),
        LinkColumn::one("destLatency", Type::Int, |_, it| whole(it.destination_latency)).public(),
        LinkColumn::one("iteration", Type::Int, |_, it| Value::Int(it.iteration.into())).public(),
    ],
};

fn whole<'a>(number: u64) -> Value<'a> {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn router_name<'a>(context: &'a Context, id: &Id) -> Value<'a> {
    let router = context.view().get::<Router>(id.as_str());
    router.map_or(Value::Null, |router| Value::text(&router.name))
}

impl InMemoryKind for Links {
    type Record = Link;
    type Detail = LinkDetail;

    const NAME: &'static str = "link";
    const SYMBOLS: &'static Symbols<Context, Link> = &SYMBOLS;

    fn count(context: &Context) -> usize {
        context.controller().network().map_or(0, |network| network.links().len())
    }

    fn all(context: &Context) -> Vec<Arc<Link>> {
        let links = context.controller().network().map(|network| network.links().all());
        links.unwrap_or_default()
    }

    fn find(context: &Context, id: &str) -> Option<Arc<Link>> {
        context.controller().network()?.links().get(id)
    }

    fn detail(context: &Context, record: &Link) -> Result<LinkDetail> {
        let connections = record.connections.conns.iter().map(|connection| LinkConnection {
            dest: connection.remote_addr.clone(),
            source: connection.local_addr.clone(),
            r#type: connection.r#type.clone(),
        });
        let rates = context.controller().network().map(|network| network.rates_of(record));
        let [source_rate, dest_rate] = rates.unwrap_or_default();
        Ok(LinkDetail {
            connections: connections.collect(),
            cost: record.cost(),
            dest_latency: record.destination_latency,
            dest_rate,
            dest_router: router_ref(context.view(), &record.destination),
            down: record.down,
            id: record.id.clone(),
            iteration: record.iteration,
            protocol: record.protocol.clone(),
            source_latency: record.source_latency,
            source_rate,
            source_router: router_ref(context.view(), &record.source),
            // The table holds working links only: a link that broke was removed from it.
            state: state::CONNECTED.to_owned(),
            static_cost: record.static_cost,
        })
    }
}

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Fabric, "listLinks", &live::list::<Links>),
    (Api::Fabric, "detailLink", &live::detail::<Links>),
    (Api::Fabric, "deleteLink", &delete),
    (Api::Fabric, "patchLink", &patch),
];

/// Removes a link, and tells both of its routers to close it.
async fn delete(controller: Controller, _caller: Caller, call: Call) -> Result<Reply> {
    match network(&controller)?.remove_link(call.id(0)) {
        true => Reply::empty(),
        false => Err(Failure::not_found(Links::NAME, call.id(0))),
    }
}

/// Changes the static cost of a link, or marks it down; circuits over it move if another path is
/// better.
async fn patch(controller: Controller, _caller: Caller, call: Call) -> Result<Reply> {
    let body: LinkBody = call.decode(Verb::Patch)?;
    let cost = body.static_cost.map(i32::try_from).transpose().map_err(|_| {
        let reason = format!("must be a whole number from {} to {}", i32::MIN, i32::MAX);
        Failure::field("staticCost", reason, "")
    })?;
    match network(&controller)?.change_link(call.id(0), cost, body.down) {
        true => Reply::empty(),
        false => Err(Failure::not_found(Links::NAME, call.id(0))),
    }
}
