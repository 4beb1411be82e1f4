//! Revocations: tokens that are refused although they have not expired
//! (docs/protocol/auth.md 16; docs/protocol/management-api.md 7.8).

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::body::Body;
use crate::collection;
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::Operation;
use crate::paths::Api;
use crate::timestamp::Timestamp;
use crate::word::Word;

/// The collection in paths and references.
pub const COLLECTION: &str = "revocations";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::REVOCATIONS.list("listRevocations"),
    collection::REVOCATIONS
        .create::<RevocationBody>("createRevocation")
        .statuses(&[201, 400, 401, 404, 429, 503]),
    collection::REVOCATIONS.get("detailRevocation"),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "revocation",
    plural: COLLECTION,
    aliases: &[],
    about: "a token, session or identity whose tokens are refused",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: RevocationBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "TYPE", pointer: "/type" },
        Column { title: "EXPIRES", pointer: "/expiresAt" },
    ],
    ..Kind::PLAIN
};

/// The kind of thing that the id of a revocation names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum RevocationType {
    /// One token; the id is the `jti` of the token.
    #[default]
    Jti,
    /// All tokens of an identity that were issued until now; the id is that of the identity.
    Identity,
    /// All tokens of an API session; the id is that of the session.
    ApiSession,
}

impl Word for RevocationType {}

members! {
    /// The members of a revocation that callers set.
    body RevocationBody;
    /// A revocation: tokens that are refused before they expire.
    detail RevocationDetail with Base;

    /// The time at which every token that the revocation covers has expired.
    Shown expires_at: Timestamp;
    /// The id of the token (its `jti`), API session or identity. The ids of tokens and API sessions
    /// are UUIDs.
    Create id: String;
    /// Labels of the revocation.
    Optional tags: Tags;
    /// The kind of thing that the id names: a token, an identity or an API session.
    Create "type" revocation_type: RevocationType;
    /// The kind of thing that the id names: a token, an identity or an API session.
    Shown r#type: RevocationType;
}
