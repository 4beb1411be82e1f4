//! Events of the ends of sessions. Where many end together, a few have an event each, and one event says how many have ended
//! and why: an event for each would displace all others that listeners have yet to read.

use weft_kernel::events::{ApiSessionsEndedEvent, EndCause, Event, SessionChange};
use weft_model::entity::ApiSession;

use super::Sessions;
use crate::session_events;

/// Most sessions that end together and have an event each: an eighth of the events that a listener may be behind.
const TOLD: u64 = 512;

/// What is told of sessions that end together.
pub(super) struct ToldEnds {
    /// Most of them that have an event each.
    most: u64,
    ended: u64,
}

impl Sessions {
    /// Begins to tell of sessions that end together. Those that end while the controller begins are told by one event only.
    pub(super) fn told_ends(&self) -> ToldEnds {
        let is_away = self.0.away.lock().is_some();
        ToldEnds { most: if is_away { 0 } else { TOLD }, ended: 0 }
    }

    /// Tells that one of them has ended.
    pub(super) fn tell_end(&self, session: &ApiSession, told: &mut ToldEnds) {
        told.ended += 1;
        if let Some(kernel) = self.0.kernel.get().filter(|_| told.ended <= told.most) {
            session_events::changed(kernel, session, SessionChange::Deleted, false);
        }
    }

    /// All of them have ended: tells how many, unless each had its event.
    pub(super) fn tell_together(&self, cause: &EndCause, told: ToldEnds) {
        if let Some(away) = &mut *self.0.away.lock() {
            *away += told.ended;
            return;
        }
        if told.ended > told.most {
            self.tell_many(cause.clone(), told.ended, told.most);
        }
    }

    /// The controller has begun: tells how many sessions ended while it was away.
    pub(crate) fn tell_away(&self) {
        let ended = self.0.away.lock().take().unwrap_or_default();
        if ended > 0 {
            self.tell_many(EndCause::Away, ended, 0);
        }
    }

    fn tell_many(&self, cause: EndCause, ended: u64, told: u64) {
        self.0.progress.told(ended);
        tracing::info!(ended, %cause, "API sessions have ended together");
        let Some(kernel) = self.0.kernel.get() else { return };
        let is_of_start = cause == EndCause::Away;
        let event = ApiSessionsEndedEvent { at: kernel.now(), cause, ended, told };
        let event = Event::ApiSessionsEnded(event.into());
        match is_of_start {
            true => kernel.events().tell_of_start(event),
            false => kernel.events().tell(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use weft_kernel::events::{Heard, Listener};
    use weft_model::{Base, Entity, Id, Kind};
    use weft_store::{Memory, Store as _};

    use super::*;
    use crate::sessions::EndCounts;
    use crate::token_keys::tests::{auth, auth_on};

    fn session(number: u64) -> ApiSession {
        let id = Id::new(&format!("s{number:05}"));
        ApiSession { base: Base::new(id, weft_model::Timestamp(1)), ..ApiSession::default() }
    }

    async fn next(listener: &mut Listener) -> Event {
        match tokio::time::timeout(Duration::from_secs(20), listener.next()).await {
            Ok(Some(Heard::Event(event))) => event,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn many_ends_are_some_events_and_one_that_says_how_many_and_why() {
        let auth = auth();
        auth.sessions().tell_away();
        let mut listener = auth.kernel().events().listen();
        let ids: Vec<Id> = (0..10 * TOLD).map(|number| session(number).base.id).collect();
        for number in 0..10 * TOLD {
            auth.sessions().open_signed(session(number), |_| true).unwrap();
        }
        let cause = EndCause::Change(Kind::ExtJwtSigner, Id::new("idp"));
        auth.sessions().end_because(&ids[..TOLD as usize], &cause);
        auth.sessions().end_because(&ids[TOLD as usize..], &cause);
        for id in &ids[..2 * TOLD as usize] {
            let Event::ApiSession(event) = next(&mut listener).await else { panic!("{id}") };
            assert_eq!((event.change, &event.session), (SessionChange::Deleted, id));
        }
        let Event::ApiSessionsEnded(event) = next(&mut listener).await else { panic!() };
        assert_eq!((&event.cause, event.ended, event.told), (&cause, 9 * TOLD, TOLD));
        let counts = EndCounts { ended_together: 9 * TOLD, ..EndCounts::default() };
        assert_eq!(auth.sessions().end_counts(), counts);
    }

    #[tokio::test]
    async fn whoever_listens_hears_what_ended_while_the_controller_was_away() {
        let store = Arc::new(Memory::new());
        (0..3).for_each(|number| store.live().put(Entity::from(session(number))));
        let auth = auth_on(store);
        crate::housekeeping::begin(&auth);
        let mut listener = auth.kernel().events().listen();
        let Event::ApiSessionsEnded(event) = next(&mut listener).await else { panic!() };
        assert_eq!((&event.cause, event.ended, event.told), (&EndCause::Away, 3, 0));
        assert_eq!(auth.sessions().end_counts().ended_together, 3);
        // From now on, each end has its event.
        auth.sessions().open_signed(session(7), |_| true).unwrap();
        auth.sessions().end(&[session(7).base.id]);
        assert!(matches!(next(&mut listener).await, Event::ApiSession(_)));
    }
}
