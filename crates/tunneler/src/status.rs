//! The present state of a tunneler, for operators and programs.

use serde::{Deserialize, Serialize};

use crate::Counters;

/// The state of a tunneler for one identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Name of the identity.
    pub identity: String,
    /// The names of connected routers.
    pub routers: Vec<String>,
    /// Its services, in the order of their names.
    pub services: Vec<ServiceStatus>,
}

/// The state of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// True if the identity may dial it.
    pub can_dial: bool,
    /// True if the identity may host it.
    pub can_bind: bool,
    /// True if its data is encrypted from end to end.
    pub encrypted: bool,
    /// Ports that lead to it.
    pub ports: Vec<PortStatus>,
    /// The addresses at which its clients are intercepted, `<protocol>:<address>:<ports>`.
    #[serde(default)]
    pub intercepted: Vec<String>,
    /// Problems of its interception.
    #[serde(default)]
    pub problems: Vec<String>,
    /// The terminators of this tunneler.
    pub hosting: Vec<HostingStatus>,
    /// Counts of connections to it.
    pub dialed: Counters,
    /// Counts of connections from it to applications of this machine.
    pub hosted: Counters,
}

/// A port that leads to a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortStatus {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The address that is listened on, if there is one.
    pub address: Option<String>,
    /// The reason, if there is none.
    pub problem: Option<String>,
}

/// The state of a terminator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostingStatus {
    /// The number of routers over which it can be dialed.
    pub terminators: usize,
    /// Its present cost.
    pub cost: u16,
    /// Its present precedence.
    pub precedence: String,
    /// Why it is not hosted.
    pub problem: Option<String>,
}
