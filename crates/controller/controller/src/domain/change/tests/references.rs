//! References of documents, by ids and by names.

use super::*;

async fn id(bed: &Bed, admin: &Caller, operation: &str, name: &str) -> String {
    let found = bed.list(admin, operation, &format!("name = \"{name}\"")).await;
    found[0]["id"].as_str().unwrap().to_owned()
}

fn config(name: &str) -> Value {
    json!({"name": name, "configType": "host.v1",
        "data": {"protocol": "tcp", "address": "localhost", "port": 80}})
}

#[tokio::test]
async fn nobody_takes_over_a_reference_by_a_name_that_is_an_id() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let (host, web) = (
        id(&bed, &admin, "listConfigs", "web-host").await,
        id(&bed, &admin, "listServices", "web").await,
    );
    // Somebody gives other entities these ids as names.
    let others = json!({"configs": [config(&host)], "services": [{"name": web}]});
    apply(&bed, &admin, others).await.unwrap();
    let network = json!({
        "services": [{"name": "new", "configs": [host]}],
        "identities": [{"name": "costly", "serviceHostingCosts": {&web: 9},
            "serviceConfigs": {&web: [host]}}],
        "service-policies": [
            {"name": "new", "type": "Dial", "serviceRoles": [format!("@{web}")]}],
    });
    apply(&bed, &admin, network).await.unwrap();
    let detail = async |operation: &str| {
        let found = bed.list(&admin, operation, "name = \"new\" or name = \"costly\"").await;
        found[0].clone()
    };
    assert_eq!(detail("listServices").await["configs"], json!([host]));
    assert_eq!(detail("listServicePolicies").await["serviceRoles"], json!([format!("@{web}")]));
    assert_eq!(detail("listIdentities").await["serviceHostingCosts"], json!({&web: 9}));

    // An entity whose name is the id of another one is named by its own id in documents, which mean the same
    // when they are applied.
    let own = id(&bed, &admin, "listServices", &web).await;
    let roles = json!({"service-policies": [
        {"name": "new", "type": "Dial", "serviceRoles": [format!("@{own}")]}]});
    apply(&bed, &admin, roles).await.unwrap();
    let all = export(&bed, &admin, "100").await;
    assert!(all["service-policies"].to_string().contains(&format!("@{own}")), "{all}");
    let again = plan(&bed, &admin, all).await.unwrap();
    assert!(again.changes.is_empty(), "{again:?}");
}

#[tokio::test]
async fn a_reference_to_one_entity_by_its_id_and_to_one_of_the_document_is_refused() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let host = id(&bed, &admin, "listConfigs", "web-host").await;
    let network =
        json!({"configs": [config(&host)], "services": [{"name": "new", "configs": [host]}]});
    let failure = plan(&bed, &admin, network).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::CouldNotValidate);
    let problems = failure.cause().unwrap().data.clone().unwrap();
    assert_eq!(problems[0]["field"], "configs.0", "{problems}");
    assert!(problems[0]["reason"].as_str().unwrap().contains("both"), "{problems}");
    // The entity itself may be called so.
    plan(&bed, &admin, json!({"configs": [config(&host)]})).await.unwrap();
}
