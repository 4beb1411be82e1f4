//! The configs of services that tunnelers read (docs/protocol/tunnel.md 3).
//!
//! An error about a config names the member that is wrong. Unknown members are ignored: the schema
//! of the config's type has judged them.

mod check;
mod host;
mod intercept;
mod interfaces;
mod part;
mod proxy;
mod remarks;
mod sources;
mod written;

pub use self::check::{CheckAction, CheckProbe, Effect, HttpCheck, TerminatorCheck, Trigger};
pub(crate) use self::host::CONNECT_TIMEOUT;
pub use self::host::{HostConfig, MOST_CONNECT_TIME};
pub use self::intercept::{Intercept, InterceptAddress};
pub use self::part::PortRange;
pub use self::proxy::{ListenAt, ProxyPort};
pub use self::remarks::remarks;
pub use self::sources::Sources;
pub use self::written::{ConfigError, Configs};

/// The config types for tunnelers, to be asked for at a controller.
pub const TYPES: [&str; 7] = [
    intercept::INTERCEPT_V1,
    intercept::CLIENT_V1,
    host::HOST_V1,
    host::HOST_V2,
    host::SERVER_V1,
    proxy::PROXY_V1,
    interfaces::INTERFACES_V1,
];

/// The config types with addresses at which clients are intercepted.
#[cfg(target_os = "linux")]
pub(crate) const INTERCEPTING: [&str; 3] =
    [intercept::INTERCEPT_V1, intercept::CLIENT_V1, interfaces::INTERFACES_V1];
#[cfg(target_os = "linux")]
pub(crate) use self::interfaces::interfaces;
