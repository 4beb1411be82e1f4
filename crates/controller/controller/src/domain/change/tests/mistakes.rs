//! Refusals of documents: every mistake of every entity, and the names that were probably meant.

use super::*;
use crate::domain::change;

/// The mistakes with which a document is refused: section and index, member, reason.
async fn mistakes(bed: &Bed, caller: &Caller, network: Value) -> Vec<(String, String, String)> {
    let failure = plan(bed, caller, network).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::CouldNotValidate, "{failure}");
    let problems = failure.cause().unwrap().data.clone().unwrap();
    let text = |it: &Value, name: &str| it[name].as_str().unwrap().to_owned();
    let told = problems.as_array().unwrap().iter().map(|it| {
        let place = format!("{} {}", text(it, "section"), it["index"]);
        (place, text(it, "field"), text(it, "reason"))
    });
    told.collect()
}

fn places(mistakes: &[(String, String, String)]) -> Vec<(&str, &str)> {
    mistakes.iter().map(|(place, field, _)| (place.as_str(), field.as_str())).collect()
}

#[tokio::test]
async fn mistakes_with_names_hide_no_others_and_an_entity_has_all_of_its_own() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let network = json!({
        "servces": [],
        "services": [
            {"name": "web", "configs": ["a", "b"], "encryptionRequired": "x",
                "maxIdleTimeMillis": "y", "roleAtributes": []},
            {"name": "web", "configs": ["c"]},
            {"configs": ["d"]}],
        "identities": [{"name": "laptop", "isAdmin": 1, "enrollment": {"oot": true}}],
    });
    let told = mistakes(&bed, &admin, network).await;
    assert_eq!(
        places(&told),
        [
            ("servces 0", ""),
            ("services 0", "configs.0"),
            ("services 0", "configs.1"),
            ("services 0", "roleAtributes"),
            ("services 0", "encryptionRequired"),
            ("services 0", "maxIdleTimeMillis"),
            ("services 1", "name"),
            ("services 1", "configs.0"),
            ("services 2", "name"),
            ("services 2", "configs.0"),
            ("identities 0", "enrollment.oot"),
            ("identities 0", "isAdmin"),
        ],
        "{told:?}"
    );
    assert!(told[0].2.ends_with("did you mean `services`?"), "{told:?}");
    assert!(told[3].2.ends_with("did you mean `roleAttributes`?"), "{told:?}");
    assert!(told[6].2.contains("the entry with index 0 has the same name"), "{told:?}");
    assert!(told[10].2.ends_with("did you mean `ott`?"), "{told:?}");
}

#[test]
fn the_contract_lists_the_sections() {
    let known = change::section::SECTIONS.iter().map(|it| it.kind().plural);
    assert_eq!(known.collect::<Vec<_>>(), weft_contract::resource::change::SECTIONS);
}

#[tokio::test]
async fn an_entity_that_waits_for_a_wrong_one_is_no_mistake_of_its_own() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let network = json!({
        "configs": [{"name": "web-host", "configType": "host.v1", "data": {"port": "x"}}],
        "services": [{"name": "web", "configs": ["web-host"]}],
    });
    let told = mistakes(&bed, &admin, network).await;
    assert_eq!(places(&told), [("configs 0", "port")], "{told:?}");
}

#[tokio::test]
async fn a_refusal_lists_a_hundred_mistakes_and_counts_the_others() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let services: Vec<_> =
        (0..80).map(|at| json!({"name": format!("s{at}"), "configs": ["a", "b"]})).collect();
    let network = json!({"services": services});
    let failure = plan(&bed, &admin, network.clone()).await.unwrap_err();
    assert!(failure.to_string().contains("and 159 more"), "{failure}");
    assert_eq!(mistakes(&bed, &admin, network).await.len(), 100);
}

#[tokio::test]
async fn names_are_suggested_to_those_who_may_read_them() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let clerk = somebody(&bed, &admin, "clerk", &["service-policy", "service.read"]).await;
    let network = json!({"service-policies": [{"name": "p", "type": "Dial", "semantic": "AnyOf",
        "serviceRoles": ["@wbe"], "identityRoles": ["@lptop"]}]});
    let reasons = |told: Vec<(String, String, String)>| -> Vec<String> {
        told.into_iter().map(|(_, _, reason)| reason).collect()
    };
    let told = reasons(mistakes(&bed, &admin, network.clone()).await);
    assert!(told.iter().any(|it| it.ends_with("did you mean `web`?")), "{told:?}");
    assert!(told.iter().any(|it| it.ends_with("did you mean `laptop`?")), "{told:?}");
    let told = reasons(mistakes(&bed, &clerk, network).await);
    assert!(told.iter().any(|it| it.ends_with("did you mean `web`?")), "{told:?}");
    assert!(told.iter().all(|it| !it.contains("laptop")), "{told:?}");
    let network = json!({"configs": [{"name": "c", "configType": "hots.v1", "data": {}}],
        "services": [{"name": "s", "configs": ["web-hots", "c-"]}]});
    let told = reasons(mistakes(&bed, &admin, network).await);
    for meant in ["host.v1", "web-host", "c"] {
        assert!(
            told.iter().any(|it| it.ends_with(&format!("did you mean `{meant}`?"))),
            "{told:?}"
        );
    }
}
