//! Limits the sessions of an identity.

use weft_model::Id;
use weft_model::entity::ApiSession;

use super::Sessions;

/// API sessions of an identity with every factor; above that the one ends that was not used for the
/// longest time.
pub const PER_IDENTITY: usize = 256;
/// API sessions of an identity that lack a factor; above that one of them ends. They are apart from
/// the others: somebody who has only the first factor can end no session of the owner.
pub const INCOMPLETE: usize = 16;

impl Sessions {
    /// Ends sessions of an identity that has more than it may: those that were not used for the
    /// longest time, among the complete or the incomplete ones like the newest, which stays.
    pub fn make_room(&self, newest: &ApiSession, is_complete: impl Fn(&ApiSession) -> bool) {
        let is_whole = is_complete(newest);
        let most = if is_whole { PER_IDENTITY } else { INCOMPLETE };
        let surplus: Vec<Id> = {
            let tables = self.0.tables.read();
            let own = tables.of_identity(&newest.identity_id);
            if own.len() <= most {
                return;
            }
            let alike =
                own.iter().filter(|it| it.base.id != newest.base.id && is_complete(it) == is_whole);
            let mut alike: Vec<_> =
                alike.map(|it| (tables.last_activity(it), it.base.id.clone())).collect();
            alike.sort_unstable();
            let over = (alike.len() + 1).saturating_sub(most);
            alike.into_iter().take(over).map(|(_, id)| id).collect()
        };
        self.end(&surplus);
    }
}
