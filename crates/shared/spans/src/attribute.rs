//! Names of span attributes: those of OpenTelemetry's semantic conventions where there is one,
//! otherwise `weft.*`.

/// Class of an error, by OpenTelemetry's convention.
pub const ERROR_TYPE: &str = "error.type";
/// Id of a service.
pub const SERVICE_ID: &str = "weft.service.id";
/// Name of a service.
pub const SERVICE_NAME: &str = "weft.service.name";
/// Instance of the service that the dial asks for.
pub const INSTANCE: &str = "weft.service.instance";
/// Id of a circuit.
pub const CIRCUIT_ID: &str = "weft.circuit.id";
/// Id of a router.
pub const ROUTER_ID: &str = "weft.router.id";
/// Binding of the router at which a dial began: `edge`, `tunnel`, `transport`.
pub const LISTENER: &str = "weft.router.binding";
/// Id of a controller.
pub const CONTROLLER_ID: &str = "weft.controller.id";
/// Id of the identity that dials.
pub const IDENTITY_ID: &str = "weft.identity.id";
/// Id of a terminator.
pub const TERMINATOR_ID: &str = "weft.terminator.id";
/// Binding of a terminator: `edge`, `transport`, ...
pub const BINDING: &str = "weft.terminator.binding";
/// Destination of a dial: the id of a terminator, or an address.
pub const DESTINATION: &str = "weft.terminator.address";
/// Ids of the routers on a circuit's path, in order.
pub const PATH: &str = "weft.path";
/// Cost of a path.
pub const PATH_COST: &str = "weft.path.cost";
/// Number of an attempt, from 1.
pub const ATTEMPT: &str = "weft.attempt";
/// Number of attempts.
pub const ATTEMPTS: &str = "weft.attempts";
/// Error code of the edge protocol.
pub const ERROR_CODE: &str = "weft.error.code";
