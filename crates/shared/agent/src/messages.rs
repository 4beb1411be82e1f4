//! The messages of an agent's channel: content types, headers and bodies (docs/protocol/operations.md 7).

/// Content types.
pub mod content_type {
    /// A controller: write a snapshot of the database.
    pub const SNAPSHOT: i32 = 10070;
    /// A router: forget a link; debugging.
    pub const FORGET_LINK: i32 = 10071;
    /// A router: cut or restore a control channel; debugging.
    pub const TOGGLE_CONTROLLER: i32 = 10072;
    /// A router: add a route; debugging.
    pub const ROUTE: i32 = 10073;
    /// A router: its routes.
    pub const DUMP_ROUTES: i32 = 10074;
    /// A router: its links.
    pub const DUMP_LINKS: i32 = 10075;
    /// A router: remove a route; debugging.
    pub const UNROUTE: i32 = 10076;
    /// A router: its terminators are only used if there are no others.
    pub const QUIESCE: i32 = 10077;
    /// A router: the end of that.
    pub const DEQUIESCE: i32 = 10078;
    /// A router: it is deleted, and ends.
    pub const DECOMMISSION: i32 = 10079;
    /// A controller: the controllers of its network.
    pub const LIST_MEMBERS: i32 = 10080;
    /// The answer to [`LIST_MEMBERS`].
    pub const MEMBERS: i32 = 10081;
    /// A controller: add one.
    pub const ADD_MEMBER: i32 = 10082;
    /// A controller: remove one.
    pub const REMOVE_MEMBER: i32 = 10083;
    /// A controller: another one leads.
    pub const TRANSFER_LEADERSHIP: i32 = 10084;
    /// A controller: begin a network with a database.
    pub const BEGIN_WITH_DATABASE: i32 = 10085;
    /// A controller: make the administrator.
    pub const INIT: i32 = 10086;
    /// A controller: replace the network by that of a database.
    pub const RESTORE: i32 = 10087;
    /// The level of the log.
    pub const SET_LEVEL: i32 = 30000;
    /// The level of a part of the log.
    pub const SET_MODULE_LEVEL: i32 = 30001;
    /// The level of a part of the log is that of the log again.
    pub const CLEAR_MODULE_LEVEL: i32 = 30002;
}

/// Headers.
pub mod header {
    /// [`TOGGLE_CONTROLLER`](super::content_type::TOGGLE_CONTROLLER): whether the channel is to be there; bool.
    pub const IS_ON: i32 = 11;
    /// [`SNAPSHOT`](super::content_type::SNAPSHOT): the file; string.
    pub const FILE: i32 = 13;
    /// The name of a level; string.
    pub const LEVEL: i32 = 30100;
    /// The part of the log; string.
    pub const MODULE: i32 = 30101;
    /// In the answer to the hello: what the agent can do, a mask of bits, the highest byte first.
    pub const CAPABILITIES: i32 = 30102;
}

/// Body of [`INIT`](content_type::INIT).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InitRequest {
    /// The name with which the administrator logs in.
    #[prost(string, tag = "1")]
    pub username: String,
    /// The password.
    #[prost(string, tag = "2")]
    pub password: String,
    /// The name of the identity.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// A controller of a network.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListedMember {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Where routers reach it.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Whether it has a vote.
    #[prost(bool, tag = "3")]
    pub is_voter: bool,
    /// Whether it leads.
    #[prost(bool, tag = "4")]
    pub is_leader: bool,
    /// Its release.
    #[prost(string, tag = "5")]
    pub version: String,
    /// Whether it is there.
    #[prost(bool, tag = "6")]
    pub is_connected: bool,
    /// Whether it is to lead when it can.
    #[prost(bool, tag = "7")]
    pub is_preferred_leader: bool,
}

/// Body of [`MEMBERS`](content_type::MEMBERS).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberList {
    /// The controllers.
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<ListedMember>,
}
