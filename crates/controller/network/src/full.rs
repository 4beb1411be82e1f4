//! What one identity may fill in a controller: its terminators and its circuits.
//!
//! The controller's file says how much (`network.perIdentity`), and a tag of the identity says otherwise for that
//! identity. Only administrators write these tags (`weft_kernel::rank`).

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use weft_config::controller::PerIdentity;
use weft_limits::LogLines;
use weft_model::entity::Identity;
use weft_model::{Id, Snapshot};

use crate::clock;

/// What an identity fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedResource {
    /// Terminators that it hosts.
    Terminators,
    /// Circuits that it dials.
    Circuits,
}

/// An identity has as much of something as it may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "identity {name} ({identity}) has {most} {what}, as many as it may have; close some, or raise its limit with the \
     tag {} of the identity or {} in the controller's file",
    what.tag(), what.key()
)]
pub struct IsFull {
    /// What there is too much of.
    pub what: LimitedResource,
    /// The identity.
    pub identity: Id,
    /// Its name.
    pub name: String,
    /// The limit.
    pub most: u64,
}

impl Display for LimitedResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Terminators => "terminators",
            Self::Circuits => "circuits",
        })
    }
}

impl LimitedResource {
    /// The tag of an identity with its own limit.
    fn tag(self) -> &'static str {
        match self {
            Self::Terminators => Identity::MAX_TERMINATORS_TAG,
            Self::Circuits => Identity::MAX_CIRCUITS_TAG,
        }
    }

    /// The key of the controller's file with the limit of all other identities.
    fn key(self) -> &'static str {
        match self {
            Self::Terminators => "network.perIdentity.maxTerminators",
            Self::Circuits => "network.perIdentity.maxCircuits",
        }
    }

    /// The limit of an identity of this snapshot. A tag without a number has no effect.
    pub(crate) fn limit<'s>(
        self,
        snapshot: &'s Snapshot,
        id: &'s Id,
        usual: PerIdentity,
    ) -> Limit<'s> {
        let identity = snapshot.get::<Identity>(id).map(|identity| &**identity);
        Limit { what: self, id, identity, most: self.most(identity, usual) }
    }

    fn most(self, identity: Option<&Identity>, usual: PerIdentity) -> u64 {
        let own = identity.and_then(|identity| identity.limit_by_tag(self.tag()));
        own.unwrap_or_else(|| {
            u64::from(match self {
                Self::Terminators => usual.max_terminators,
                Self::Circuits => usual.max_circuits,
            })
        })
    }
}

/// How much of something an identity may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit<'s> {
    what: LimitedResource,
    id: &'s Id,
    identity: Option<&'s Identity>,
    /// The most that it may have.
    pub(crate) most: u64,
}

impl Limit<'_> {
    /// The refusal of one more.
    pub(crate) fn reached(&self) -> IsFull {
        let name = self.identity.map(|identity| identity.name.to_string()).unwrap_or_default();
        IsFull { what: self.what, identity: self.id.clone(), name, most: self.most }
    }
}

/// The refusals for these limits: counted, and named in the log.
#[derive(Debug)]
pub(crate) struct Full {
    terminators: Refused,
    circuits: Refused,
}

#[derive(Debug)]
struct Refused {
    lines: Mutex<LogLines>,
    count: AtomicU64,
}

impl Full {
    pub(crate) fn new(now: Instant) -> Self {
        let none = || Refused { lines: Mutex::new(LogLines::new(now)), count: AtomicU64::new(0) };
        Self { terminators: none(), circuits: none() }
    }

    fn of(&self, what: LimitedResource) -> &Refused {
        match what {
            LimitedResource::Terminators => &self.terminators,
            LimitedResource::Circuits => &self.circuits,
        }
    }

    /// Notes that one was refused. The log has a line unless it has many already.
    pub(crate) fn note(&self, what: LimitedResource, why: &dyn Display) {
        let refused = self.of(what);
        refused.count.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = refused.lines.lock().due(clock::now()) {
            tracing::warn!(
                "refused: {why} ({left_out} more refusals for limits on {what} since the last such line)"
            );
        }
    }

    /// How many were refused since the start.
    pub(crate) fn count(&self, what: LimitedResource) -> u64 {
        self.of(what).count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tag_with_a_number_says_how_much_an_identity_may_have() {
        let usual = PerIdentity { max_terminators: 3, max_circuits: 4 };
        let tagged = |tags: serde_json::Value| {
            let mut identity = Identity::default();
            identity.base.tags = tags.as_object().cloned().unwrap_or_default().into();
            [LimitedResource::Terminators, LimitedResource::Circuits]
                .map(|what| what.most(Some(&identity), usual))
        };
        let tags = json!({"weftMaxTerminators": 7, "weftMaxCircuits": " 8 "});
        assert_eq!(tagged(tags), [7, 8]);
        let tags = json!({"weftMaxTerminators": u64::MAX, "weftMaxCircuits": "99999999"});
        assert_eq!(tagged(tags), [1_000_000, 1_000_000], "values from before there was a bound");
        for without in [json!(-1), json!("many"), json!(null)] {
            let tags = json!({"weftMaxTerminators": without, "weftMaxCircuits": 1.5});
            assert_eq!(tagged(tags), [3, 4]);
        }
        assert_eq!(LimitedResource::Circuits.most(None, usual), 4);
    }
}
