//! The resources, a file per subject.

pub(crate) mod advice;
pub(crate) mod api_session;
pub(crate) mod attributes;
pub(crate) mod auth_policy;
pub(crate) mod authenticator;
pub(crate) mod ca;
pub(crate) mod config;
pub(crate) mod config_type;
pub(crate) mod controller_setting;
pub(crate) mod database;
pub(crate) mod edge_router;
pub(crate) mod enrollment;
pub(crate) mod external_jwt_signer;
pub(crate) mod fabric;
pub(crate) mod fixed;
pub(crate) mod identity;
pub(crate) mod identity_state;
pub(crate) mod nested;
pub(crate) mod overrides;
pub(crate) mod policies;
pub(crate) mod posture_check;
pub(crate) mod posture_data;
pub(crate) mod revocation;
pub(crate) mod role_usage;
pub(crate) mod router;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod spec;
pub(crate) mod terminator;
pub(crate) mod trace;
pub(crate) mod why_path;

#[cfg(test)]
mod tests;
