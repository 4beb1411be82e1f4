//! What a tunneler does now, for people and programs that ask.

use serde::{Deserialize, Serialize};

use crate::Counters;

/// What a tunneler does for one identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Name of the identity.
    pub identity: String,
    /// Routers that are connected.
    pub routers: Vec<String>,
    /// Its services, by name.
    pub services: Vec<ServiceStatus>,
}

/// What is done for one service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// Whether the identity may dial it.
    pub can_dial: bool,
    /// Whether the identity may host it.
    pub can_bind: bool,
    /// Whether its data is encrypted from end to end.
    pub encrypted: bool,
    /// Ports that lead to it.
    pub ports: Vec<PortStatus>,
    /// Where its clients are taken in on their way, `<protocol>:<address>:<ports>`.
    #[serde(default)]
    pub intercepted: Vec<String>,
    /// What of that does not work.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Terminators that are hosted.
    pub hosting: Vec<HostingStatus>,
    /// What was carried to it.
    pub dialed: Counters,
    /// What was carried to applications here.
    pub hosted: Counters,
}

/// A port that leads to a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortStatus {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Where it listens, if it does.
    pub address: Option<String>,
    /// Why it does not.
    pub problem: Option<String>,
}

/// A terminator that is hosted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostingStatus {
    /// Routers over which it can be dialed.
    pub terminators: usize,
    /// Its cost now.
    pub cost: u16,
    /// Its precedence now.
    pub precedence: String,
    /// Why it is not hosted.
    pub problem: Option<String>,
}
