//! The headers of hellos between routers and controllers.

use prost::Message as _;

use super::{CtrlChanListeners, Listeners};
use crate::capability::{Capabilities, router_capability};
use crate::headers::Headers;
use crate::hello::{self, Hello, HelloResult};
use crate::proto::DEFAULT_MAX_BODY;
use crate::version::VersionInfo;

/// Link listeners of a 2.x router.
const LISTENERS: i32 = 1000;
/// Capability mask of either side.
const CAPABILITIES: i32 = 1002;
/// Listeners of a router for controllers.
const CTRL_CHAN_LISTENERS: i32 = 1003;
/// Link listeners of a 1.x router; the group secret in a grouped hello.
const OLD_LISTENERS: i32 = 10;
/// Capability mask of a controller, for 1.x routers.
const OLD_CAPABILITIES: i32 = 12;

/// The hello of a router to a controller (docs/protocol/control-plane.md 2.1). The router's id is
/// the token of the hello.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RouterHello {
    /// Its version; controllers refuse a router without one.
    pub version: Option<VersionInfo>,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its listeners for links.
    pub listeners: Listeners,
    /// Its listeners for controllers.
    pub ctrl_chan_listeners: CtrlChanListeners,
}

impl RouterHello {
    /// Reads the hello of a router that dialled.
    pub fn from_hello(hello: &Hello) -> Self {
        Self::from_headers(&hello.headers, hello.is_grouped())
    }

    /// Reads the answer of a router that was dialled.
    pub fn from_result(result: &HelloResult) -> Self {
        let grouped = result.headers.get_bool(hello::header::IS_GROUPED) == Some(true);
        Self::from_headers(&result.headers, grouped)
    }

    /// Malformed listeners count as none.
    fn from_headers(headers: &Headers, grouped: bool) -> Self {
        let capabilities = capabilities(headers, grouped);
        let listeners = if capabilities.has(router_capability::MULTI_CHANNEL) {
            decode(headers, LISTENERS)
        } else if grouped {
            None
        } else {
            decode(headers, OLD_LISTENERS)
        };
        Self {
            version: version(headers),
            capabilities,
            listeners: listeners.unwrap_or_default(),
            ctrl_chan_listeners: decode(headers, CTRL_CHAN_LISTENERS).unwrap_or_default(),
        }
    }

    /// Writes the headers of a 2.x router.
    pub fn write(&self, headers: &mut Headers) {
        if let Some(version) = &self.version {
            headers.set_str(hello::header::HELLO_VERSION, &version.to_header());
        }
        headers.set(CAPABILITIES, &self.capabilities.to_wire());
        if !self.listeners.listeners.is_empty() {
            headers.set(LISTENERS, &self.listeners.encode_to_vec());
        }
        if !self.ctrl_chan_listeners.listeners.is_empty() {
            headers.set(CTRL_CHAN_LISTENERS, &self.ctrl_chan_listeners.encode_to_vec());
        }
    }
}

/// The hello of a controller to a router. The controller's id is the listener id of the result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ControllerHello {
    /// Its version.
    pub version: Option<VersionInfo>,
    /// Its capabilities.
    pub capabilities: Capabilities,
}

impl ControllerHello {
    /// Reads the answer of a controller that was dialled.
    pub fn from_result(result: &HelloResult) -> Self {
        let headers = &result.headers;
        Self { version: version(headers), capabilities: capabilities(headers, false) }
    }

    /// Reads the hello of a controller that dialled.
    pub fn from_hello(hello: &Hello) -> Self {
        let headers = &hello.headers;
        Self { version: version(headers), capabilities: capabilities(headers, false) }
    }

    /// Writes the headers, with the capability mask for routers of both generations.
    pub fn write(&self, headers: &mut Headers) {
        if let Some(version) = &self.version {
            headers.set_str(hello::header::HELLO_VERSION, &version.to_header());
        }
        let mask = self.capabilities.to_wire();
        headers.set(CAPABILITIES, &mask).set(OLD_CAPABILITIES, &mask);
    }
}

fn version(headers: &Headers) -> Option<VersionInfo> {
    headers.get_str(hello::header::HELLO_VERSION).and_then(VersionInfo::from_header)
}

/// The capability mask under its own key, or else under the old key, which in a grouped hello means
/// something else.
fn capabilities(headers: &Headers, grouped: bool) -> Capabilities {
    let old = || headers.get(OLD_CAPABILITIES).filter(|_| !grouped);
    headers.get(CAPABILITIES).or_else(old).map(Capabilities::from_wire).unwrap_or_default()
}

fn decode<T: prost::Message + Default>(headers: &Headers, key: i32) -> Option<T> {
    let value = headers.get(key).filter(|value| value.len() <= DEFAULT_MAX_BODY)?;
    T::decode(value).ok()
}
