//! The identity of the caller (docs/protocol/auth.md 17.4).

use std::collections::BTreeMap;

use weft_auth::current::login_of;
use weft_contract::Api;
use weft_contract::entity::Link;
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Reply, Result};

use super::identity::Identities;
use crate::Controller;
use crate::domain::resource::{Readable, require};

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "getCurrentIdentity", &identity),
    (Api::Client, "getCurrentIdentity", &identity),
];

async fn identity(controller: Controller, caller: Caller, _call: Call) -> Result<Reply> {
    let login = login_of(&caller)?;
    let context = controller.context(&caller);
    let record = require::<Identities>(context.view(), &login.identity)?;
    let mut detail = Identities::detail(&context, record);
    detail.base.links = BTreeMap::from([
        ("self".to_owned(), Link::to("current-identity")),
        ("mfa".to_owned(), Link::to("current-identity/mfa")),
    ]);
    Reply::detail(&detail)
}
