//! Limits the sessions of an identity.

use weft_model::Id;
use weft_model::entity::ApiSession;

use super::Sessions;

/// API sessions with every factor that an identity may always have.
pub const PER_IDENTITY: usize = 256;
/// API sessions of all identities above which an identity may have no more than [`PER_IDENTITY`].
const MANY: usize = 200_000;
/// The sessions that may be kept, divided by this number, end together with one that has no room: not every login of
/// an identity with thousands of sessions looks at all of them.
const ENDED_TOGETHER: usize = 64;
/// API sessions of an identity that lack a factor; above that one of them ends. They are apart from
/// the others: somebody who has only the first factor can end no session of the owner.
pub const INCOMPLETE: usize = 16;

impl Sessions {
    /// Ends sessions of an identity that has more than it may: those that were not used for the
    /// longest time, among the complete or the incomplete ones like the newest, which stays.
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
            let mut alike: Vec<_> =
                alike.map(|it| (tables.last_activity(it), it.base.id.clone())).collect();
            if alike.len() < most {
                return;
            }
            alike.sort_unstable();
            let kept = most - 1 - most / ENDED_TOGETHER;
            let over = alike.len().saturating_sub(kept);
            alike.into_iter().take(over).map(|(_, id)| id).collect()
        };
        self.end(&surplus);
    }
}
