//! The changes from one snapshot to a later one, in an order in which each of them can be made.

use std::collections::BTreeSet;

use weft_model::{Change, Entity, Id, Kind, Snapshot};

/// The changes from one snapshot to a later one: puts first, then deletes, ordered so that no
/// entity refers to one that does not exist at that point.
pub(super) fn net(
    before: &Snapshot,
    after: &Snapshot,
    touched: &BTreeSet<(Kind, Id)>,
) -> Vec<Change> {
    let mut put = Vec::new();
    let mut deleted = Vec::new();
    for (kind, id) in touched {
        match (before.entity(*kind, id), after.entity(*kind, id)) {
            (None, None) => {}
            (Some(_), None) => deleted.push(Change::Delete(*kind, id.clone())),
            (Some(was), Some(is)) if was == is => {}
            (_, Some(is)) => put.push(Change::Put(Entity::clone(is))),
        }
    }
    put.sort_by_key(|change| rank(change.kind()));
    deleted.sort_by_key(|change| std::cmp::Reverse(rank(change.kind())));
    put.into_iter().chain(deleted).collect()
}

/// The place of a kind in an order in which kinds come before those that refer to them.
fn rank(kind: Kind) -> usize {
    const FIRST: &[Kind] = &[
        Kind::ConfigType,
        Kind::Config,
        Kind::Ca,
        Kind::ExtJwtSigner,
        Kind::AuthPolicy,
        Kind::PostureCheck,
        Kind::Service,
        Kind::Router,
        Kind::Identity,
    ];
    FIRST.iter().position(|first| *first == kind).unwrap_or(FIRST.len())
}
