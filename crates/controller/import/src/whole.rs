//! What only all entities together tell: repeated names, missing references, and rights.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weft_bolt::{BoltBucket, BoltContent};
use weft_identity::Certificate;
use weft_model::entity::{Authenticator, Identity, PolicyType, RevocationType, Router, Service};
use weft_model::{Entity, Id, Kind, Record, Snapshot};

use crate::ImportError;
use crate::losses::{Loss, Losses};
use crate::section::Section;

/// Adds what the database does not tell of an entity but others do: the CA of a certificate, and what a revocation
/// without a type names.
pub(crate) fn complete(entities: &mut [Numbered]) {
    let mut authorities = Vec::new();
    let mut identities = HashSet::new();
    for (_, entity) in &*entities {
        match entity {
            Entity::Ca(ca) => {
                let certificates = Certificate::from_pem(ca.cert_pem.as_bytes());
                authorities.push((ca.base.id.clone(), certificates.unwrap_or_default()));
            }
            Entity::Identity(identity) => {
                identities.insert(identity.base.id.clone());
            }
            _ => {}
        }
    }
    for (_, entity) in entities {
        match entity {
            Entity::Authenticator(authenticator) => {
                if let Some(ca) = issuer(authenticator, &authorities) {
                    let cert = Arc::make_mut(authenticator).cert.as_mut();
                    if let Some(cert) = cert {
                        cert.ca_id = Some(ca);
                    }
                }
            }
            Entity::Revocation(revocation) => {
                let is_of_identity = revocation.revocation_type == RevocationType::Jti
                    && identities.contains(&revocation.base.id);
                if is_of_identity {
                    Arc::make_mut(revocation).revocation_type = RevocationType::Identity;
                }
            }
            _ => {}
        }
    }
}

/// The CA that issued the certificate of an authenticator.
fn issuer(authenticator: &Authenticator, authorities: &[(Id, Vec<Certificate>)]) -> Option<Id> {
    let cert = authenticator.cert.as_ref().filter(|cert| !cert.is_issued_by_network)?;
    if authorities.is_empty() {
        return None;
    }
    let certificate = Certificate::from_pem(cert.cert_pem.as_bytes()).ok()?.into_iter().next()?;
    let is_issuer = |all: &[Certificate]| all.iter().any(|it| certificate.is_issued_by(it));
    authorities.iter().find(|(_, all)| is_issuer(all)).map(|(id, _)| id.clone())
}

/// An entity with the number of its section.
pub(crate) type Numbered = (usize, Entity);

/// Removes each entity with an id, a name or another unique value that an earlier one of its kind has.
pub(crate) fn remove_repeated(
    entities: &mut Vec<Numbered>,
    sections: &mut [Section],
    losses: &mut Losses,
) {
    // By kind, number of the value (0: the name) and value: the id of the entity that has it.
    let mut seen: HashMap<(Kind, usize, Arc<str>), Id> = HashMap::new();
    entities.retain(|(section, entity)| {
        let kind = entity.kind();
        let mut values: Vec<(usize, Arc<str>)> = Vec::new();
        values.extend(entity.name().map(|name| (0, name.clone())));
        entity.unique(&mut |index, value| values.push((index + 1, value.clone())));
        let taken = values.iter().find_map(|(index, value)| {
            let other = seen.get(&(kind, *index, value.clone()))?;
            Some((*index, other.clone()))
        });
        let Some((index, other)) = taken else {
            let id = entity.id();
            seen.extend(
                values.into_iter().map(|(index, value)| ((kind, index, value), id.clone())),
            );
            return true;
        };
        let field = match index.checked_sub(1) {
            Some(index) => kind.unique().get(index).copied().unwrap_or_default(),
            None => "name",
        };
        losses.add(loss(entity, "", format!("{} {other} has the same {field}", kind.name())));
        if let Some(section) = sections.get_mut(*section) {
            section.taken = section.taken.saturating_sub(1);
        }
        false
    });
}

pub(crate) fn loss(entity: &Entity, field: &'static str, reason: String) -> Loss {
    let name = entity.name().map(ToString::to_string).unwrap_or_default();
    Loss { kind: entity.kind().name(), id: entity.id().to_string(), name, field, reason }
}

/// Adds the references to entities that do not exist.
pub(crate) fn missing_references(snapshot: &Snapshot, losses: &mut Losses) {
    for missing in snapshot.dangling() {
        let Some(entity) = snapshot.entity(missing.kind, &missing.id) else { continue };
        let Some(link) = missing.kind.links().get(missing.link) else { continue };
        let reason = format!("there is no {} {}", link.to.name(), missing.target);
        losses.add(loss(entity, link.field, reason));
    }
}

/// Compares the services and routers that the database lists for each identity with those that weft finds by role
/// lists. They are the same unless the database or weft is wrong.
pub(crate) fn compare_rights(
    root: &BoltBucket<'_>,
    snapshot: &Snapshot,
    losses: &mut Losses,
) -> Result<(), ImportError> {
    let Some(identities) = root.bucket(b"identities")? else { return Ok(()) };
    for entry in identities.entries() {
        let entry = entry?;
        let BoltContent::Bucket(bucket) = entry.content else { continue };
        let id = std::str::from_utf8(&entry.key).ok().and_then(|text| Id::parse(text).ok());
        let Some(identity) = id.and_then(|id| snapshot.get::<Identity>(&id)) else { continue };
        let id = &identity.base.id;
        let entity = Entity::Identity(identity.clone());
        let services = |policy_type| -> HashSet<u32> {
            snapshot.services_of(id, policy_type).iter().collect()
        };
        let routers = snapshot.routers_of_identity(id).iter().collect();
        for (field, found) in [
            ("dialServices", services(PolicyType::Dial)),
            ("bindServices", services(PolicyType::Bind)),
        ] {
            compare::<Service>(&bucket, field, found, &entity, snapshot, losses)?;
        }
        compare::<Router>(&bucket, "routers", routers, &entity, snapshot, losses)?;
    }
    Ok(())
}

/// Compares one list of an identity with what weft finds.
fn compare<T: Record>(
    bucket: &BoltBucket<'_>,
    field: &'static str,
    mut found: HashSet<u32>,
    entity: &Entity,
    snapshot: &Snapshot,
    losses: &mut Losses,
) -> Result<(), ImportError> {
    let listed = bucket.bucket(field.as_bytes())?;
    let mut only_listed = None;
    for entry in listed.iter().flat_map(BoltBucket::entries) {
        let key = entry?.key;
        let text = String::from_utf8_lossy(key.get(1..).unwrap_or_default());
        let ordinal = Id::parse(&text).ok().and_then(|id| snapshot.ordinal_of::<T>(&id));
        // One that was not taken is a loss already.
        let is_found = ordinal.is_none_or(|ordinal| found.remove(&ordinal));
        if !is_found {
            only_listed.get_or_insert_with(|| text.into_owned());
        }
    }
    if let Some(id) = only_listed {
        let reason = format!("the database lists {id}, which no policy of the identity selects");
        losses.add(loss(entity, field, reason));
    }
    if let Some(more) = found.into_iter().min().and_then(|ordinal| snapshot.at::<T>(ordinal)) {
        let id = &more.base().id;
        let reason =
            format!("policies of the identity select {id}, which the database does not list");
        losses.add(loss(entity, field, reason));
    }
    Ok(())
}
