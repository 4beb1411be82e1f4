//! Identities that were disabled for a while.

use std::time::Duration;

use serde_json::{Value, json};
use weft_model::entity::Identity;
use weft_model::{Change, Entity, Id};

use crate::Notice;
use crate::testing::{Bed, until};

#[tokio::test]
async fn whose_time_is_over_is_enabled_and_routers_hear_of_it() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let mut ids = Vec::new();
    for (name, minutes) in [("short", 1), ("long", 10), ("ever", 0)] {
        let body = json!({"name": name, "type": "Default", "isAdmin": false});
        let id = bed.create(&admin, "createIdentity", body).await;
        let body = json!({"durationMinutes": minutes});
        bed.manage(&admin, "disableIdentity", &[&id], body).await.unwrap();
        ids.push(Id::new(&id));
    }
    // The time may also end while no controller runs.
    let bed = bed.restarted().await;
    let mut changes = bed.controller.kernel().subscribe().1;
    let is_marked = |at: usize| {
        let snapshot = bed.controller.kernel().snapshot();
        snapshot.get::<Identity>(&ids[at]).unwrap().disabled_at.is_some()
    };
    assert!([0, 1, 2].into_iter().all(is_marked));
    bed.clock.advance(Duration::from_secs(60));
    until("the first is enabled", || !is_marked(0)).await;
    assert!(is_marked(1) && is_marked(2));
    let Some(Notice::Change(heard)) = changes.next().await else { panic!("no change") };
    let put = |it: &Change| matches!(it, Change::Put(Entity::Identity(it)) if it.base.id == ids[0]);
    assert!(heard.changes.iter().flat_map(|set| &set.changes).any(put));

    // Disabled again, for a longer time, before the first time is over.
    let admin = bed.admin().await;
    let body = json!({"durationMinutes": 30});
    bed.manage(&admin, "disableIdentity", &[ids[1].as_str()], body).await.unwrap();
    let body = json!({"durationMinutes": 1});
    bed.manage(&admin, "disableIdentity", &[ids[0].as_str()], body).await.unwrap();
    bed.clock.advance(Duration::from_secs(900));
    until("the first is enabled again", || !is_marked(0)).await;
    assert!(is_marked(1) && is_marked(2));
    bed.manage(&admin, "enableIdentity", &[ids[1].as_str()], Value::Null).await.unwrap();
}
