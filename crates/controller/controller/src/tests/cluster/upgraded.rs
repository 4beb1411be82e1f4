//! A network that is upgraded to a newer format of stored data.

use weft_store::FORMAT;

use super::*;

/// Starts a controller whose program is one format ahead.
async fn start_newer(shared: &Shared, name: &str) -> Bed {
    let options = Options { reads: FORMAT + 1, ..Options::default() };
    let address = format!("tls:{name}.example:6262");
    shared.start_as(name, &shared.links(), address, Vec::new(), options).await
}

fn format(bed: &Bed) -> u32 {
    store(bed).formats()[0]
}

async fn upgrade(bed: &Bed) -> crate::Result<Value> {
    let admin = bed.admin().await;
    let call = to(Api::Weft, "upgradeCluster", &[]);
    Ok(bed.controller.call(admin, call).await?.data())
}

#[tokio::test]
async fn a_network_is_upgraded_when_every_controller_reads_the_format() {
    let shared = Shared::new();
    let one = start_newer(&shared, "one").await;
    one.controller.init_admin("Default Admin", USERNAME, PASSWORD).await.unwrap();
    let two = shared.start("two", &shared.links()).await;
    for bed in [&one, &two] {
        bed.controller.auth().write_member(true).await.unwrap();
    }
    let known =
        || one.controller.kernel().snapshot().table(weft_model::Kind::ControllerMember).len();
    until("both", || known() == 2).await;
    let refused = upgrade(&one).await.unwrap_err();
    assert!(
        refused.status() == 400 && refused.to_string().contains("two (reads up to 1)"),
        "{refused}"
    );
    // There is nothing newer for the older one.
    assert_eq!(upgrade(&two).await.unwrap(), json!({"format": FORMAT, "former": FORMAT}));
    assert_eq!((format(&one), format(&two)), (FORMAT, FORMAT));

    // Another program is started in its place.
    store(&two).close().await.unwrap();
    drop(two);
    let two = start_newer(&shared, "two").await;
    two.controller.auth().write_member(true).await.unwrap();
    let service = json!({"name": "web", "encryptionRequired": false});
    let before = two.create(&two.admin().await, "createService", service).await;
    until("that it says so", || {
        let model = one.controller.kernel().snapshot();
        model.get::<ControllerMember>(&Id::new("two")).is_some_and(|it| it.reads > FORMAT)
    })
    .await;
    assert_eq!(upgrade(&one).await.unwrap(), json!({"format": FORMAT + 1, "former": FORMAT}));
    until("the other one", || (format(&one), format(&two)) == (FORMAT + 1, FORMAT + 1)).await;
    assert_eq!(upgrade(&two).await.unwrap(), json!({"format": FORMAT + 1, "former": FORMAT + 1}));
    two.controller.init_admin("b", "b", PASSWORD).await.unwrap_err();

    // An older program refuses to start, with a copy of before and without one, and one that runs stops to follow.
    store(&two).close().await.unwrap();
    drop(two);
    let open = async |name: &str| {
        let [model, live] = shared.links().map(|link| Arc::new(link) as _);
        let path = shared.folder.path().join(name);
        Replica::open_with_live(&path, Options::default(), model, live).await
    };
    for name in ["two", "three"] {
        let refused = open(name).await.map(drop).unwrap_err().to_string();
        assert!(refused.contains(&format!("format {}", FORMAT + 1)), "{refused}");
    }
    // The newer ones go on.
    let two = start_newer(&shared, "two").await;
    let found = two.controller.kernel().snapshot();
    assert!(found.get::<Service>(&Id::new(&before)).is_some() && format(&two) == FORMAT + 1);
}
