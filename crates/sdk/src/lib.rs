//! Dial and bind services from a Rust program.
