//! The web server and the REST APIs over the controller.
//!
//! [`ApiServer::start`] opens the bind points of the `web` section and answers what arrives there
//! by [`Controller::call`](weft_controller::Controller::call). The way of a request:
//!
//! ```text
//! socket -> TLS (by ALPN)        -> weft-channel's shared listener: deadline, caps
//!        -> connection           -> HTTP/1.1 or HTTP/2, deadlines for head, idleness and writing
//!        -> exchange             -> CORS, which API, which operation, body within its limit
//!        -> controller           -> who asks (session, certificate), gate, operation
//!        -> answer               -> envelope, headers
//! ```
//!
//! Single page applications are served from the disk beside them (`files`), and what clients take
//! in a compressed form is compressed (`compress`).
//!
//! Routes, paths, access and media types come from the tables of `weft-contract`; nothing here
//! knows a single resource. What a peer can cost before it has shown who it is is bounded by
//! [`Limits`]: connections and requests in all and per source address, bytes of bodies, and time.

mod accept;
mod answer;
mod body;
mod compress;
mod cors;
mod description;
mod encoder;
mod encodings;
mod exchange;
mod files;
mod health;
mod kept;
mod limits;
mod metrics;
mod paths;
mod routes;
mod server;
mod site;
mod texts;
mod urls;

pub use limits::Limits;
pub use server::{ApiServer, Setup};
pub use urls::base_urls;
pub use weft_web::StartError;

#[cfg(test)]
mod tests;
