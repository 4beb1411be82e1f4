//! The present state of a tunneler, for operators and programs.

use serde::{Deserialize, Serialize};

use crate::Counters;

/// The state of a tunneler for one identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Name of the identity; the path of its file while no login has succeeded.
    pub identity: String,
    /// Why the services may be others than those that the controller has now, or why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The names of connected routers.
    pub routers: Vec<String>,
    /// Services of the identity, in the order of their names.
    pub services: Vec<ServiceStatus>,
}

/// The state of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Name of the service.
    pub name: String,
    /// True if the identity may dial the service.
    pub can_dial: bool,
    /// True if the identity may host the service.
    pub can_bind: bool,
    /// True if data of the service is encrypted from end to end.
    pub encrypted: bool,
    /// Why clients cannot use the service, if its name was given to the tunneler and the identity has no
    /// such service, or may not dial it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Ports that lead to the service.
    pub ports: Vec<PortStatus>,
    /// The addresses at which clients of the service are intercepted, `<protocol>:<address>:<ports>`,
    /// for instance `tcp:10.0.0.1:80`. Behind the first 16, one entry says how many more there are.
    #[serde(default)]
    pub intercepted: Vec<String>,
    /// Problems of the interception of the service.
    #[serde(default)]
    pub problems: Vec<String>,
    /// The terminators of the service at this tunneler; one with the reason if a service that the identity may
    /// host is not hosted at all.
    pub hosting: Vec<HostingStatus>,
    /// Counts of connections that clients made to the service.
    pub dialed: Counters,
    /// Counts of connections that dialers made to applications over this tunneler.
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
    /// Why no address is listened on, if none is.
    pub problem: Option<String>,
}

/// The state of a terminator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostingStatus {
    /// The number of routers over which the terminator can be dialed.
    pub terminators: usize,
    /// Present cost.
    pub cost: u16,
    /// Present precedence: `required`, `default` or `failed`.
    pub precedence: String,
    /// Why the terminator can be dialed over no router.
    pub problem: Option<String>,
    /// Why the last dialer did not reach the application; absent once one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
