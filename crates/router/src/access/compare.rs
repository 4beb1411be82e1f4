//! The comparison of a controller's data model with this router's
//! (docs/protocol/edge-control-plane.md 9).

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

use weft_wire::edge_ctrl::data_model::{Diff, ValidateResponse};

use super::model::{Entities, Model};

/// Compares the model that a router should have (`wanted`) with the model that it has (`found`).
pub(crate) fn compare(wanted: &Model, found: &Model) -> ValidateResponse {
    let mut diffs = Vec::new();
    maps(&mut diffs, "configType", &wanted.config_types, &found.config_types);
    maps(&mut diffs, "config", &wanted.configs, &found.configs);
    maps(&mut diffs, "identity", &wanted.identities, &found.identities);
    maps(&mut diffs, "service", &wanted.services, &found.services);
    maps(&mut diffs, "router", &wanted.routers, &found.routers);
    maps(&mut diffs, "posture-check", &wanted.checks, &found.checks);
    maps(&mut diffs, "revocations", wanted.revocations.by_id(), found.revocations.by_id());
    let (policies, others) = (wanted.policies.by_id(), found.policies.by_id());
    entries(&mut diffs, "service-policy", policies, others, |a, b| a == b);
    // The usages of a key are a set.
    entries(&mut diffs, "public-keys", &wanted.keys, &found.keys, |a, b| {
        let usages = |key: &weft_wire::edge_ctrl::data_model::PublicKey| -> HashSet<i32> {
            key.usages.iter().copied().collect()
        };
        a.data == b.data && a.format == b.format && usages(a) == usages(b)
    });
    ValidateResponse {
        orig_entity_counts: counts(wanted),
        copy_entity_counts: counts(found),
        diffs,
    }
}

fn maps<T: PartialEq>(
    diffs: &mut Vec<Diff>,
    kind: &str,
    wanted: &Entities<T>,
    found: &Entities<T>,
) {
    entries(diffs, kind, wanted, found, |a, b| a == b);
}

fn entries<K: AsRef<str> + Hash + Eq, T>(
    diffs: &mut Vec<Diff>,
    kind: &str,
    wanted: &imbl::HashMap<K, T>,
    found: &imbl::HashMap<K, T>,
    same: impl Fn(&T, &T) -> bool,
) {
    let mut add = |id: &K, what: &str, detail: &str| {
        diffs.push(Diff {
            entity_type: kind.to_owned(),
            entity_id: id.as_ref().to_owned(),
            diff_type: what.to_owned(),
            detail: detail.to_owned(),
        });
    };
    for (id, value) in wanted {
        match found.get(id) {
            None => add(id, "removed", "missing in the router"),
            Some(other) if !same(value, other) => add(id, "modified", "other in the router"),
            Some(_) => {}
        }
    }
    for id in found.keys().filter(|id| !wanted.contains_key(*id)) {
        add(id, "added", "not expected in the router");
    }
}

fn counts(model: &Model) -> BTreeMap<String, u32> {
    let count =
        |name: &str, length: usize| (name.to_owned(), u32::try_from(length).unwrap_or(u32::MAX));
    [
        count("configType", model.config_types.len()),
        count("configs", model.configs.len()),
        count("identities", model.identities.len()),
        count("Services", model.services.len()),
        count("routers", model.routers.len()),
        count("service-policies", model.policies.by_id().len()),
        count("posture-checks", model.checks.len()),
        count("public-keys", model.keys.len()),
        count("revocations", model.revocations.by_id().len()),
        count("cached-public-keys", model.keys.len()),
    ]
    .into()
}
