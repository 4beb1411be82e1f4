//! Sessions that have ended lately, for parts of the controller that keep data of sessions and of their identities.

use weft_model::Id;

/// Most ended sessions that are named. If more end, whoever keeps data of sessions looks at all of it.
const MOST: usize = 65_536;

/// The sessions that have ended since they were last asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EndedSessions {
    /// API sessions, each with its identity, which may have another one.
    pub(crate) logins: Vec<(Id, Id)>,
    /// Service sessions.
    pub(crate) services: Vec<Id>,
    /// True if more sessions have ended than are named; none are named then.
    pub(crate) is_cut: bool,
}

impl EndedSessions {
    /// Notes the end of an API session of an identity.
    pub(super) fn login(&mut self, session: Id, identity: Id) {
        if self.makes_room() {
            self.logins.push((session, identity));
        }
    }

    /// Notes the end of a service session.
    pub(super) fn service(&mut self, session: Id) {
        if self.makes_room() {
            self.services.push(session);
        }
    }

    fn makes_room(&mut self) -> bool {
        if self.logins.len() + self.services.len() >= MOST {
            *self = Self { is_cut: true, ..Self::default() };
        }
        !self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_are_not_named() {
        let mut ended = EndedSessions::default();
        let id = |number: usize| Id::new(&format!("s{number}"));
        (0..MOST - 1).for_each(|number| ended.service(id(number)));
        ended.login(id(MOST), id(0));
        assert_eq!((ended.services.len(), ended.logins.len(), ended.is_cut), (MOST - 1, 1, false));
        (0..3).for_each(|number| ended.login(id(number), id(0)));
        assert_eq!(ended, EndedSessions { is_cut: true, ..EndedSessions::default() });
    }
}
