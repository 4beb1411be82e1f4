//! The other controllers, as the inspection `connected-peers` shows them (docs/protocol/operations.md 3).

use serde_json::{Value, json};
use weft_model::entity::ControllerMember;

use crate::plane::Plane;

impl Plane {
    /// The members of the network, and the channels between this controller and each. `hasToldAll` is weft's own: whether
    /// the controller has told this one the posture data that it knew.
    pub(super) fn connected_peers(&self) -> Value {
        let settings = self.auth.kernel().settings();
        let snapshot = self.auth.kernel().snapshot();
        let leader = self.auth.leader_name();
        let state = self.controllers.state.lock();
        let shown = |member: &ControllerMember| {
            let id = &member.base.id;
            let is_self = id.as_str() == settings.id;
            let dialed = state.dialed.get(id);
            let accepted = state.accepted.iter().filter(|it| it.controller == *id);
            let own = is_self.then(|| self.version().version);
            json!({
                "id": id.as_str(),
                "addr": member.ctrl_addresses.first().map_or("", String::as_str),
                "isVoter": true,
                "isLeader": leader.as_deref() == Some(id.as_str()),
                "version": own.or_else(|| Some(dialed?.version.clone())).unwrap_or_default(),
                "isConnected": is_self || dialed.is_some(),
                "isPreferredLeader": false,
                "isSelf": is_self,
                "raftConnCount": usize::from(dialed.is_some()) + accepted.clone().count(),
                "hasToldAll": is_self || accepted.clone().any(|it| it.has_told_all),
            })
        };
        let members = snapshot.list::<ControllerMember>().filter(|it| it.is_present());
        let mut members: Vec<_> = members.collect();
        members.sort_unstable_by(|one, other| one.base.id.cmp(&other.base.id));
        members.into_iter().map(|member| shown(member)).collect()
    }
}
