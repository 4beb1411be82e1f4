//! The router: control, access, links, forwarder and bindings.
