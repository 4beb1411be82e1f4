//! Why a router did not start.

use std::time::Duration;

use weft_channel::RegisterError;

/// Why a router did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The identity of the file cannot be used.
    #[error("{0}; a router gets its certificates by enrolling (`weft router enroll`)")]
    Identity(weft_identity::Error),
    /// The client certificate has no name.
    #[error(
        "the client certificate of the identity has no common name, which is the id of a router"
    )]
    Nameless,
    /// The certificate is not valid for an address that SDKs are told.
    #[error("invalid listeners.binding.advertise: {0}")]
    Advertise(weft_identity::Error),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(weft_identity::Error),
    /// A listener for SDKs could not be opened.
    #[error("error listening [edge]: {0}")]
    Listen(#[from] RegisterError),
    /// A listener for programs without an SDK could not be opened.
    #[error("error listening [{binding}]: cannot listen on {address}: {source}")]
    Ingress {
        /// The binding.
        binding: &'static str,
        /// The address in the file.
        address: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A listener for links could not be opened.
    #[error("error listening [link.listeners]: {0}")]
    Link(RegisterError),
    /// A listener for controllers could not be opened.
    #[error("error listening [ctrl.listeners]: {0}")]
    Ctrl(RegisterError),
    /// The tunneler cannot intercept traffic.
    #[error(
        "error listening [tunnel], mode tproxy: {0}; mode host only hosts and mode proxy offers \
         services at ports: neither needs a privilege"
    )]
    Tunnel(#[from] weft_tunnel::InterceptError),
    /// The proxy to the controller's API could not be started.
    #[error("error listening [edge.apiProxy.listener]: {0}")]
    ApiProxy(crate::api_proxy::ApiProxyError),
    /// The file for traced messages could not be opened.
    #[error("trace.path: {0}")]
    Trace(std::io::Error),
    /// A server of the section `web` could not be started.
    #[error(transparent)]
    Web(#[from] weft_web::StartError),
    /// No controller was reached in this time.
    #[error("unable to connect to any controllers before timeout ({0:?}, ctrl.startupTimeout)")]
    NoController(Duration),
}

impl StartError {
    /// True if the configuration file, or a file that it names, has to be changed before another
    /// start.
    #[must_use]
    pub fn is_of_the_file(&self) -> bool {
        !matches!(self, Self::NoController(_))
    }
}
