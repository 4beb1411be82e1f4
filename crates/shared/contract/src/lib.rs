//! The HTTP APIs as types and tables, from which the server serves and the client calls.
//!
//! ```text
//!  members! ──> body, detail ──┐              ┌──> server: routes, access, statuses
//!  Operation: a row ───────────┴──> tables ───┼──> clients and commands: calls, flags
//!                                             └──> openapi: descriptions of the APIs
//! ```
//!
//! This crate does no I/O, and knows neither an HTTP library nor the model. The server (`weft-api`)
//! reads the tables to build its routes, the other side (`weft-client`, the commands) to make its
//! calls; both share the types of the bodies. The values that are exchanged:
//!
//! - [`paths`]: which API a request path belongs to, and its older spellings;
//! - [`operation`]: one row per operation: id, method, path, access, bodies, statuses;
//! - [`resource`]: the rows, the bodies and the [`Kind`] of every resource, a file each;
//! - [`body`]: how a request body is described, decoded and checked;
//! - [`schema`]: descriptions of answers; [`shape`]: shapes of members of bodies and answers;
//! - [`openapi`]: the descriptions of the APIs, made of all that;
//! - [`entity`], [`envelope`], [`error`]: the common parts of answers;
//! - [`word`]: enumerations whose values are words; [`permission`], [`headers`]: names;
//! - [`yaml`]: values as YAML text.
//!
//! A new resource is a new file in [`resource`] and a line in its tables.
//!
//! ```
//! use weft_contract::paths::{Api, dispatch};
//!
//! let bound = [Api::Management, Api::Client];
//! let management = dispatch("/edge/management/v1/services", &bound);
//! assert_eq!(management, Some((Api::Management, "/services")));
//! // A spelling of older clients.
//! assert_eq!(dispatch("/edge/v1/sessions", &bound), Some((Api::Client, "/sessions")));
//! ```

pub mod body;
mod collection;
pub mod defaults;
pub mod entity;
pub mod envelope;
pub mod error;
mod filter;
pub mod headers;
pub mod json;
pub mod kind;
mod members;
pub mod openapi;
pub mod operation;
pub mod paths;
pub mod permission;
pub mod resource;
pub mod schema;
pub mod shape;
pub mod timestamp;
pub mod word;
pub mod yaml;

pub use body::{Body, BodyError};
pub use entity::{Base, EntityRef, Link, Links, NamedRole};
pub use envelope::{Created, Empty, Envelope, Meta, Pagination};
pub use error::{Cause, ErrorBody, ErrorCode, ErrorEnvelope};
pub use filter::filter_text;
pub use json::{JsonMap, ListOrNull, TagValue, Tags};
pub use kind::Kind;
pub use operation::{Access, Load, Method, Operation, Request, Response};
pub use paths::Api;
pub use permission::{Action, Permission, Subject};
pub use shape::{Field, FieldType, Need, Verb};
pub use timestamp::Timestamp;
pub use word::Word;
