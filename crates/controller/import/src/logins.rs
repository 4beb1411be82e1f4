//! Who has to enter something when they log in again: API sessions of the original are not taken.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_bolt::{Bolt, BoltContent};
use weft_model::entity::{Authenticator, Identity};
use weft_model::{Id, Snapshot};

use crate::fields::{Value, value_of};
use crate::layout::ROOT;
use crate::{ImportError, MAX_LOSSES};

/// An identity whose login ends, and that has to enter something to log in again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoginAgain {
    /// Id of the identity.
    pub id: String,
    /// Name of the identity.
    pub name: String,
    /// True if it enters its password.
    pub password: bool,
    /// True if it enters a one-time code.
    pub code: bool,
}

/// The identities with API sessions that a password or a one-time code began.
pub(crate) fn logins(database: &Bolt, snapshot: &Snapshot) -> Result<Vec<LoginAgain>, ImportError> {
    let mut entered: BTreeMap<Id, (bool, bool)> = BTreeMap::new();
    let sessions = database.bucket(&[ROOT, b"apiSessions"])?;
    for entry in sessions.iter().flat_map(|bucket| bucket.entries()) {
        let BoltContent::Bucket(session) = entry?.content else { continue };
        let id = |field: &[u8]| -> Result<Option<Id>, ImportError> {
            let Some(Value::Text(text)) = session.value(field)?.as_ref().map(value_of) else {
                return Ok(None);
            };
            Ok(std::str::from_utf8(&text).ok().and_then(|text| Id::parse(text).ok()))
        };
        let (identity, authenticator) = (id(b"identity")?, id(b"authenticator")?);
        let code = session.value(b"mfaComplete")?.as_ref().map(value_of) == Some(Value::Flag(true));
        let password = authenticator.is_some_and(|id| {
            snapshot.get::<Authenticator>(&id).is_some_and(|it| it.updb.is_some())
        });
        let Some(identity) = identity.filter(|_| password || code) else { continue };
        if entered.len() < MAX_LOSSES || entered.contains_key(&identity) {
            let both = entered.entry(identity).or_default();
            *both = (both.0 || password, both.1 || code);
        }
    }
    let logins = entered.into_iter().filter_map(|(id, (password, code))| {
        let identity = snapshot.get::<Identity>(&id)?;
        let name = identity.name.to_string();
        Some(LoginAgain { id: id.to_string(), name, password, code })
    });
    Ok(logins.collect())
}
