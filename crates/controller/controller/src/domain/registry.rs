//! The handlers, by API and operation.

use hashbrown::HashMap;
use weft_auth::Auth;
use weft_contract::Api;
use weft_kernel::call::{Answer, Handler};
use weft_kernel::{Call, Caller};

use crate::Controller;

/// A handler, by the part of the controller that it needs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answers {
    /// A handler that needs the whole controller.
    Whole(Handler<Controller>),
    /// A handler that needs only the part for logins.
    Auth(Handler<Auth>),
}

impl Answers {
    /// Runs the handler.
    pub(crate) fn answer(self, controller: &Controller, caller: Caller, call: Call) -> Answer {
        match self {
            Self::Whole(handler) => handler(controller.clone(), caller, call),
            Self::Auth(handler) => handler(Auth::clone(controller.auth()), caller, call),
        }
    }
}

/// The table of handlers.
#[derive(Debug)]
pub(crate) struct Registry(pub(crate) HashMap<(Api, &'static str), Answers>);

impl Registry {
    /// Builds the table from the operations of resources and those of logins.
    pub(crate) fn of(
        whole: impl Iterator<Item = (Api, &'static str, Handler<Controller>)>,
        of_auth: impl Iterator<Item = (Api, &'static str, Handler<Auth>)>,
    ) -> Self {
        let whole = whole.map(|(api, id, handler)| ((api, id), Answers::Whole(handler)));
        let of_auth = of_auth.map(|(api, id, handler)| ((api, id), Answers::Auth(handler)));
        Self(whole.chain(of_auth).collect())
    }

    /// The handler of an operation.
    pub(crate) fn handler(&self, api: Api, operation: &str) -> Option<Answers> {
        self.0.get(&(api, operation)).copied()
    }
}
