use serde_json::json;
use weft_contract::ErrorCode;

use super::{NONE, refusal, refuses};
use crate::testing::Bed;

#[tokio::test]
async fn own_settings_stand_over_the_global_ones() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    refuses(
        &bed,
        &admin,
        "createControllerSetting",
        "",
        vec![
            (json!({}), "controllerId"),
            (json!({"controllerId": "other"}), "controllerId"),
            (json!({"controllerId": ""}), "controllerId"),
            (json!({"controllerId": "global", "oidc": []}), "oidc"),
            (json!({"controllerId": "global", "oidc": {"redirectUris": "x"}}), "oidc.redirectUris"),
            (
                json!({"controllerId": "global", "oidc": {"redirectUris": ["a://b", "x"]}}),
                "oidc.redirectUris[1]",
            ),
            (
                json!({"controllerId": "global", "oidc": {"postLogoutUris": [""]}}),
                "oidc.postLogoutUris[0]",
            ),
        ],
    )
    .await;
    let effective = |id: &'static str| {
        let (bed, admin) = (&bed, &admin);
        async move { bed.manage(admin, "detailControllerSettingEffective", &[id], NONE).await.unwrap() }
    };
    assert_eq!(effective("ctrl1").await["effective"], json!({}));
    let global = json!({"controllerId": "global", "tags": {"a": 1},
        "oidc": {"redirectUris": ["https://all/x"], "postLogoutUris": ["my-app:/out"]}});
    assert_eq!(bed.create(&admin, "createControllerSetting", global.clone()).await, "global");
    refuses(&bed, &admin, "createControllerSetting", "", vec![(global, "id")]).await;
    let own = json!({"controllerId": "ctrl1", "oidc": {"redirectUris": []}});
    bed.create(&admin, "createControllerSetting", own).await;
    let now = effective("ctrl1").await;
    assert_eq!(now["instance"], json!({"oidc": {"redirectUris": []}}));
    assert_eq!(
        now["effective"],
        json!({"oidc": {"redirectUris": [], "postLogoutUris": ["my-app:/out"]}})
    );
    let list = bed.list(&admin, "listControllerSettings", "controllerId = \"global\"").await;
    assert_eq!(list[0]["oidc"]["redirectUris"], json!(["https://all/x"]));

    let patch = json!({"oidc": {"redirectUris": ["https://one/"]}});
    bed.manage(&admin, "patchControllerSetting", &["global"], patch).await.unwrap();
    let now = effective("global").await;
    assert_eq!(now["instance"]["oidc"]["postLogoutUris"], json!(["my-app:/out"]));
    assert_eq!(now["effective"]["oidc"]["redirectUris"], json!(["https://one/"]));
    let put = json!({"oidc": {"redirectUris": ["https://two/"]}});
    bed.manage(&admin, "updateControllerSetting", &["global"], put).await.unwrap();
    let now = effective("global").await;
    assert_eq!(now["effective"], json!({"oidc": {"redirectUris": ["https://two/"]}}));
    assert_eq!(now["tags"], json!({}));
    bed.manage(&admin, "deleteControllerSetting", &["ctrl1"], NONE).await.unwrap();
    assert_eq!(
        effective("ctrl1").await["effective"]["oidc"]["redirectUris"],
        json!(["https://two/"])
    );
    for operation in ["detailControllerSetting", "detailControllerSettingEffective"] {
        let failure = refusal(&bed, &admin, operation, "other", NONE).await;
        assert_eq!(failure.code(), ErrorCode::NotFound);
    }
}
