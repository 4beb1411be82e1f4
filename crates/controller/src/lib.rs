//! The controller without HTTP: domain, authentication, network and control plane.
