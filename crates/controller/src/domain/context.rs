//! What an operation looks at: a snapshot, and what is beside it in memory.

use std::sync::{Arc, OnceLock};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use weft_auth::sessions::Sessions;
use weft_kernel::Caller;
use weft_kernel::online::Online;
use weft_kernel::view::View;
use weft_model::entity::{ApiSession, Enrollment};
use weft_model::{ColdField, Id, Kind, Snapshot, Timestamp};

use crate::Controller;

/// What a read sees: one snapshot, one moment, one caller.
#[derive(Clone)]
pub struct Context {
    controller: Controller,
    snapshot: Arc<Snapshot>,
    caller: Caller,
    now: Timestamp,
    /// Whether tickets are signed for what is shown.
    signs: bool,
    live: Arc<Live>,
}

/// What changes all the time, as it was when it was first looked at: a list that is filtered and
/// sorted by it has to find the same each time.
#[derive(Default)]
struct Live {
    /// The routers that are connected.
    routers: OnceLock<HashSet<Id>>,
    /// When API sessions were last used.
    activity: Mutex<HashMap<Id, Timestamp>>,
}

impl Context {
    pub(crate) fn new(controller: Controller, caller: Caller) -> Self {
        let snapshot = controller.snapshot();
        Self::at(controller, caller, snapshot)
    }

    /// The same at a snapshot that is not, or not yet, or not any more, what is published.
    pub(crate) fn at(controller: Controller, caller: Caller, snapshot: Arc<Snapshot>) -> Self {
        let now = controller.now();
        Self { controller, snapshot, caller, now, signs: true, live: Arc::default() }
    }

    /// The same for what shows no tickets: signing them would be most of the work.
    #[must_use]
    pub(crate) fn without_tickets(self) -> Self {
        Self { signs: false, ..self }
    }

    /// The snapshot.
    pub fn view(&self) -> View<'_> {
        View::of(&self.snapshot)
    }

    /// The same, to be kept.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Who asks.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// When.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Who is connected.
    pub fn online(&self) -> &Online {
        self.controller.online()
    }

    /// Whether a router is connected, the same for as long as this look lasts.
    pub fn is_online(&self, router: &Id) -> bool {
        let connected = || self.online().routers().into_iter().collect();
        self.live.routers.get_or_init(connected).contains(router)
    }

    /// Who is logged in with an opaque token.
    pub fn sessions(&self) -> &Sessions {
        self.controller.sessions()
    }

    /// When an API session was last used, the same for as long as this look lasts.
    pub(crate) fn last_activity(&self, session: &ApiSession) -> Timestamp {
        let mut known = self.live.activity.lock();
        let last = || self.sessions().last_activity(session);
        *known.entry(session.base.id.clone()).or_insert_with(last)
    }

    /// The controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// A cold field of an entity as text; empty if there is none. Waits for the disk if it has to
    /// be asked.
    pub fn cold_text(&self, kind: Kind, id: &Id, field: ColdField) -> String {
        let read = self.controller.settings().store.cold(kind, id, field);
        let value = read.unwrap_or_else(|error| {
            tracing::error!(%kind, %id, field = field.as_str(), %error, "a cold field is not there");
            None
        });
        value.map(|value| String::from_utf8_lossy(&value).into_owned()).unwrap_or_default()
    }

    /// The signed ticket of an enrollment, made when it is first looked at; nothing where tickets
    /// are not shown.
    pub fn jwt(&self, enrollment: &Enrollment) -> String {
        if self.signs { self.controller.enrollment_jwt(enrollment) } else { String::new() }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context({:?})", self.snapshot)
    }
}

impl Controller {
    /// What a read of a caller sees now.
    pub(crate) fn context(&self, caller: &Caller) -> Context {
        Context::new(self.clone(), caller.clone())
    }
}
