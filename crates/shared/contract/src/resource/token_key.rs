//! The keys that sign tokens: weft's own operations (docs/protocol/auth.md 15.10).

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::body::{Body as _, body};
use crate::entity::detail;
use crate::operation::{Access, Operation, Request, Response, action, detail as get};
use crate::timestamp::Timestamp;
use crate::word::Word;

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    get("listTokenKeys", "/token-keys", Access::AdminOrReadOnly, "tokenKeys"),
    action("rollTokenKeys", "/token-keys/roll", Access::Admin)
        .request(Request::OptionalJson(RollBody::FIELDS))
        .answers(Response::Detail("tokenKeysRolled"))
        .statuses(&[200, 400, 401, 404, 429, 503]),
];

body! {
    /// How the next key follows.
    pub struct RollBody {
        /// The key that was stolen; by default the one that signs. Only with `stolen`.
        Optional key: String,
        /// Whether the key was stolen: it counts no more then, sessions with tokens of it end, and the next key signs at
        /// once.
        Optional stolen: bool,
    }
}

/// Where a key is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum KeyStage {
    /// The key is published, and signs nothing yet.
    #[default]
    Ahead,
    /// The key signs.
    Signing,
    /// The key verifies what it has signed.
    Former,
    /// The key counts no more: its last token has ended.
    Gone,
    /// The key counts no more: it was stolen.
    Stolen,
}

impl Word for KeyStage {}

detail! {
    /// The keys that sign tokens.
    pub struct TokenKeys {
        /// The keys: the signing one, the next one, former ones, those that count no more.
        pub keys: Vec<TokenKey>,
        /// The time at which the next key signs by the schedule.
        pub next_roll_at: Timestamp,
    }
}

detail! {
    /// A key that signs tokens.
    pub struct TokenKey {
        /// The name of the key, which is `kid` in the header of its tokens.
        pub id: String,
        /// The time since which the key is in this stage.
        pub since: Timestamp,
        /// Where the key is in its life.
        pub stage: KeyStage,
    }
}

detail! {
    /// What a roll changed.
    pub struct TokenKeysRolled {
        /// The keys that were dropped because they were stolen.
        pub dropped: Vec<String>,
        /// The number of API sessions that ended with them.
        pub ended_sessions: i64,
        /// The keys after the roll.
        pub keys: Vec<TokenKey>,
        /// The time at which the next key signs by the schedule.
        pub next_roll_at: Timestamp,
    }
}
