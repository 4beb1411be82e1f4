//! Who is not known, or does not behave: what that costs, and that nobody else notices.
//!
//! A network runs as it does for anybody; here are its doors: the port of controller's APIs and
//! control plane, told apart by the protocol that TLS agrees on, and the router's edge port.
//! [`door`] is a way to them that says whatever bytes a test likes, [`garbage`] what nobody should
//! say, [`witness`] somebody who must not notice.

mod door;
mod garbage;
mod witness;

mod bodies;
mod crowd;
mod half_open;
mod malformed;
mod malformed_control;
mod slow;
