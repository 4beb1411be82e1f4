//! Documents of random networks: each one is in force once it is applied, and its export changes nothing.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// Documents of a few entities that name each other in every way.
fn documents() -> impl Strategy<Value = Value> {
    let names = || prop::collection::vec(0u8..4, 0..3);
    let attributes = |numbers: Vec<u8>| -> Vec<String> {
        numbers.into_iter().map(|number| format!("a{number}")).collect()
    };
    let roles = |numbers: Vec<u8>, letter: char| -> Vec<String> {
        let role = |number| match number % 2 {
            0 => format!("#a{number}"),
            _ => format!("@{letter}{number}"),
        };
        numbers.into_iter().map(role).collect()
    };
    let service = (names(), any::<bool>(), 0i64..3).prop_map(move |(has, encrypted, idle)| {
        json!({"roleAttributes": attributes(has), "encryptionRequired": encrypted,
            "maxIdleTimeMillis": idle, "tags": {"n": idle}})
    });
    let identity = (names(), any::<bool>(), 0u16..3).prop_map(move |(has, admin, cost)| {
        json!({"roleAttributes": attributes(has), "isAdmin": admin, "defaultHostingCost": cost,
            "appData": {"cost": cost}})
    });
    let policy = (names(), names(), any::<bool>(), any::<bool>()).prop_map(
        move |(who, what, dial, any_of)| {
            json!({"type": if dial { "Dial" } else { "Bind" },
                "semantic": if any_of { "AnyOf" } else { "AllOf" },
                "identityRoles": roles(who, 'i'), "serviceRoles": roles(what, 's')})
        },
    );
    let many = |letter: char, one: BoxedStrategy<Value>, least: usize| {
        prop::collection::vec(one, least..5).prop_map(move |items| -> Vec<Value> {
            let named = items.into_iter().enumerate().map(|(at, mut item)| {
                item["name"] = json!(format!("{letter}{at}"));
                item
            });
            named.collect()
        })
    };
    // Roles by name mean the first four entities of each kind, which every document has.
    (many('s', service.boxed(), 4), many('i', identity.boxed(), 4), many('p', policy.boxed(), 0))
        .prop_map(|(services, identities, policies)| {
            json!({"services": services, "identities": identities, "service-policies": policies})
        })
}

#[test]
fn an_export_of_any_network_changes_nothing_and_a_document_applied_is_in_force() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(Bed::new());
    let admin = runtime.block_on(bed.admin());
    let mut runner = TestRunner::new(Config { cases: 48, ..Config::default() });
    let result = runner.run(&(documents(), any::<bool>()), |(document, prune)| {
        runtime.block_on(async {
            let body = json!({"network": document, "prune": prune});
            let planned = ask(&bed, &admin, "planChange", body.clone()).await.unwrap();
            let applied = ask(&bed, &admin, "applyChange", body.clone()).await.unwrap();
            assert_eq!(applied.plan, planned.plan);
            let again = ask(&bed, &admin, "applyChange", body).await.unwrap();
            assert_eq!(again.changes, []);
            let exported = export(&bed, &admin, "7").await;
            let back = plan(&bed, &admin, exported.clone()).await.unwrap();
            assert_eq!(back.changes, []);
            let pruned = json!({"network": exported, "prune": true});
            assert_eq!(ask(&bed, &admin, "planChange", pruned).await.unwrap().changes, []);
        });
        Ok(())
    });
    result.unwrap();
}
