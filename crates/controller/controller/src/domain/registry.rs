//! The handlers, by API and operation.

use hashbrown::HashMap;
use weft_auth::Auth;
use weft_contract::Api;
use weft_kernel::call::{OperationHandler, ReplyFuture};
use weft_kernel::{Call, Caller};

use crate::Controller;

/// A handler, by the part of the controller that it needs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyHandler {
    /// A handler that needs the whole controller.
    Whole(OperationHandler<Controller>),
    /// A handler that needs only the part for logins.
    Auth(OperationHandler<Auth>),
}

impl AnyHandler {
    /// Runs the handler.
    pub(crate) fn run(self, controller: &Controller, caller: Caller, call: Call) -> ReplyFuture {
        match self {
            Self::Whole(handler) => handler(controller.clone(), caller, call),
            Self::Auth(handler) => handler(Auth::clone(controller.auth()), caller, call),
        }
    }
}

/// The table of handlers.
#[derive(Debug)]
pub(crate) struct Registry(pub(crate) HashMap<(Api, &'static str), AnyHandler>);

impl Registry {
    /// Builds the table from the operations of resources and those of logins.
    pub(crate) fn of(
        whole: impl Iterator<Item = (Api, &'static str, OperationHandler<Controller>)>,
        of_auth: impl Iterator<Item = (Api, &'static str, OperationHandler<Auth>)>,
    ) -> Self {
        let whole = whole.map(|(api, id, handler)| ((api, id), AnyHandler::Whole(handler)));
        let of_auth = of_auth.map(|(api, id, handler)| ((api, id), AnyHandler::Auth(handler)));
        Self(whole.chain(of_auth).collect())
    }

    /// The handler of an operation.
    pub(crate) fn handler(&self, api: Api, operation: &str) -> Option<AnyHandler> {
        self.0.get(&(api, operation)).copied()
    }
}
