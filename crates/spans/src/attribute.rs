//! Names under which something is said of spans: those of OpenTelemetry's semantic conventions
//! where there is one, else `weft.*`.

/// Class of an error, as far as there are classes (OpenTelemetry).
pub const ERROR_TYPE: &str = "error.type";
/// Id of a service.
pub const SERVICE_ID: &str = "weft.service.id";
/// Name of a service.
pub const SERVICE_NAME: &str = "weft.service.name";
/// Instance of the service that was asked for.
pub const INSTANCE: &str = "weft.service.instance";
/// Id of a circuit.
pub const CIRCUIT_ID: &str = "weft.circuit.id";
/// Id of a router.
pub const ROUTER_ID: &str = "weft.router.id";
/// Name of a router.
pub const ROUTER_NAME: &str = "weft.router.name";
/// Binding of the router at which a dial began: `edge`, `tunnel`, `transport`.
pub const LISTENER: &str = "weft.router.binding";
/// Id of a controller.
pub const CONTROLLER_ID: &str = "weft.controller.id";
/// Id of the identity that dials.
pub const IDENTITY_ID: &str = "weft.identity.id";
/// Id of a terminator.
pub const TERMINATOR_ID: &str = "weft.terminator.id";
/// What dials a terminator: `edge`, `transport`, ...
pub const BINDING: &str = "weft.terminator.binding";
/// What is dialed: the id of a terminator, or an address.
pub const DESTINATION: &str = "weft.terminator.address";
/// Routers that a circuit goes over, in their order.
pub const PATH: &str = "weft.path";
/// What a path costs.
pub const PATH_COST: &str = "weft.path.cost";
/// Number of an attempt, from 1.
pub const ATTEMPT: &str = "weft.attempt";
/// How many attempts there were.
pub const ATTEMPTS: &str = "weft.attempts";
/// Number of an error on the edge protocol.
pub const ERROR_CODE: &str = "weft.error.code";
