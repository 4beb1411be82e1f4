//! Services, their configs and config types, and terminators.

use std::collections::BTreeMap;

use bytes::Bytes;
use weft_bolt::BoltContent;
use weft_model::entity::{
    Config, ConfigTarget, ConfigType, Precedence, Service, Terminator, TerminatorStrategy,
};
use weft_model::{Choice, Entity, Id, JsonMap};

use crate::fields::{Fields, Taken, Untaken};
use crate::layout::Layout;

/// Nanoseconds of a millisecond.
const NANOS: i64 = 1_000_000;

/// What an edge service has beside a service of the fabric.
struct Edge {
    role_attributes: Vec<std::sync::Arc<str>>,
    configs: Vec<Id>,
    encryption_required: bool,
}

fn edge(fields: &mut Fields<'_, '_>) -> Taken<Edge> {
    Ok(Edge {
        role_attributes: fields.attributes()?,
        configs: fields.ids("configs")?,
        encryption_required: fields.flag("encryptionRequired", true),
    })
}

/// Reads a service. Up to layout 44, what the edge knows of it has a bucket of its own.
pub(crate) fn service(fields: &mut Fields<'_, '_>, layout: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let within = fields.bucket("edge");
    let (edge, is_fabric_only) = match (&within, layout) {
        (_, Layout::V48) => (edge(fields)?, fields.flag("isFabricOnly", false)),
        (Some(bucket), _) => (fields.within(bucket, edge)?, false),
        (None, _) => {
            let (role_attributes, configs) = (Vec::new(), Vec::new());
            (Edge { role_attributes, configs, encryption_required: true }, true)
        }
    };
    let idle = fields.number("maxIdleTime").unwrap_or_default().max(0);
    let service = Service {
        base: fields.base()?,
        name,
        encryption_required: edge.encryption_required,
        terminator_strategy: fields.choice("terminatorStrategy", TerminatorStrategy::SmartRouting),
        max_idle_millis: idle / NANOS + i64::from(idle % NANOS != 0),
        role_attributes: edge.role_attributes,
        configs: edge.configs,
        is_fabric_only,
        authenticated_ends: false,
    };
    Ok(service.into())
}

/// Reads a config type.
pub(crate) fn config_type(fields: &mut Fields<'_, '_>, layout: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let schema = match fields.full_text("schema") {
        None => JsonMap::default(),
        Some(text) => JsonMap::from_text(&text).unwrap_or_else(|| {
            if text != "null" {
                fields.lose("schema", "it is no JSON object");
            }
            JsonMap::default()
        }),
    };
    let target = if layout >= Layout::V48 {
        fields.choice("target", ConfigTarget::Service)
    } else {
        ConfigTarget::Service
    };
    Ok(ConfigType { base: fields.base()?, name, schema, target }.into())
}

/// Reads a config.
pub(crate) fn config(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let config_type_id =
        fields.id("type").ok_or_else(|| Untaken::Entity("it has no config type".to_owned()))?;
    Ok(Config { base: fields.base()?, name, config_type_id, data: fields.object("data")? }.into())
}

/// Reads a terminator.
pub(crate) fn terminator(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let mut id = |field| {
        let id = fields.id(field);
        id.ok_or_else(|| Untaken::Entity(format!("it belongs to no {field}")))
    };
    let (service_id, router_id) = (id("service")?, id("router")?);
    let saved = fields.full_text("savedPrecedence");
    let terminator = Terminator {
        base: fields.base()?,
        service_id,
        router_id,
        binding: fields.needed("binding")?.into(),
        address: fields.text("address").unwrap_or_default().into(),
        instance_id: fields.text("instanceId").unwrap_or_default().into(),
        instance_secret: fields.raw("instanceSecret"),
        cost: fields.cost("cost"),
        precedence: fields.choice("precedence", Precedence::Default),
        saved_precedence: saved.as_deref().and_then(Precedence::parse),
        peer_data: peer_data(fields)?,
        host_id: fields.id("hostId").unwrap_or_default(),
        // It began in a session that weft does not know. A controller removes terminators of its own sessions when these
        // have ended; whether this one may stay, its router knows.
        source_ctrl: "".into(),
        host_proves: false,
    };
    Ok(terminator.into())
}

/// Data for dialers: the key is a number, the value is as it is.
fn peer_data(fields: &mut Fields<'_, '_>) -> Taken<BTreeMap<u32, Bytes>> {
    let mut data = BTreeMap::new();
    let Some(bucket) = fields.bucket("peerData") else { return Ok(data) };
    for entry in bucket.entries() {
        let entry = entry?;
        match (entry.key.first_chunk::<4>(), entry.key.len(), entry.content) {
            (Some(number), 4, BoltContent::Value(value)) => {
                data.insert(u32::from_le_bytes(*number), Bytes::copy_from_slice(&value));
            }
            _ => fields.lose("peerData", "an element has no number"),
        }
    }
    Ok(data)
}
