//! Terminators that routers report.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use weft_model::Id;
use weft_model::entity::{Precedence, Terminator};
use weft_network::terminators::{Owned, Refused, ReportedTerminator, TerminatorPatch, Terminators};

use crate::testing::Bed;

/// A controller, and the report of a terminator for one of its services on one of its routers.
async fn hosting() -> (Bed, ReportedTerminator) {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "web", "encryptionRequired": true});
    let service = bed.create(&admin, "createService", body).await;
    let router = bed.router(&admin, "er1", json!({})).await;
    let reported = ReportedTerminator {
        id: Id::new("t1"),
        router,
        service: Id::new(&service),
        binding: "edge".into(),
        address: "t1".into(),
        instance_id: "i1".into(),
        instance_secret: Bytes::from_static(b"secret"),
        peer_data: [(1003, Bytes::from_static(b"key one"))].into(),
        cost: 5,
        precedence: Precedence::Default,
        host: Id::new("host"),
        host_proves: false,
    };
    (bed, reported)
}

fn edge(reported: &ReportedTerminator) -> Owned {
    Owned { binding: Some("edge"), ..Owned::by(&reported.router) }
}

#[tokio::test]
async fn a_router_is_the_author_of_what_it_reports() {
    let (bed, one) = hosting().await;
    let (_, mut notices) = bed.controller.kernel().subscribe();
    Terminators::of(bed.controller.kernel()).put(one.clone()).await.unwrap();
    let Some(crate::Notice::Change(published)) = notices.next().await else { panic!() };
    let change = &published.changes[0];
    assert_eq!(change.author.kind, weft_model::AuthorKind::Router);
    assert_eq!((&change.author.id, &*change.author.name), (&one.router, "er1"));
    assert_eq!(&*change.cause.source_type, "ctrl.channel");
    assert_eq!(&*change.cause.operation, "create terminator");
}

/// All requests are submitted before the writer decides the first one: nothing is published in
/// between.
#[tokio::test]
async fn requests_see_what_was_asked_before_them() {
    let (bed, one) = hosting().await;
    let (controller, id) = (&bed.controller, &one.id);
    let hosted = Terminators::of(controller.kernel());
    let stored = || controller.kernel().snapshot().get::<Terminator>(id).cloned();
    let update = TerminatorPatch { cost: Some(9), precedence: None };
    let remove = || hosted.remove_owned(edge(&one), id);
    let (made, updated, removed, again) = tokio::join!(
        hosted.put(one.clone()),
        hosted.update_owned(edge(&one), id, update),
        remove(),
        remove(),
    );
    assert!(made.is_ok() && updated.is_ok() && removed.is_ok(), "{made:?} {updated:?} {removed:?}");
    assert!(matches!(again, Err(Refused::Unknown(_))), "{again:?}");
    assert!(stored().is_none());

    hosted.put(one.clone()).await.unwrap();
    let (removed, made) = tokio::join!(remove(), hosted.put(one.clone()));
    assert!(removed.is_ok() && made.is_ok(), "{removed:?} {made:?}");
    assert!(stored().is_some(), "made again after its removal");
}

#[tokio::test]
async fn what_differs_is_stored() {
    let (bed, one) = hosting().await;
    let controller = &bed.controller;
    let hosted = Terminators::of(controller.kernel());
    let stored = || controller.kernel().snapshot().get::<Terminator>(&one.id).cloned().unwrap();
    hosted.put(one.clone()).await.unwrap();
    let before = (controller.kernel().snapshot().revision(), stored());
    bed.clock.advance(Duration::from_secs(1));
    hosted.put(one.clone()).await.unwrap();
    assert_eq!((controller.kernel().snapshot().revision(), stored()), before);

    let peer_data = [(1003, Bytes::from_static(b"key two"))];
    let taken_over = ReportedTerminator { peer_data: peer_data.clone().into(), ..one.clone() };
    hosted.put(taken_over).await.unwrap();
    assert_eq!(stored().peer_data, peer_data.into());
    assert_eq!(stored().base.created_at, before.1.base.created_at);
    let secret = Bytes::from_static(b"other");
    let renewed = ReportedTerminator { instance_secret: secret.clone(), ..one.clone() };
    hosted.put(renewed).await.unwrap();
    assert_eq!(stored().instance_secret, secret);
}

#[tokio::test]
async fn what_is_not_the_askers_is_refused() {
    let (bed, one) = hosting().await;
    let hosted = Terminators::of(bed.controller.kernel());
    let mut foreign =
        ReportedTerminator { id: Id::new("t2"), host: Id::new("other"), ..one.clone() };
    let (made, refused) = tokio::join!(hosted.put(one.clone()), hosted.put(foreign.clone()),);
    made.unwrap();
    let text = "sibling terminator t1 with shared identity i1 belongs to different identity";
    assert_eq!(refused.unwrap_err().to_string(), text);
    foreign.host = Id::default();
    let refused = hosted.put(foreign.clone()).await;
    assert!(matches!(refused, Err(Refused::Instance { .. })), "{refused:?}");
    let secret = Bytes::from_static(b"another process");
    let own = ReportedTerminator { id: Id::new("t3"), instance_secret: secret, ..one.clone() };
    hosted.put(own).await.unwrap();
    foreign.instance_id = "i2".into();
    hosted.put(foreign).await.unwrap();
    let nothing = TerminatorPatch::default();
    let refused = |owned| hosted.update_owned(owned, &one.id, nothing);
    let tunnel = Owned { binding: Some("tunnel"), ..edge(&one) };
    assert!(matches!(refused(tunnel).await, Err(Refused::Unknown(_))));
    let other = Owned { host: Some(Id::new("other")), ..edge(&one) };
    assert!(matches!(refused(other).await, Err(Refused::Host(_))));
    let stranger = Owned::by(&Id::new("stranger"));
    assert!(matches!(refused(stranger).await, Err(Refused::Router)));
    let host = Owned { host: Some(one.host.clone()), ..edge(&one) };
    refused(host).await.unwrap();
    let gone = ReportedTerminator { service: Id::new("gone"), ..one.clone() };
    let refused = hosted.put(gone).await;
    assert!(matches!(refused, Err(Refused::Gone(_))), "{refused:?}");
}
