//! A zero-trust overlay network: controller, router and the operator's commands.

fn main() {}
