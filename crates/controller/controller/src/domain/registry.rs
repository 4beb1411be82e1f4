//! The handlers, by API and operation.

use hashbrown::HashMap;
use weft_auth::Auth;
use weft_contract::Api;
use weft_kernel::call::{HandlerRow, OperationHandler, ReplyFuture};
use weft_kernel::{Call, Caller};

use crate::Controller;

/// A handler, by the part of the controller that it needs.
#[derive(Clone, Copy)]
pub(crate) enum AnyHandler {
    /// A handler that needs the whole controller.
    Whole(&'static dyn OperationHandler<Controller>),
    /// A handler that needs only the part for logins.
    Auth(&'static dyn OperationHandler<Auth>),
}

impl AnyHandler {
    /// Runs the handler.
    pub(crate) fn run(self, controller: &Controller, caller: Caller, call: Call) -> ReplyFuture {
        match self {
            Self::Whole(handler) => handler.run(controller.clone(), caller, call),
            Self::Auth(handler) => handler.run(Auth::clone(controller.auth()), caller, call),
        }
    }
}

/// The table of handlers.
pub(crate) struct Registry(pub(crate) HashMap<(Api, &'static str), AnyHandler>);

impl Registry {
    /// Builds the table from the operations of resources and those of logins.
    pub(crate) fn of(
        whole: impl Iterator<Item = HandlerRow<Controller>>,
        of_auth: impl Iterator<Item = HandlerRow<Auth>>,
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
