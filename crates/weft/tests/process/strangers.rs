//! Strangers and misbehaving peers: their cost, and that other clients notice nothing.
//!
//! A network runs normally; its doors are the controller's port for APIs and control plane, told
//! apart by ALPN, and the router's edge port. [`door`] connects to them with arbitrary bytes,
//! [`garbage`] makes invalid ones, [`witness`] is a client that must not notice anything.

mod door;
mod garbage;
mod witness;

mod bodies;
mod crowd;
mod half_open;
mod malformed;
mod malformed_control;
mod slow;
