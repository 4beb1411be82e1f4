//! The input of an operation: a snapshot, and the tables in memory.

use std::sync::{Arc, OnceLock};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use weft_auth::posture::viewer::Viewer;
use weft_auth::sessions::Sessions;
use weft_kernel::Caller;
use weft_kernel::online::Online;
use weft_kernel::view::View;
use weft_model::entity::{ApiSession, Enrollment};
use weft_model::{Choice as _, ColdField, Id, Kind, Snapshot, Timestamp};

use crate::Controller;

/// The view of one read: a snapshot, a time and a caller.
#[derive(Clone)]
pub struct Context {
    controller: Controller,
    snapshot: Arc<Snapshot>,
    caller: Caller,
    now: Timestamp,
    /// Whether details contain signed tickets.
    signs: bool,
    live: Arc<Remembered>,
}

/// Values that change all the time, remembered at their first use: filter and sort of one list must
/// see the same value twice.
#[derive(Default)]
struct Remembered {
    /// The routers that are connected.
    routers: OnceLock<HashSet<Id>>,
    /// When each API session was last used.
    activity: Mutex<HashMap<Id, Timestamp>>,
    /// The caller, whose access to services is judged.
    viewer: OnceLock<Viewer>,
}

impl Context {
    pub(crate) fn new(controller: Controller, caller: Caller) -> Self {
        let snapshot = controller.kernel().snapshot();
        Self::at(controller, caller, snapshot)
    }

    /// The view of any snapshot, such as the result of a plan, which may never be published.
    pub(crate) fn at(controller: Controller, caller: Caller, snapshot: Arc<Snapshot>) -> Self {
        let now = controller.kernel().now();
        Self { controller, snapshot, caller, now, signs: true, live: Arc::default() }
    }

    /// A view whose details contain no tickets, because signing them would be most of the work.
    #[must_use]
    pub(crate) fn without_tickets(self) -> Self {
        Self { signs: false, ..self }
    }

    /// The snapshot, by reference.
    pub fn view(&self) -> View<'_> {
        View::of(&self.snapshot)
    }

    /// The snapshot, for keeping.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The caller of the operation.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The viewer that the caller is, with the posture data of its session; the same for the whole
    /// read, because a list shows thousands of services to it.
    pub(crate) fn viewer(&self) -> &Viewer {
        self.live.viewer.get_or_init(|| {
            let login = self.caller.login();
            let identity = login.map(|login| Id::new(&login.identity)).unwrap_or_default();
            let session = login.and_then(|login| self.sessions().by_id(&login.session.id));
            Viewer::new(self.controller.auth(), &identity, session.as_deref())
        })
    }

    /// The time of the read.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The table of connected identities and routers.
    pub fn online(&self) -> &Online {
        self.controller.kernel().online()
    }

    /// Whether a router is connected; the answer stays the same for this view.
    pub fn is_online(&self, router: &Id) -> bool {
        let connected = || self.online().routers().into_iter().collect();
        self.live.routers.get_or_init(connected).contains(router)
    }

    /// The API sessions with opaque tokens.
    pub fn sessions(&self) -> &Sessions {
        self.controller.auth().sessions()
    }

    /// When an API session was last used; the answer stays the same for this view.
    pub(crate) fn last_activity(&self, session: &ApiSession) -> Timestamp {
        let mut known = self.live.activity.lock();
        let last = || self.sessions().last_activity(session);
        *known.entry(session.base.id.clone()).or_insert_with(last)
    }

    /// The controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// A cold field of an entity as text; empty if the entity has none. Waits for the disk, unless
    /// the store has the field in memory.
    pub fn cold_text(&self, kind: Kind, id: &Id, field: ColdField) -> String {
        let read = self.controller.kernel().settings().store.cold(kind, id, field);
        let value = read.unwrap_or_else(|error| {
            tracing::error!(%kind, %id, field = field.as_str(), %error, "a field of an entity cannot be read from the store and is shown empty");
            None
        });
        value.map(|value| String::from_utf8_lossy(&value).into_owned()).unwrap_or_default()
    }

    /// The signed ticket of an enrollment, signed at its first use; empty if this view has no
    /// tickets.
    pub fn jwt(&self, enrollment: &Enrollment) -> String {
        if self.signs { self.controller.auth().enrollment_jwt(enrollment) } else { String::new() }
    }
}

impl Controller {
    /// The view of a read that the caller starts now.
    pub(crate) fn context(&self, caller: &Caller) -> Context {
        Context::new(self.clone(), caller.clone())
    }
}
