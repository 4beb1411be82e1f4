//! Questions about identities: the services of each, and for a sample of pairs the advice and the terminators.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_contract::{Api, Operation, resource};

use super::difference::{Difference, Found};
use super::lists::{self, Read};
use super::side::Sides;
use super::state::State;
use super::{entity, known};
use crate::failure::{Failure, Result};
use crate::output::progress::bar;

fn operation(id: &str) -> Result<&'static Operation> {
    resource::operation(Api::Management, id)
        .ok_or_else(|| Failure::new(format!("this release of weft does not know {id}")))
}

/// Compares the services of every identity, behind the one at which the last run ended.
pub(super) async fn services(sides: &mut Sides, read: &Read, state: &mut State) -> Result<()> {
    let operations =
        [operation("listIdentityServices")?, operation("listIdentitysServiceConfigs")?];
    let done = read.identities.partition_point(|(id, _)| id.as_str() <= state.last_identity());
    let progress = bar(read.identities.len() as u64, "comparing services of identities");
    progress.set_position(done as u64);
    for identity in read.identities.iter().skip(done) {
        let found = of_identity(sides, operations, identity).await;
        let kept = found.and_then(|found| state.identity_done(&identity.0, found));
        if let Err(failure) = kept {
            progress.finish_and_clear();
            return Err(failure.during(format!("services of the identity {}", identity.1)));
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(())
}

/// The services of an identity, and the configs that it has in place of those of services.
async fn of_identity(
    sides: &mut Sides,
    [services, configs]: [&'static Operation; 2],
    identity: &(String, String),
) -> Result<Found> {
    let (one, other) = sides.below(Api::Management, services, &identity.0).await?;
    let mut found = sets("identity", identity, "services", &one, &other);
    let ids = [identity.0.as_str()];
    let (one, other) = sides.ask(Api::Management, configs, &ids).await?;
    let (one, other) = (overrides(one), overrides(other));
    found.extend(sets("identity", identity, "service-configs", &one, &other));
    Ok(found)
}

/// Configs of an identity in place of those of services, as entities with an id.
fn overrides(list: Option<Value>) -> Vec<Value> {
    let Some(Value::Array(items)) = list else { return Vec::new() };
    let text = |item: &Value, member: &str| -> String {
        item.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let one = |item: &Value| {
        let (service, config) = (text(item, "serviceId"), text(item, "configId"));
        json!({"id": format!("{service} {config}"), "name": format!("{config} for {service}")})
    };
    items.iter().map(one).collect()
}

/// Compares advice and terminators for a sample of pairs of identity and service.
pub(super) async fn pairs(sides: &mut Sides, read: &Read, state: &mut State) -> Result<()> {
    let wanted = sample(read.identities.len() as u64, read.services.len() as u64, state.pairs());
    let progress = bar(wanted.count, "comparing advice");
    progress.set_position(state.pairs_done());
    for number in state.pairs_done()..wanted.count {
        let (identity, service) = wanted.pair(number);
        let of = |list: &'_ [(String, String)], index: u64| {
            list.get(usize::try_from(index).ok()?).cloned()
        };
        let (Some(identity), Some(service)) =
            (of(&read.identities, identity), of(&read.services, service))
        else {
            break;
        };
        let found = pair(sides, &identity, &service).await;
        let kept = found.and_then(|found| state.pair_done(found));
        if let Err(failure) = kept {
            progress.finish_and_clear();
            return Err(failure.during(format!("advice for {} and {}", identity.1, service.1)));
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(())
}

async fn pair(
    sides: &mut Sides,
    identity: &(String, String),
    service: &(String, String),
) -> Result<Found> {
    let ids = [identity.0.as_str(), service.0.as_str()];
    let (one, other) =
        sides.ask(Api::Management, operation("getIdentityPolicyAdvice")?, &ids).await?;
    let plain = |value: Option<Value>| value.map_or(Value::Null, |value| entity::answer(&value));
    let mut members = Vec::new();
    entity::members(&plain(one), &plain(other), "", &mut members);
    let mut found = Found::default();
    for (member, original, weft) in members {
        found.add(Difference {
            kind: "identity".to_owned(),
            id: identity.0.clone(),
            name: identity.1.clone(),
            member: format!("advice for service {}: {member}", service.1),
            original: known::shown(&member, original),
            weft: known::shown(&member, weft),
            known: None,
        });
    }
    let terminators = operation("listServiceTerminators")?;
    let (one, other) = sides.below(Api::Management, terminators, &service.0).await?;
    found.extend(sets("service", service, "terminators", &one, &other));
    Ok(found)
}

/// Two lists of entities below another one, compared by id.
fn sets(kind: &str, of: &(String, String), member: &str, one: &[Value], other: &[Value]) -> Found {
    let named = |list: &[Value]| -> BTreeMap<String, String> {
        let entry = |entity: &Value| {
            let (id, name) = (lists::id(entity), lists::name(entity));
            (id.to_owned(), if name.is_empty() { id } else { name }.to_owned())
        };
        list.iter().map(entry).collect()
    };
    let (one, other) = (named(one), named(other));
    let only = |own: &BTreeMap<String, String>, others: &BTreeMap<String, String>| -> Vec<String> {
        own.iter()
            .filter(|(id, _)| !others.contains_key(*id))
            .map(|(_, name)| name.clone())
            .collect()
    };
    let (original, weft) = (only(&one, &other), only(&other, &one));
    let mut found = Found::default();
    if !original.is_empty() || !weft.is_empty() {
        let shown = |names: Vec<String>| match names.is_empty() {
            true => Value::Null,
            false => known::shown(member, json!(names.join(", "))),
        };
        found.add(Difference {
            kind: kind.to_owned(),
            id: of.0.clone(),
            name: of.1.clone(),
            member: member.to_owned(),
            original: shown(original),
            weft: shown(weft),
            known: None,
        });
    }
    found
}

/// Pairs that are spread over all pairs; the same ones in every run.
struct Sample {
    services: u64,
    all: u64,
    step: u64,
    count: u64,
}

fn sample(identities: u64, services: u64, wanted: u64) -> Sample {
    let all = identities.saturating_mul(services);
    let count = wanted.min(all);
    // Steps of the golden ratio spread evenly; a step without a common divisor meets every pair once.
    let golden = (u128::from(all) * 618_034 / 1_000_000) as u64;
    let divides = |step: u64| {
        let (mut one, mut other) = (step, all);
        while other > 0 {
            (one, other) = (other, one % other);
        }
        one > 1
    };
    let mut step = golden.max(1);
    while all > 1 && divides(step) {
        step += 1;
    }
    Sample { services, all, step, count }
}

impl Sample {
    /// The places of identity and service of the pair with this number.
    fn pair(&self, number: u64) -> (u64, u64) {
        let all = u128::from(self.all.max(1));
        let at = (u128::from(number) * u128::from(self.step) % all) as u64;
        let services = self.services.max(1);
        (at / services, at % services)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_sample_meets_every_pair_once_and_all_services_early() {
        for (identities, services) in [(1, 1), (7, 5), (100, 20), (20, 100), (3, 1)] {
            let all = sample(identities, services, u64::MAX);
            assert_eq!(all.count, identities * services);
            let met: BTreeSet<_> = (0..all.count).map(|number| all.pair(number)).collect();
            assert_eq!(met.len() as u64, all.count, "{identities} {services}");
            assert!(met.iter().all(|(i, s)| *i < identities && *s < services));
        }
        let some = sample(1000, 50, 500);
        let pairs: Vec<_> = (0..some.count).map(|number| some.pair(number)).collect();
        let of =
            |index: fn(&(u64, u64)) -> u64| pairs.iter().map(index).collect::<BTreeSet<_>>().len();
        assert!(
            of(|pair| pair.1) == 50 && of(|pair| pair.0) > 350,
            "{} {}",
            of(|pair| pair.1),
            of(|pair| pair.0)
        );
        assert_eq!(sample(0, 5, 10).count, 0);
    }

    #[test]
    fn sets_are_compared_by_id() {
        let of = ("i".to_owned(), "ann".to_owned());
        let list = |ids: &[&str]| -> Vec<Value> {
            ids.iter().map(|id| json!({"id": id, "name": format!("n{id}")})).collect()
        };
        assert!(
            sets("identity", &of, "services", &list(&["1", "2"]), &list(&["2", "1"]))
                .differences
                .is_empty()
        );
        let found = sets("identity", &of, "services", &list(&["1", "2"]), &list(&["2", "3"]));
        let one = &found.differences[0];
        assert_eq!((&one.original, &one.weft), (&json!("n1"), &json!("n3")));
    }
}
