//! How many sessions an identity has, and which of them end.

use std::time::Duration;

use weft_auth::sessions::{INCOMPLETE, PER_IDENTITY};
use weft_model::Id;
use weft_model::entity::ApiSession;

use super::login;
use crate::testing::Bed;

/// Opens a session of the identity.
fn open(bed: &Bed, number: usize, is_mfa_complete: bool) -> Id {
    let session = ApiSession { is_mfa_complete, ..login(bed) };
    let sessions = bed.controller.sessions();
    let session = sessions.open(session, &format!("token {number}"), |it| it.is_mfa_complete);
    session.unwrap().base.id.clone()
}

fn counts(bed: &Bed) -> (usize, usize) {
    let all = bed.controller.sessions().all();
    let complete = all.iter().filter(|it| it.is_mfa_complete).count();
    (complete, all.len() - complete)
}

#[tokio::test]
async fn sessions_without_a_code_end_no_others() {
    let bed = Bed::new().await;
    let owners = [0, 1, 2].map(|number| open(&bed, number, true));
    let mut last = None;
    for number in 3..300 {
        bed.clock.advance(Duration::from_secs(1));
        last = Some(open(&bed, number, false));
    }
    assert_eq!(counts(&bed), (3, INCOMPLETE));
    let sessions = bed.controller.sessions();
    assert!(owners.iter().chain(&last).all(|id| sessions.by_id(id.as_str()).is_some()));
    // One that gets its code counts among the others from then on.
    let last = last.unwrap();
    for number in 300..300 + PER_IDENTITY - 3 {
        open(&bed, number, true);
    }
    assert_eq!(counts(&bed), (PER_IDENTITY, INCOMPLETE));
    let whole = sessions.change(&last, bed.controller.now(), |it| it.is_mfa_complete = true);
    sessions.make_room(&whole.unwrap(), |it| it.is_mfa_complete);
    assert_eq!(counts(&bed), (PER_IDENTITY, INCOMPLETE - 1));
    assert!(sessions.by_id(last.as_str()).is_some());
    assert!(sessions.by_id(owners[0].as_str()).is_none(), "not used for the longest time");
}

#[tokio::test]
async fn the_session_ends_that_was_not_used_for_the_longest_time() {
    let bed = Bed::new().await;
    let sessions = bed.controller.sessions();
    let [tunneler, idle] = [0, 1].map(|number| open(&bed, number, true));
    for number in 2..2 * PER_IDENTITY {
        bed.clock.advance(Duration::from_secs(1));
        if number % 60 == 0 {
            sessions.touch(&tunneler, bed.controller.now());
        }
        open(&bed, number, true);
    }
    assert_eq!(counts(&bed), (PER_IDENTITY, 0));
    assert!(sessions.by_id(tunneler.as_str()).is_some(), "it is old, and in use");
    assert!(sessions.by_id(idle.as_str()).is_none());
}
