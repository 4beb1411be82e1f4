//! Documents and the rights of their callers.

use weft_contract::resource::change::AccessChange;

use super::*;

#[tokio::test]
async fn every_entity_needs_its_own_permission() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let clerk = somebody(&bed, &admin, "clerk", &["service"]).await;
    let applied = apply(&bed, &clerk, json!({"services": [{"name": "web"}]})).await.unwrap();
    assert_eq!(applied.created, 1);
    let policy = json!({"service-policies": [{"name": "p", "type": "Dial"}]});
    let failure = apply(&bed, &clerk, policy).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::Unauthorized);
    let call = to(Api::Weft, "exportNetwork", &[]);
    let failure = bed.controller.call(clerk.clone(), call).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::Unauthorized);
    let call = to(Api::Weft, "exportNetwork", &[]).with_query("sections", "services");
    assert!(bed.controller.call(clerk, call).await.is_ok());
    let nobody = Caller::nobody(crate::Origin::default());
    assert!(plan(&bed, &nobody, json!({})).await.is_err());
}

#[tokio::test]
async fn nothing_is_told_to_who_may_neither_read_nor_change() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let plain = somebody(&bed, &admin, "plain", &["identity"]).await;
    let reader = somebody(&bed, &admin, "reader", &["service.read"]).await;
    let web = small()["services"][0].clone();
    let mut told = Vec::new();
    for (network, prune) in [
        // An entry that is unchanged, one that changes, a new one, a wrong one, and a deletion that
        // a reference forbids.
        (json!({"services": [web]}), false),
        (json!({"services": [{"name": "web"}]}), false),
        (json!({"services": [{"name": "nothing"}]}), false),
        (json!({"services": [{"name": "web", "configs": ["nope"]}]}), false),
        (json!({"services": [{"name": "nothing", "roleAttributes": ["#"]}]}), false),
    ] {
        let body = json!({"network": network, "prune": prune});
        let failure = ask(&bed, &plain, "planChange", body).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::Unauthorized, "{network}");
        told.push(failure.to_string());
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    let prune = json!({"network": {"edge-routers": [], "services": []}, "prune": true});
    let failure = ask(&bed, &plain, "planChange", prune).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::Unauthorized);

    let planned = plan(&bed, &reader, json!({"services": [web]})).await.unwrap();
    assert_eq!((planned.unchanged, planned.changes.len()), (1, 0));
    for network in [json!({"services": [{"name": "web"}]}), json!({"services": [{"name": "new"}]})]
    {
        let failure = plan(&bed, &reader, network).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::Unauthorized);
    }
}

#[tokio::test]
async fn nobody_learns_from_a_plan_what_they_may_not_read() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, json!({"services": [{"name": "web"}]})).await.unwrap();
    for (name, permissions) in [("plain", json!([])), ("clerk", json!(["config"]))] {
        let body = json!({"name": name, "type": "Default", "isAdmin": false,
            "permissions": permissions});
        let id = bed.create(&admin, "createIdentity", body).await;
        let body = json!({"identityId": id, "method": "updb", "username": name,
            "password": "geheimnis"});
        bed.create(&admin, "createAuthenticator", body).await;
        let caller = bed.login(name, "geheimnis").await.unwrap();
        for services in [json!([{"name": "web"}]), json!([{"name": "web", "configs": ["none"]}])] {
            let failure = plan(&bed, &caller, json!({"services": services})).await.unwrap_err();
            assert_eq!(failure.code(), ErrorCode::Unauthorized);
        }
    }
}

#[tokio::test]
async fn a_plan_leaves_out_what_its_caller_may_not_read() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    // The deletion of a service also changes the identity that has costs for it.
    let prune = || json!({"network": {"services": [small()["services"][0]]}, "prune": true});
    let all = ask(&bed, &admin, "planChange", prune()).await.unwrap();
    assert!(all.changes.iter().any(|change| change.name == "server"), "{all:?}");
    let clerk = somebody(&bed, &admin, "clerk", &["service"]).await;
    let told = ask(&bed, &clerk, "planChange", prune()).await.unwrap();
    assert!(told.changes.iter().all(|change| change.section == "services"), "{told:?}");
    assert_ne!(told.plan, all.plan, "a fingerprint covers what its caller is told");
    let other = somebody(&bed, &admin, "other", &["service"]).await;
    assert_eq!(ask(&bed, &other, "planChange", prune()).await.unwrap().plan, told.plan);

    // Who may change configs and not read them learns nothing of the data before.
    let writer = somebody(&bed, &admin, "writer", &["config.update"]).await;
    let data = json!({"protocol": "tcp", "address": "elsewhere", "port": 80});
    let network = json!({"configs": [{"name": "web-host", "configType": "host.v1", "data": data}]});
    let told = plan(&bed, &writer, network).await.unwrap();
    assert_eq!((told.updated, told.changes[0].fields.len()), (1, 0), "{told:?}");
    assert_eq!(told.changes[0].name, "web-host");
}

#[tokio::test]
async fn documents_and_plans_name_entities_of_unreadable_kinds_by_their_ids() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let id = async |operation: &str, name: &str| {
        let found = bed.list(&admin, operation, &format!("name = \"{name}\"")).await;
        found[0]["id"].as_str().unwrap().to_owned()
    };
    let config = id("listConfigs", "web-host").await;
    let (web, db) = (id("listServices", "web").await, id("listServices", "db").await);
    let section = async |caller: &Caller, name: &str| {
        let call = to(Api::Weft, "exportNetwork", &[]).with_query("sections", name);
        let page = bed.controller.call(caller.clone(), call).await;
        page.map(|page| page.data()["network"][name].clone())
    };
    let names = ["service.read", "identity.read", "service-policy.read"];
    for permission in names {
        let reader = somebody(&bed, &admin, permission, &[permission]).await;
        for (plural, subject) in [
            ("services", "service.read"),
            ("identities", "identity.read"),
            ("service-policies", "service-policy.read"),
        ] {
            let seen = section(&reader, plural).await;
            if subject != permission {
                let failure = seen.unwrap_err();
                assert_eq!(failure.code(), ErrorCode::Unauthorized);
                let text = failure.cause().unwrap().message.clone().unwrap();
                assert!(text.ends_with(&format!("the permission {subject}")), "{text}");
                continue;
            }
            let seen = seen.unwrap();
            let text = seen.to_string();
            let others = match plural {
                "services" => &["web-host"][..],
                "identities" => &["web-host", "\"web\"", "\"db\""],
                _ => &["@server", "@paris", "@web", "@db"],
            };
            for name in others {
                assert!(!text.contains(name), "{permission}: {name} in {text}");
            }
            // The document is one of the same network.
            let mut network = json!({});
            network[plural] = seen;
            let planned = plan(&bed, &admin, network.clone()).await.unwrap();
            assert!(planned.changes.is_empty(), "{planned:?}");
            if plural != "identities" {
                let planned = plan(&bed, &reader, network).await.unwrap();
                assert!(planned.changes.is_empty(), "{planned:?}");
            }
        }
    }
    let reader = somebody(&bed, &admin, "services", &["service.read"]).await;
    let services = section(&reader, "services").await.unwrap();
    let of_web = services.as_array().unwrap().iter().find(|it| it["name"] == "web").unwrap();
    assert_eq!(of_web["configs"], json!([config]));
    let reader = somebody(&bed, &admin, "identities", &["identity.read"]).await;
    let identities = section(&reader, "identities").await.unwrap();
    let server = identities.as_array().unwrap().iter().find(|it| it["name"] == "server").unwrap();
    assert_eq!(server["serviceConfigs"], json!({&web: [config]}));
    assert_eq!(server["serviceHostingCosts"], json!({&db: 7}));

    // Names that every network has are no secret.
    let reader = somebody(&bed, &admin, "configs", &["config.read"]).await;
    let configs = section(&reader, "configs").await.unwrap();
    assert_eq!(configs[0]["configType"], "host.v1");

    // A plan does not turn ids into names.
    let clerk = somebody(&bed, &admin, "clerk", &["service"]).await;
    let network = json!({"services": [{"name": "new", "configs": [config]}, {"name": "web"}]});
    let told = plan(&bed, &clerk, network.clone()).await.unwrap();
    let text = serde_json::to_string(&told).unwrap();
    assert!(text.contains(&config) && !text.contains("web-host"), "{text}");
    let all = plan(&bed, &admin, network).await.unwrap();
    let text = serde_json::to_string(&all).unwrap();
    assert!(text.contains("web-host") && !text.contains(&config), "{text}");
}

#[tokio::test]
async fn a_plan_names_no_services_to_who_may_not_read_them() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let policy = |services: &str, identities: &str| {
        json!({"name": "new", "type": "Dial", "semantic": "AnyOf", "serviceRoles": [services],
            "identityRoles": [identities]})
    };
    let network = |services: &str| json!({"service-policies": [policy(services, "#all")]});
    let all = plan(&bed, &admin, network("#all")).await.unwrap();
    assert!(all.access.gained > 1 && all.notes.is_empty(), "{all:?}");
    let writer = somebody(&bed, &admin, "writer", &["service-policy", "service.create"]).await;
    let told = plan(&bed, &writer, network("#all")).await.unwrap();
    assert_eq!(told.access, AccessChange::default());
    assert!(told.notes[0].ends_with("the caller may not read identities"), "{told:?}");
    // Neither does the fingerprint tell how many there are.
    let plans = async |identities: &str| {
        let network = json!({"service-policies": [policy("#all", identities)]});
        let told = plan(&bed, &writer, network).await.unwrap();
        json!([told.access, told.along, told.notes])
    };
    assert_eq!(plans("#all").await, plans("#nobody").await);
    let permissions = ["service-policy", "service.create", "identity.read"];
    let reader = somebody(&bed, &admin, "reader", &permissions).await;
    let told = plan(&bed, &reader, network("#all")).await.unwrap();
    assert_eq!(told.access, AccessChange::default());
    assert!(told.notes[0].ends_with("the caller may not read services"), "{told:?}");
    // Services that the document makes are its own.
    let mut own = network("@mine");
    own["services"] = json!([{"name": "mine"}]);
    let told = plan(&bed, &reader, own).await.unwrap();
    let names: Vec<_> = told.access.services.iter().map(|it| it.service.as_str()).collect();
    assert_eq!(names, ["mine"]);
    assert!(told.access.gained > 1, "{told:?}");

    // Names that exist and names that do not are refused alike; ids are taken.
    let mut said = Vec::new();
    for name in ["web", "wen"] {
        let failure = plan(&bed, &writer, network(&format!("@{name}"))).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::CouldNotValidate);
        said.push(format!("{:?}", failure.cause()).replace(name, ""));
    }
    assert_eq!(said[0], said[1]);
    let web = bed.list(&admin, "listServices", "name = \"web\"").await[0]["id"].clone();
    let by_id = network(&format!("@{}", web.as_str().unwrap()));
    assert_eq!(plan(&bed, &writer, by_id).await.unwrap().created, 1);
    let identities = json!({"service-policies": [policy("#all", "@laptop")]});
    assert!(plan(&bed, &writer, identities).await.is_err());
}

#[tokio::test]
async fn a_plan_counts_nothing_that_its_caller_may_not_read() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let router = bed.router(&admin, "paris", json!({})).await;
    let body = json!({"name": "gone", "encryptionRequired": true});
    let service = bed.create(&admin, "createService", body).await;
    let body = json!({"service": service, "router": router.as_str(), "binding": "transport",
        "address": "tcp:web.example:80"});
    bed.create(&admin, "createTerminator", body).await;
    let prune = || json!({"network": {"services": []}, "prune": true});
    let all = ask(&bed, &admin, "planChange", prune()).await.unwrap();
    assert_eq!((all.along.len(), all.deleted), (1, 1), "{all:?}");
    let clerk = somebody(&bed, &admin, "clerk", &["service"]).await;
    let told = ask(&bed, &clerk, "planChange", prune()).await.unwrap();
    assert_eq!((told.along.len(), told.deleted), (0, 1), "{told:?}");
}

#[tokio::test]
async fn a_document_is_applied_with_the_rights_that_its_caller_has_then() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let clerk = somebody(&bed, &admin, "clerk", &["service"]).await;
    let id = clerk.login().unwrap().identity.clone();
    // The clerk's request was let in, and its document took long to arrive.
    let permitted = async |permissions: Value| {
        let call = to(Api::Management, "patchIdentity", &[&id]);
        let call = call.with_json(&json!({"permissions": permissions}));
        bed.controller.call(admin.clone(), call).await.unwrap();
    };
    permitted(json!(["service.read"])).await;
    let document = || json!({"services": [{"name": "late"}]});
    let failure = apply(&bed, &clerk, document()).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::Unauthorized);
    permitted(json!(["service"])).await;
    let disable = to(Api::Management, "disableIdentity", &[&id]);
    let disable = disable.with_json(&json!({"durationMinutes": 0}));
    bed.controller.call(admin.clone(), disable).await.unwrap();
    for operation in ["planChange", "applyChange"] {
        let body = json!({"network": document()});
        assert!(ask(&bed, &clerk, operation, body).await.is_err());
    }
}

/// The entry of the config of [`small`], with other data.
fn config_with(data: Value) -> Value {
    json!({"configs": [{"name": "web-host", "configType": "host.v1", "data": data}]})
}

fn data(port: u16) -> Value {
    json!({"protocol": "tcp", "address": "localhost", "port": port})
}

#[tokio::test]
async fn a_plan_confirms_no_guess_of_what_its_caller_may_not_read() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let writer = somebody(&bed, &admin, "writer", &["config.update"]).await;
    let told = async |data: Value| {
        let told = plan(&bed, &writer, config_with(data)).await.unwrap();
        ChangePlan { plan: String::new(), ..told }
    };
    let (wrong, right) = (told(data(81)).await, told(data(80)).await);
    assert_eq!(serde_json::to_value(&right).unwrap(), serde_json::to_value(&wrong).unwrap());
    assert_eq!((right.unchanged, right.updated, right.changes.len()), (0, 1, 1));
    assert!(right.notes.iter().any(|note| note.contains("configs")), "{:?}", right.notes);
    // The type of the config is no answer either.
    let mut guess = config_with(data(80));
    guess["configs"][0]["configType"] = "host.v2".into();
    let guessed = plan(&bed, &writer, guess).await.unwrap();
    assert_eq!((guessed.unchanged, guessed.updated), (0, 1));

    // The revision after an apply says nothing either.
    for data in [data(80), data(81), data(81)] {
        let before = snapshot(&bed).revision();
        apply(&bed, &writer, config_with(data)).await.unwrap();
        assert_eq!(snapshot(&bed).revision(), before.next());
    }
    let network = config_with(data(81));
    let read = plan(&bed, &admin, network).await.unwrap();
    assert_eq!((read.unchanged, read.updated, read.notes.len()), (1, 0, 0));
}

#[tokio::test]
async fn the_fingerprint_of_a_plan_does_not_cover_what_its_caller_may_not_read() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let writer = somebody(&bed, &admin, "writer", &["config.update"]).await;
    let fingerprint = async |caller: &Caller, port: u16| {
        plan(&bed, caller, config_with(data(port))).await.unwrap().plan
    };
    let (first, all) = (fingerprint(&writer, 99).await, fingerprint(&admin, 99).await);
    assert_ne!(fingerprint(&writer, 98).await, first, "the document is covered");
    apply(&bed, &admin, config_with(data(81))).await.unwrap();
    assert_eq!(fingerprint(&writer, 99).await, first);
    assert_ne!(fingerprint(&admin, 99).await, all);
    // The order of members is not a part of it.
    let turned = json!({"port": 99, "address": "localhost", "protocol": "tcp"});
    let turned = plan(&bed, &writer, config_with(turned)).await.unwrap().plan;
    assert_eq!(turned, first);

    // New entities have other ids in every plan, and the names of the document.
    let maker = somebody(&bed, &admin, "maker", &["config.create", "service.create"]).await;
    let mut network = config_with(data(1));
    network["configs"][0]["name"] = "own".into();
    network["services"] = json!([{"name": "new", "configs": ["own"]}]);
    let one = plan(&bed, &maker, network.clone()).await.unwrap();
    assert_eq!(one.plan, plan(&bed, &maker, network).await.unwrap().plan);

    // The identities that gain access, and the services.
    let clerk = somebody(&bed, &admin, "clerk", &["service-policy"]).await;
    let network = || {
        json!({"service-policies": [{"name": "new", "type": "Dial", "identityRoles": ["#staff"],
            "serviceRoles": ["#intranet"], "semantic": "AnyOf"}]})
    };
    apply(&bed, &admin, json!({"service-policies": [{"name": "staff", "type": "Dial"}]}))
        .await
        .unwrap();
    let first = plan(&bed, &clerk, network()).await.unwrap();
    assert_eq!(first.access, AccessChange::default());
    for (operation, kind, name) in
        [("patchIdentity", "listIdentities", "laptop"), ("patchService", "listServices", "web")]
    {
        let id = bed.list(&admin, kind, &format!("name = \"{name}\"")).await[0]["id"].clone();
        let body = json!({"name": format!("{name}-2")});
        bed.manage(&admin, operation, &[id.as_str().unwrap()], body).await.unwrap();
        assert_eq!(plan(&bed, &clerk, network()).await.unwrap().plan, first.plan, "{name}");
    }
}

#[tokio::test]
async fn a_plan_does_not_tell_the_order_of_names_that_its_caller_may_not_read() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let permissions = ["service-policy", "service.create", "identity.read"];
    let writer = somebody(&bed, &admin, "writer", &permissions).await;
    for own in ["aaa", "zzz"] {
        let network = json!({"services": [{"name": own}], "service-policies": [
            {"name": "new", "type": "Dial", "semantic": "AnyOf", "serviceRoles": ["#all"],
                "identityRoles": ["#all"]}]});
        let told = plan(&bed, &writer, network).await.unwrap();
        let names: Vec<_> = told.access.services.iter().map(|it| it.service.as_str()).collect();
        assert_eq!(names, [own], "{told:?}");
    }
}

#[tokio::test]
async fn what_its_caller_may_not_read_a_document_does_not_prune() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let prune = |section: &str| json!({"network": {section: []}, "prune": true});
    for (permissions, section) in [
        (&["config.delete"][..], "configs"),
        (&["identity.delete"], "identities"),
        (&["identity.delete"], "configs"),
    ] {
        let name = format!("{permissions:?}{section}");
        let remover = somebody(&bed, &admin, &name, permissions).await;
        let failure = ask(&bed, &remover, "planChange", prune(section)).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::Unauthorized);
        let text = failure.cause().unwrap().message.clone().unwrap();
        assert!(text.contains(".read") && !text.contains("web-host"), "{text}");
    }
    let remover = somebody(&bed, &admin, "remover", &["config.delete", "config.read"]).await;
    let told = ask(&bed, &remover, "planChange", prune("configs")).await;
    assert_ne!(told.map_err(|failure| failure.code()).err(), Some(ErrorCode::Unauthorized));
}
