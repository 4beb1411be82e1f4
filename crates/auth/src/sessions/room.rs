//! Limits the sessions of an identity.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use weft_limits::source_of;
use weft_model::entity::ApiSession;
use weft_model::{Id, Timestamp};

use super::Sessions;

/// API sessions with every factor that an identity may always have.
pub const PER_IDENTITY: usize = 256;
/// API sessions of all identities above which an identity may have no more than [`PER_IDENTITY`].
const MANY: usize = 200_000;
/// The sessions that may be kept, divided by this number, end together with one that has no room: not every login of
/// an identity with thousands of sessions looks at all of them.
const ENDED_TOGETHER: usize = 64;
/// API sessions of an identity that lack a factor, from one source; above that the source's oldest one ends. They are
/// apart from the others, and those of each source apart from those of others: somebody who has only the first factor
/// can end no session of the owner, nor the owner's login before its last factor.
pub const INCOMPLETE: usize = 16;
/// API sessions of an identity that lack a factor, from all sources; above that one of the source with most of them ends.
pub const INCOMPLETE_IN_ALL: usize = 256;

/// A session by its last use: its order among those that may end.
type Used = (Timestamp, Id);

impl Sessions {
    /// Ends sessions of an identity that has more than it may: among the complete ones those that were not used for the
    /// longest time, or among the incomplete ones those of the same source, or of the source with most of them. The
    /// newest one stays.
    pub fn make_room(&self, newest: &ApiSession, is_complete: impl Fn(&ApiSession) -> bool) {
        let is_whole = is_complete(newest);
        let surplus: Vec<Id> = {
            let tables = self.0.tables.read();
            let most = match is_whole {
                true if tables.api.len() > MANY => PER_IDENTITY,
                true => self.0.per_identity.max(PER_IDENTITY),
                false => INCOMPLETE,
            };
            if tables.api.count_referrers(0, &newest.identity_id) <= most as u64 {
                return;
            }
            let own = tables.of_identity(&newest.identity_id);
            let alike =
                own.iter().filter(|it| it.base.id != newest.base.id && is_complete(it) == is_whole);
            let used = |it: &Arc<ApiSession>| (tables.last_activity(it), it.base.id.clone());
            if is_whole {
                unused(alike.map(used).collect(), most)
            } else {
                crowded(alike.map(|it| (source(it), used(it))), source(newest))
            }
        };
        self.end(&surplus);
    }
}

/// Of the complete sessions beside the newest, those that end.
fn unused(mut alike: Vec<Used>, most: usize) -> Vec<Id> {
    if alike.len() < most {
        return Vec::new();
    }
    alike.sort_unstable();
    let kept = most - 1 - most / ENDED_TOGETHER;
    let over = alike.len().saturating_sub(kept);
    alike.into_iter().take(over).map(|(_, id)| id).collect()
}

/// The source of a session; none if its client has no address.
fn source(session: &ApiSession) -> Option<IpAddr> {
    session.ip_address.parse().ok().map(source_of)
}

/// Of the incomplete sessions beside the newest, which is of `source`, those that end.
fn crowded(alike: impl Iterator<Item = (Option<IpAddr>, Used)>, source: Option<IpAddr>) -> Vec<Id> {
    let mut sources: BTreeMap<Option<IpAddr>, BTreeSet<Used>> = BTreeMap::new();
    let mut left = 0;
    for (source, used) in alike {
        left += usize::from(sources.entry(source).or_default().insert(used));
    }
    let mut ended = Vec::new();
    let own = sources.entry(source).or_default();
    while own.len() >= INCOMPLETE
        && let Some((_, id)) = own.pop_first()
    {
        ended.push(id);
        left -= 1;
    }
    while left >= INCOMPLETE_IN_ALL {
        // Of sources with as many, the one whose session was not used for the longest time.
        let most =
            sources.values_mut().max_by_key(|own| (own.len(), Reverse(own.first().cloned())));
        let Some((_, id)) = most.and_then(BTreeSet::pop_first) else { break };
        ended.push(id);
        left -= 1;
    }
    ended
}
