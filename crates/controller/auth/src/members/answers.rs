//! The operations on the controllers of a network.

use std::collections::HashMap;

use weft_contract::resource::cluster::{
    ClusterController, ClusterDetail, ClusterUpgrade, ControllerJoin, EtcdMember, InvitationCreate,
};
use weft_contract::resource::fabric::cluster::{ClusterMember, MemberRemove};
use weft_contract::{Api, ErrorCode, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::entity::ControllerMember;
use weft_model::{Id, Kind};
use weft_store::{Alive, LogMember, Presence};

use crate::handle::Auth;

/// The operations.
pub const HANDLERS: &[HandlerRow<Auth>] = &[
    (Api::Weft, "detailCluster", &detail),
    (Api::Weft, "inviteController", &invite),
    (Api::Weft, "joinCluster", &join),
    (Api::Weft, "readmitController", &readmit),
    (Api::Weft, "upgradeCluster", &upgrade),
    (Api::Fabric, "clusterListMembers", &list),
    (Api::Fabric, "clusterMemberAdd", &add),
    (Api::Fabric, "clusterMemberRemove", &remove),
    (Api::Fabric, "clusterTransferLeadership", &transfer),
];

/// Refuses what only a controller that is one of several can do.
fn require_member(auth: &Auth) -> Result<()> {
    match auth.is_member() {
        true => Ok(()),
        false => Err(ErrorCode::ServerNotRunningInHaMode.into()),
    }
}

/// The controllers that are alive; this one alone if it shares nothing.
fn alive(auth: &Auth) -> Alive {
    let settings = auth.kernel().settings();
    match settings.store.alive() {
        Some(alive) => alive.borrow().clone(),
        None => Alive {
            controllers: vec![Presence::of_new_run(&settings.id, &settings.build.version)],
            is_heard: true,
            ..Alive::default()
        },
    }
}

async fn list(auth: Auth, _caller: Caller, _call: Call) -> Result<Reply> {
    Reply::whole_list(&members(&auth)?)
}

/// The controllers that are present.
///
/// # Errors
/// If there is only one, which shares nothing.
pub fn members(auth: &Auth) -> Result<Vec<ClusterMember>> {
    require_member(auth)?;
    let alive = alive(auth);
    let known: HashMap<&str, &Presence> =
        alive.controllers.iter().map(|it| (it.name.as_str(), it)).collect();
    let leader = auth.leader(&alive).map(|leader| leader.name.as_str());
    let snapshot = auth.kernel().snapshot();
    let members = snapshot.list::<ControllerMember>().filter(|member| member.is_present());
    let members = members.map(|member| {
        let id = member.base.id.as_str();
        let presence = known.get(id);
        ClusterMember {
            address: member.ctrl_addresses.first().cloned().unwrap_or_default(),
            connected: presence.is_some(),
            id: id.to_owned(),
            leader: leader == Some(id),
            preferred_leader: None,
            read_only: false,
            version: presence.map(|it| it.version.clone()).unwrap_or_default(),
            voter: true,
        }
    });
    Ok(members.collect())
}

async fn add(auth: Auth, _caller: Caller, _call: Call) -> Result<Reply> {
    require_member(&auth)?;
    let how = "controllers of weft join by themselves: `weft cluster invite NAME` prints what `weft controller join` needs";
    Err(Failure::because(ErrorCode::CouldNotValidate, how))
}

async fn remove(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    // Of a network that has gone back into a file, what is left of its controllers can be removed, too.
    if auth.kernel().snapshot().table(Kind::ControllerMember).is_empty() {
        require_member(&auth)?;
    }
    let body: MemberRemove = call.decode(Verb::Create)?;
    let id = body.id.unwrap_or_default();
    auth.remove_member(&caller, Id::new(&id)).await?;
    tracing::warn!(controller = id, "the controller was removed from the network");
    Reply::empty()
}

async fn readmit(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: InvitationCreate = call.decode(Verb::Create)?;
    let name = body.name.unwrap_or_default();
    auth.readmit_member(&caller, Id::new(&name)).await?;
    tracing::warn!(controller = name, "the controller, which was removed, may come back");
    Reply::empty()
}

async fn upgrade(auth: Auth, caller: Caller, _call: Call) -> Result<Reply> {
    let [former, format] = auth.upgrade(&caller).await?;
    Reply::detail(&ClusterUpgrade { format: format.into(), former: former.into() })
}

async fn transfer(auth: Auth, _caller: Caller, _call: Call) -> Result<Reply> {
    require_member(&auth)?;
    let how = "the controller that has been alive for the longest time leads, and every controller takes changes: restart \
               the leader, and another one leads";
    Err(Failure::because(ErrorCode::TransferLeadershipError, how))
}

async fn detail(auth: Auth, _caller: Caller, _call: Call) -> Result<Reply> {
    let store = &auth.kernel().settings().store;
    let etcd = store.log_members().await.into_iter().map(shown_etcd).collect();
    let standing = store.standing();
    let (network_key, awaited) = auth.network_key_standing(&auth.kernel().snapshot());
    Reply::detail(&ClusterDetail {
        controllers: controllers(&auth),
        etcd,
        format: store.formats()[0].into(),
        lag: number(standing.lag),
        network_key: i64::from(network_key),
        network_key_waits_for: awaited,
        obstacle: standing.obstacle,
        revision: number(auth.kernel().snapshot().revision().0),
    })
}

fn controllers(auth: &Auth) -> Vec<ClusterController> {
    let alive = alive(auth);
    let snapshot = auth.kernel().snapshot();
    let others = snapshot.list::<ControllerMember>().map(|it| (**it).clone());
    let mut all: Vec<_> = others.chain((!auth.is_member()).then(|| auth.own_member())).collect();
    all.sort_unstable_by(|one, other| one.base.id.cmp(&other.base.id));
    let leader = auth.leader(&alive).map(|leader| leader.name.clone());
    let shown = |member: ControllerMember| {
        let id = member.base.id.to_string();
        let presence = alive.controllers.iter().find(|it| it.name == id);
        ClusterController {
            address: member.ctrl_addresses.first().cloned().unwrap_or_default(),
            clock_ahead_millis: presence.and_then(|it| alive.clocks.of(it.run)),
            is_leader: leader.as_ref() == Some(&id),
            is_online: id == auth.kernel().settings().id || auth.is_alive(&member.base.id, &alive),
            joined_at: convert::time(member.joined_at),
            left_at: member.left_at.map(convert::time),
            reads: member.reads.into(),
            removed: member.is_removed,
            revision: number(presence.map_or(0, |it| it.revision.0)),
            version: presence.map(|it| it.version.clone()).unwrap_or_default(),
            id,
        }
    };
    all.into_iter().map(shown).collect()
}

fn shown_etcd(member: LogMember) -> EtcdMember {
    EtcdMember {
        address: member.address,
        bytes_in_use: number(member.bytes_in_use),
        error: member.error,
        file_bytes: number(member.file_bytes),
        is_leader: member.is_leader,
        round_trip_micros: number(member.round_trip.as_micros().try_into().unwrap_or(u64::MAX)),
        version: member.version,
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

async fn invite(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: InvitationCreate = call.decode(Verb::Create)?;
    Reply::detail(&auth.invite(&caller, &body.name.unwrap_or_default())?)
}

async fn join(auth: Auth, _caller: Caller, call: Call) -> Result<Reply> {
    let body: ControllerJoin = call.decode(Verb::Create)?;
    Reply::detail(&auth.welcome(body).await?)
}
