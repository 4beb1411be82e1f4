//! Revisions that answers tell, and that requests name.

use super::*;

fn told(seen: &Seen) -> u64 {
    seen.headers["weft-revision"].to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_caller_reads_what_it_has_written_at_another_controller() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let service = |name: &str| json!({"name": name, "encryptionRequired": false});
    let path = "/edge/management/v1/services";
    let made = admin.call(Method::POST, path, &service("one")).await;
    assert_eq!(made.status, 201);
    let revision = told(&made);
    let read = async |wanted: &str| {
        let request = bed.request(Method::GET, path).header("zt-session", &admin.token);
        send(request.header("weft-revision", wanted)).await
    };
    let seen = read(&revision.to_string()).await;
    assert_eq!((seen.status, told(&seen)), (200, revision));
    // The next revision comes while the request waits for it.
    let next = (revision + 1).to_string();
    let later = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        admin.call(Method::POST, path, &service("two")).await
    };
    let (seen, _) = tokio::join!(read(&next), later);
    assert!(seen.status == 200 && seen.text.contains("two"), "{seen:?}");
    let seen = read(&(revision + 1_000).to_string()).await;
    assert_eq!((seen.status, seen.headers.contains_key("retry-after")), (503, true));
    assert!(seen.text.contains(&format!("revision {} is not known here yet", revision + 1_000)));
    assert_eq!(read("newest").await.status, 400);
    // A stranger learns nothing of how much changes.
    for named in ["1000000", "newest"] {
        let request = bed.request(Method::GET, "/edge/client/v1/version");
        let seen = send(request.header("weft-revision", named)).await;
        assert!(seen.status == 200 && !seen.headers.contains_key("weft-revision"), "{seen:?}");
        let request = bed.request(Method::GET, path).header("weft-revision", named);
        assert_eq!(send(request).await.status, 401);
    }
}
