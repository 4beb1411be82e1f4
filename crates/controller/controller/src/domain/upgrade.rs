//! Changes of a network that an earlier release wrote. They are decided by the writer at the start.
//! Each step recognises old entities by their contents and changes them, so that a second run finds
//! none. Entities that a user has changed are not recognised, and stay.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use weft_kernel::Result;
use weft_kernel::decision::Decision;
use weft_model::entity::{ConfigType, MfaCheck, PostureCheck, PostureCheckType};
use weft_model::posture::plain_hex;
use weft_model::{Id, JsonMap};

use super::seeds::{self, ConfigTypeSeed};

/// Seeded schemas of an earlier release, from before lists were described by `allOf` (which
/// consoles need): the id of the config type, and the fingerprint of the schema.
const SCHEMAS_WITHOUT_ALL_OF: &[(&str, &str)] = &[
    ("NH5p4FpGR", "a13dcd4791699d5576c799790efc1116b49fe96b58a8cf3739fc8786bc2d59cb"),
    ("host.v2", "7acaa56febe081bd950c5a7bf3676ece5499eb05b636f652257db99021b4a7ef"),
    ("g7cIWbcGg", "22625a5c7a566129e7b6cf2ce66e99319f96da13a6a104109a65ab876981077a"),
    ("interfaces.v1", "4f7e0d8e488fca12e18e2abfc1b12d44decdf0a514c390c63c903efeaf043fff"),
    ("proxy.v1", "7a05f18c61fd117991090230cb7d9444f656e3c1402c4dbe12d7d5c500fa0d39"),
    (
        "f2dd2df0-9c04-4b84-a91e-71437ac229f1",
        "9c3d06339c90a688f7833a03cc373250c7c9f0fb67d87186d8da68928de41078",
    ),
    (
        "cea49285-6c07-42cf-9f52-09a9b115c783",
        "74c974b5b3f856bd1bc295db394bd80b86ddef6238c6ddd40b3e7bfd9b72b787",
    ),
];
/// Seeded schemas of an earlier release, whose descriptions promised other limits and values.
const SCHEMAS_WITH_OTHER_WORDS: &[(&str, &str)] = &[
    ("NH5p4FpGR", "f184cd6336896b14ebc323a7b63086792ee84da9ba43e2ef373700afda8351e8"),
    ("host.v2", "1f9d4a00caeab28bb96ecbdec73686e7d51ba8a9bc0eb2af100b42e667bb20d8"),
    ("g7cIWbcGg", "e41371d38a1c331ab1ede5d858c22f9d1b3d24fc826f5fddaf02c66189818ea1"),
];
/// Config types that were first seeded together with the schemas that use `allOf`.
const CAME_WITH_ALL_OF: &[&str] = &["l2.host.v1", "l2.intercept.v1"];

/// Decides the changes; none for a network that this release has already started.
pub(crate) fn decide(decision: &mut Decision<'_>) -> Result<()> {
    config_types(decision);
    posture_checks(decision);
    Ok(())
}

/// Replaces seeded schemas of an earlier release by the current ones. Adds the config types of
/// [`CAME_WITH_ALL_OF`], unless their id or name is taken.
fn config_types(decision: &mut Decision<'_>) {
    let now = decision.now();
    let tip = decision.tip();
    let made = |id: &str| seed(id).and_then(|seed| seed.make(now));
    let mut is_old = false;
    let without = SCHEMAS_WITHOUT_ALL_OF.iter().map(|schema| (schema, true));
    let reworded = SCHEMAS_WITH_OTHER_WORDS.iter().map(|schema| (schema, false));
    for ((id, fingerprint), is_without_all_of) in without.chain(reworded) {
        let Some(found) = tip.get::<ConfigType>(&Id::new(id)) else { continue };
        if fingerprint_of(&found.schema) != *fingerprint {
            continue;
        }
        let Some(seeded) = made(id) else { continue };
        is_old |= is_without_all_of;
        let mut changed = ConfigType::clone(found);
        changed.schema = seeded.schema;
        changed.base.updated_at = now;
        tracing::info!(name = %changed.name, "the schema of a built-in config type is brought up to date");
        decision.put(changed);
    }
    let added = CAME_WITH_ALL_OF.iter().filter(|_| is_old).filter_map(|id| made(id));
    for added in added {
        let is_taken = tip.get::<ConfigType>(&added.base.id).is_some()
            || tip.by_name::<ConfigType>(&added.name).is_some();
        if is_taken {
            tracing::warn!(name = %added.name, "a built-in config type is not added: another type has its name");
            continue;
        }
        tracing::info!(name = %added.name, "a built-in config type is added");
        decision.put(added);
    }
}

/// Rewrites posture checks to the current spelling of hardware addresses and other values, and to
/// the current word for codes without end. Their meaning stays, and their time of change too.
fn posture_checks(decision: &mut Decision<'_>) {
    let checks = decision.tip().list::<PostureCheck>();
    let changed = checks.filter_map(|found| {
        let respelled = respelled(found);
        (respelled != **found).then_some(respelled)
    });
    changed.for_each(|changed| decision.put(changed));
}

fn respelled(check: &PostureCheck) -> PostureCheck {
    let mut check = check.clone();
    match check.check_type {
        PostureCheckType::Mac => {
            check.mac_addresses.iter_mut().for_each(|address| *address = plain_hex(address));
        }
        PostureCheckType::Mfa if check.mfa.timeout_seconds <= 0 => {
            check.mfa.timeout_seconds = MfaCheck::NO_TIMEOUT;
        }
        PostureCheckType::Process => {
            for process in &mut check.processes.processes {
                let texts = process.hashes.iter_mut().chain(&mut process.signer_fingerprints);
                texts.for_each(|text| *text = text.to_lowercase());
            }
        }
        _ => {}
    }
    check
}

fn seed(id: &str) -> Option<&'static ConfigTypeSeed> {
    seeds::CONFIG_TYPES.iter().find(|seed| seed.id == id)
}

/// The fingerprint of a schema; the order of its members does not count.
fn fingerprint_of(schema: &JsonMap) -> String {
    hex::encode(Sha256::digest(sorted(&schema.to_value()).to_string()))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            let sorted = members.into_iter().map(|(name, value)| (name.clone(), sorted(value)));
            Value::Object(sorted.collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_model::entity::ProcessSpec;
    use weft_model::{Base, Change, Entity, Kind, Snapshot, Timestamp};

    use super::*;
    use crate::Caller;
    use crate::testing::Bed;

    const NOW: Timestamp = Timestamp(1_000);

    /// The first schema of `interfaces.v1` that was seeded.
    fn old_interfaces() -> Value {
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "https://netfoundry.io/schemas/interfaces.v1.config.json",
            "type": "object",
            "properties": {"interfaces": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": false,
            "required": ["interfaces"],
        })
    }

    fn interfaces(schema: &Value) -> ConfigType {
        let schema = JsonMap::from_text(&schema.to_string()).unwrap();
        ConfigType { schema, ..config_type("interfaces.v1") }
    }

    fn config_type(name: &str) -> ConfigType {
        seed(name).unwrap().make(Timestamp(1)).unwrap()
    }

    /// The changes that an upgrade makes in a network with these entities.
    fn upgraded(found: Vec<Entity>) -> Vec<Entity> {
        let caller = Caller::system();
        let mut network = Snapshot::empty(weft_model::Timeline::default());
        let mut set = Decision::new(&network, &caller, NOW).finish().unwrap();
        set.changes = found.into_iter().map(Change::Put).collect();
        network.advance(&set).unwrap();
        let mut decision = Decision::new(&network, &caller, NOW);
        decide(&mut decision).unwrap();
        let set = decision.finish().unwrap();
        let put = set.changes.iter().map(|change| match change {
            Change::Put(entity) => entity.clone(),
            other => panic!("{other:?}"),
        });
        let put = put.collect();
        if !set.is_empty() {
            network.advance(&set).unwrap();
        }
        let mut again = Decision::new(&network, &caller, NOW);
        decide(&mut again).unwrap();
        assert!(again.finish().unwrap().is_empty(), "once");
        put
    }

    fn ids(put: &[Entity]) -> Vec<&str> {
        put.iter().map(|entity| entity.id().as_str()).collect()
    }

    #[test]
    fn schemas_of_before_give_way_and_what_came_with_the_new_ones_is_added() {
        let put = upgraded(vec![interfaces(&old_interfaces()).into()]);
        assert_eq!(ids(&put), ["interfaces.v1", "l2.host.v1", "l2.intercept.v1"]);
        let changed = put[0].get::<ConfigType>().unwrap();
        assert_eq!(changed.schema, config_type("interfaces.v1").schema);
        assert_eq!((changed.base.created_at, changed.base.updated_at), (Timestamp(1), NOW));
        // The order of members makes no difference.
        let mut turned = serde_json::Map::new();
        for (name, value) in old_interfaces().as_object().unwrap().iter().rev() {
            turned.insert(name.clone(), value.clone());
        }
        assert_eq!(upgraded(vec![interfaces(&turned.into()).into()]).len(), 3);
    }

    #[test]
    fn what_users_made_of_them_stays() {
        let mut changed = old_interfaces();
        changed["properties"]["more"] = json!({});
        assert_eq!(upgraded(vec![interfaces(&changed).into()]), []);
        assert_eq!(upgraded(vec![config_type("interfaces.v1").into()]), []);
        assert_eq!(upgraded(Vec::new()), []);
        let mut own = config_type("l2.host.v1");
        own.base = Base::new(Id::new("own"), Timestamp(1));
        let put = upgraded(vec![interfaces(&old_interfaces()).into(), own.into()]);
        assert_eq!(ids(&put), ["interfaces.v1", "l2.intercept.v1"]);
    }

    #[test]
    fn every_schema_that_is_replaced_is_another_now() {
        for (id, fingerprint) in SCHEMAS_WITHOUT_ALL_OF.iter().chain(SCHEMAS_WITH_OTHER_WORDS) {
            let made = seed(id).unwrap().make(NOW).unwrap();
            assert_ne!(fingerprint_of(&made.schema), *fingerprint, "{id}");
        }
        assert!(CAME_WITH_ALL_OF.iter().all(|id| seed(id).is_some()));
    }

    #[test]
    fn posture_checks_are_respelled_and_count_as_unchanged() {
        let check = |id: &str, check_type| PostureCheck {
            base: Base::new(Id::new(id), Timestamp(1)),
            name: id.into(),
            check_type,
            version: 5,
            ..PostureCheck::default()
        };
        let mut mac = check("mac", PostureCheckType::Mac);
        mac.mac_addresses = vec!["00-1A-2b".into()];
        let mut process = check("process", PostureCheckType::Process);
        process.processes.processes = vec![ProcessSpec {
            hashes: vec!["AB".into()],
            signer_fingerprints: vec!["CD".into()],
            ..ProcessSpec::default()
        }];
        let mfa = check("mfa", PostureCheckType::Mfa);
        let domain = check("domain", PostureCheckType::Domain);
        let put = upgraded(vec![mac.into(), process.into(), mfa.into(), domain.into()]);
        assert_eq!(ids(&put), ["mac", "mfa", "process"]);
        let checks: Vec<_> = put.iter().map(|it| it.get::<PostureCheck>().unwrap()).collect();
        assert_eq!(checks[0].mac_addresses, ["001a2b"]);
        assert_eq!(checks[1].mfa.timeout_seconds, -1);
        let process = &checks[2].processes.processes[0];
        assert_eq!((&*process.hashes[0], &*process.signer_fingerprints[0]), ("ab", "cd"));
        for check in checks {
            assert_eq!((check.version, check.base.updated_at), (5, Timestamp(1)));
        }
    }

    #[tokio::test]
    async fn a_network_of_before_is_brought_up_to_date_when_it_is_started() {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let names = async |bed: &Bed| {
            let types = bed.list(&bed.admin().await, "listConfigTypes", "sort by name").await;
            types.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let today = names(&bed).await;
        for id in CAME_WITH_ALL_OF {
            bed.manage(&admin, "deleteConfigType", &[id], Value::Null).await.unwrap();
        }
        let as_before = async || {
            bed.controller
                .kernel()
                .decide(&Caller::system(), |decision| {
                    let mut old = interfaces(&old_interfaces());
                    let now = decision.tip().get::<ConfigType>(&old.base.id).unwrap();
                    old.base.created_at = now.base.created_at;
                    decision.put(old);
                    Ok(())
                })
                .await
                .unwrap()
        };
        as_before().await;
        let again = bed.restarted().await;
        assert_eq!(names(&again).await, today);
        // A type that a user deletes after the upgrade stays deleted.
        let admin = again.admin().await;
        again.manage(&admin, "deleteConfigType", &["l2.host.v1"], Value::Null).await.unwrap();
        let revision = again.controller.kernel().snapshot().revision();
        let last = again.restarted().await;
        assert_eq!(names(&last).await.len(), today.len() - 1);
        assert_eq!(last.controller.kernel().snapshot().revision(), revision);
        assert_eq!(
            last.controller.kernel().snapshot().table(Kind::ConfigType).len(),
            today.len() - 1
        );
    }
}
