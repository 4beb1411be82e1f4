//! Entities of a document that exchange unique values.

use super::*;

#[tokio::test]
async fn unique_values_may_be_exchanged() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let identities = |own: &[(&str, &str)]| {
        let entry = |(name, id): &(&str, &str)| json!({"name": name, "externalId": id});
        json!({"identities": own.iter().map(entry).collect::<Vec<_>>()})
    };
    let first = [("a", "x"), ("b", "y"), ("c", "z"), ("d", "w")];
    apply(&bed, &admin, identities(&first)).await.unwrap();
    let yesterday = export(&bed, &admin, "100").await;
    let before = snapshot(&bed).revision();
    let changed = [("a", "y"), ("b", "x"), ("c", "x2"), ("d", "z")];
    let applied = apply(&bed, &admin, identities(&changed)).await.unwrap();
    assert_eq!((applied.updated, applied.changes.len()), (4, 4));
    assert_eq!(snapshot(&bed).revision(), before.next(), "one change set");
    // Three in a circle, and one that stays.
    let circle = [("a", "x2"), ("b", "y"), ("c", "x")];
    assert_eq!(apply(&bed, &admin, identities(&circle)).await.unwrap().updated, 3);
    apply(&bed, &admin, yesterday.clone()).await.unwrap();
    assert_eq!(export(&bed, &admin, "100").await, yesterday);

    // A value that an entity outside of the document keeps.
    let before = snapshot(&bed).revision();
    let wrong = [("a", "w"), ("b", "x")];
    let failure = apply(&bed, &admin, identities(&wrong)).await.unwrap_err();
    let text = format!("{failure:?}");
    assert!(text.contains("externalId") && text.contains("unique"), "{text}");
    assert_eq!(snapshot(&bed).revision(), before);

    let signers = |own: [(&str, &str, &str); 2]| {
        let entry = |(name, issuer, kid): (&str, &str, &str)| {
            json!({"name": name, "issuer": issuer, "kid": kid, "audience": "all",
                "enabled": true, "jwksEndpoint": format!("https://{name}.example/keys")})
        };
        json!({"external-jwt-signers": own.map(entry)})
    };
    apply(&bed, &admin, signers([("one", "i1", "k1"), ("two", "i2", "k2")])).await.unwrap();
    let swapped = signers([("one", "i2", "k2"), ("two", "i1", "k1")]);
    assert_eq!(apply(&bed, &admin, swapped).await.unwrap().updated, 2);
}
