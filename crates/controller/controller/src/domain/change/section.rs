//! The trait by which a kind of entity takes part in documents, and the table of the kinds that do.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use weft_contract::{ErrorCode, Kind as ContractKind, Verb, body};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result, gate};
use weft_model::entity::{
    AuthPolicy, ConfigType, ExtJwtSigner, Identity, IdentityType, OfKind as _,
};
use weft_model::{Base, Choice as _, Entity, Id, Kind, Timestamp};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::resource::Resource;
use crate::domain::resources::auth_policy::AuthPolicies;
use crate::domain::resources::ca::Cas;
use crate::domain::resources::config::Configs;
use crate::domain::resources::config_type::ConfigTypes;
use crate::domain::resources::edge_router::EdgeRouters;
use crate::domain::resources::external_jwt_signer::Signers;
use crate::domain::resources::identity::Identities;
use crate::domain::resources::policies;
use crate::domain::resources::posture_check::PostureChecks;
use crate::domain::resources::service::Services;
use crate::domain::seeds;

/// A kind of entity in documents.
pub(super) trait Section: Send + Sync {
    /// The kind in the contract; its collection is the name of the section.
    fn kind(&self) -> &'static ContractKind;

    /// The kind in the model.
    fn model(&self) -> Kind;

    /// Whether an entity of the model's kind belongs to the section.
    fn holds(&self, entity: &Entity) -> bool;

    /// The entity as the API shows it.
    fn detail(&self, context: &Context, entity: &Entity) -> Value;

    /// An entity with all members at their defaults, as the API would show it.
    fn blank(&self, context: &Context) -> Value;

    /// Does the slow and random work of an entry before it is decided.
    fn prepare<'a>(
        &'a self,
        controller: &'a Controller,
        caller: &'a Caller,
        members: &'a Map<String, Value>,
        verb: Verb,
        id: &'a Id,
    ) -> BoxFuture<'a, Result<Arc<dyn Step>>>;

    /// Deletes an entity by the rules of its resource.
    fn delete(&self, decision: &mut Decision<'_>, id: &Id) -> Result<()>;
}

/// A prepared entry, which can be decided on any snapshot.
pub(super) trait Step: Send + Sync {
    /// Puts the change of the entry into the decision; false if the entity is as the entry wants
    /// it.
    fn decide(&self, decision: &mut Decision<'_>) -> Result<bool>;
}

/// All sections, in an order in which kinds come before those that refer to them.
pub(super) static SECTIONS: &[&dyn Section] = &[
    &In::<ConfigTypes>::NEW,
    &In::<Configs>::NEW,
    &In::<Cas>::NEW,
    &In::<Signers>::NEW,
    &In::<AuthPolicies>::NEW,
    &In::<PostureChecks>::NEW,
    &In::<Services>::NEW,
    &In::<EdgeRouters>::NEW,
    &In::<Identities>::NEW,
    &In::<policies::ServicePolicies>::NEW,
    &In::<policies::EdgeRouterPolicies>::NEW,
    &In::<policies::ServiceEdgeRouterPolicies>::NEW,
];

/// The place of a section in the table.
pub(super) fn place(name: &str) -> Option<usize> {
    SECTIONS.iter().position(|section| section.kind().plural == name)
}

/// The section that an entity belongs to.
pub(super) fn of(entity: &Entity) -> Option<usize> {
    SECTIONS.iter().position(|section| section.model() == entity.kind() && section.holds(entity))
}

/// Whether an entity is made by the controller: documents change it, but neither make nor delete
/// it.
pub(super) fn is_own(entity: &Entity) -> bool {
    entity.base().is_system
        || match entity {
            Entity::Identity(it) => it.is_default_admin || it.identity_type == IdentityType::Router,
            Entity::ConfigType(it) => seed(it).is_some(),
            _ => false,
        }
}

/// The entity without a unique value, so that another entity can take the value; none if the value does not
/// change.
pub(super) fn vacated(entity: &Entity, field: &str) -> Option<Entity> {
    match (entity, field) {
        (Entity::Identity(it), "externalId") => {
            Some(Identity { external_id: None, ..(**it).clone() }.into())
        }
        (Entity::ExtJwtSigner(it), "issuer") => {
            Some(ExtJwtSigner { issuer: None, ..(**it).clone() }.into())
        }
        (Entity::ExtJwtSigner(it), "kid") => {
            Some(ExtJwtSigner { kid: None, ..(**it).clone() }.into())
        }
        (Entity::ExtJwtSigner(it), "fingerprint") => {
            Some(ExtJwtSigner { fingerprint: None, ..(**it).clone() }.into())
        }
        _ => None,
    }
}

/// Whether an entity is one that every network has, unchanged, so that documents leave it out.
pub(super) fn is_usual(entity: &Entity) -> bool {
    match entity {
        Entity::Identity(it) => it.is_default_admin,
        Entity::ConfigType(it) => seed(it).is_some_and(|seed| {
            let schema: Option<Value> = serde_json::from_str(seed.schema).ok();
            it.name.as_ref() == seed.name && Some(it.schema.to_value()) == schema
        }),
        Entity::AuthPolicy(it) if it.base.is_system => {
            let usual = AuthPolicy::default_policy(Timestamp::default());
            AuthPolicy { base: it.base.clone(), ..usual } == **it && it.base.tags.is_empty()
        }
        entity => entity.base().is_system,
    }
}

/// Whether every network has the entity under its name, so that the name tells nothing.
pub(super) fn is_everywhere(entity: &Entity) -> bool {
    match entity {
        Entity::ConfigType(it) => seed(it).is_some_and(|seed| it.name.as_ref() == seed.name),
        Entity::AuthPolicy(it) => it.base.is_system,
        _ => false,
    }
}

fn seed(config_type: &ConfigType) -> Option<&'static seeds::ConfigTypeSeed> {
    seeds::CONFIG_TYPES.iter().find(|seed| seed.id == config_type.base.id.as_str())
}

/// A [`Section`] made of a [`Resource`].
struct In<R>(PhantomData<fn() -> R>);

impl<R> In<R> {
    const NEW: Self = Self(PhantomData);
}

impl<R: Resource> In<R> {
    fn record(entity: &Entity) -> Option<&Arc<R::Record>> {
        entity.get::<R::Record>().filter(|record| R::belongs(record))
    }
}

impl<R: Resource> Section for In<R> {
    fn kind(&self) -> &'static ContractKind {
        R::KIND
    }

    fn model(&self) -> Kind {
        R::Record::KIND
    }

    fn holds(&self, entity: &Entity) -> bool {
        Self::record(entity).is_some()
    }

    fn detail(&self, context: &Context, entity: &Entity) -> Value {
        let detail = Self::record(entity).map(|record| R::detail(context, record));
        serde_json::to_value(detail).unwrap_or_default()
    }

    fn blank(&self, context: &Context) -> Value {
        serde_json::to_value(R::detail(context, &R::Record::default())).unwrap_or_default()
    }

    fn prepare<'a>(
        &'a self,
        controller: &'a Controller,
        caller: &'a Caller,
        members: &'a Map<String, Value>,
        verb: Verb,
        id: &'a Id,
    ) -> BoxFuture<'a, Result<Arc<dyn Step>>> {
        async move {
            let text = serde_json::to_vec(members)
                .map_err(|error| Failure::unhandled(error.to_string()))?;
            let body: R::Body = body::decode(&text, verb)?;
            let prepared = R::prepare(controller, caller, &body, verb, id).await?;
            let is_blind = !gate::reads(caller, R::KIND.plural);
            let step: Arc<dyn Step> =
                Arc::new(Put::<R> { body, prepared, verb, id: id.clone(), is_blind });
            Ok(step)
        }
        .boxed()
    }

    fn delete(&self, decision: &mut Decision<'_>, id: &Id) -> Result<()> {
        let record = decision.tip().get::<R::Record>(id).cloned();
        let Some(record) = record.filter(|record| R::belongs(record)) else { return Ok(()) };
        R::guard(decision, &record)?;
        R::on_delete(decision, &record)?;
        decision.delete(R::Record::KIND, id)
    }
}

/// Makes or replaces one entity.
struct Put<R: Resource> {
    body: R::Body,
    prepared: R::Prepared,
    verb: Verb,
    id: Id,
    /// Whether the caller may not read the entity. Such an entry changes the entity in every case, at least the
    /// time of its last change, because an entry that changed nothing would confirm the values in it.
    is_blind: bool,
}

impl<R: Resource> Put<R> {
    fn create(&self, decision: &mut Decision<'_>) -> Result<bool> {
        let mut record = R::Record::default();
        *record.base_mut() = Base::new(self.id.clone(), decision.now());
        R::merge(&mut record, &self.body, &self.prepared, Verb::Create)?;
        R::validate(decision, None, &mut record, &self.prepared)?;
        decision.put_checked(record)?;
        Ok(true)
    }

    fn replace(&self, decision: &mut Decision<'_>) -> Result<bool> {
        let current = Arc::clone(decision.require::<R::Record>("name", &self.id)?);
        let mut fresh = R::Record::default();
        *fresh.base_mut() = Base {
            created_at: current.base().created_at,
            updated_at: current.base().updated_at,
            is_system: current.base().is_system,
            ..Base::new(self.id.clone(), decision.now())
        };
        R::keep(&current, &mut fresh);
        R::merge(&mut fresh, &self.body, &self.prepared, Verb::Replace)?;
        if fresh == *current && !self.is_blind {
            return Ok(false);
        }
        if current.base().is_system && R::SYSTEM_IS_FIXED {
            return Err(ErrorCode::EntityCanNotBeUpdated.into());
        }
        R::guard(decision, &current)?;
        R::validate(decision, Some(&current), &mut fresh, &self.prepared)?;
        let now = decision.now();
        fresh.base_mut().updated_at =
            if self.is_blind { now.after(current.base().updated_at) } else { now };
        decision.put_checked(fresh)?;
        Ok(true)
    }
}

impl<R: Resource> Step for Put<R> {
    fn decide(&self, decision: &mut Decision<'_>) -> Result<bool> {
        match self.verb {
            Verb::Create => self.create(decision),
            _ => self.replace(decision),
        }
    }
}

/// Fills in members of an entry that cannot differ from the existing entity. Fails with the name of
/// a member, and the reason, if the entry says otherwise. To a caller that may not read the entity (`is_blind`) this
/// would tell whether a value was guessed; such a member is left to the replace of the resource.
pub(super) fn adapt(
    entity: &Entity,
    members: &mut Map<String, Value>,
    is_blind: bool,
) -> Result<(), (&'static str, &'static str)> {
    if let Some((member, reason)) = fixed(entity, members).filter(|_| !is_blind) {
        return Err((member, reason));
    }
    let Entity::Identity(identity) = entity else { return Ok(()) };
    if identity.identity_type == IdentityType::Router {
        members.insert("type".to_owned(), "Router".into());
    }
    let is_admin = members.get("isAdmin") == Some(&Value::Bool(true));
    if identity.is_default_admin && !is_admin {
        return Err(("isAdmin", "the default administrator stays one: say `isAdmin: true`"));
    }
    Ok(())
}

/// The first member of an entry that only a create sets and that differs from the entity. The
/// replace of most resources would ignore it in silence.
fn fixed(entity: &Entity, members: &Map<String, Value>) -> Option<(&'static str, &'static str)> {
    const REASON: &str = "cannot be changed: delete the entity and make it anew";
    let (member, is) = match entity {
        Entity::Config(it) => ("configTypeId", it.config_type_id.as_str()),
        Entity::ConfigType(it) => ("target", it.target.as_str()),
        Entity::PostureCheck(it) => ("typeId", it.check_type.as_str()),
        Entity::Ca(it) => ("certPem", it.cert_pem.as_str()),
        _ => return None,
    };
    let said = members.get(member).and_then(Value::as_str)?;
    (said.trim() != is.trim()).then_some((member, REASON))
}

/// The reason why documents cannot make this entity; none if they can.
pub(super) fn not_made(section: usize, members: &Map<String, Value>) -> Option<&'static str> {
    let is_router = members.get("type").and_then(Value::as_str) == Some("Router");
    let is_identity = SECTIONS.get(section).is_some_and(|it| it.model() == Kind::Identity);
    (is_identity && is_router)
        .then_some("the identity of a router is made with the router: enable its tunneler")
}
