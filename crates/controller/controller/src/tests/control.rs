//! A router made by hand against a controller in memory.

mod behind;
mod bindings;
mod carried;
mod circuits;
mod claimed;
mod connecting;
mod demand;
mod dialer;
mod ended;
mod gate;
mod limits;
mod lying_routers;
mod mesh;
mod model;
mod moves;
mod operate;
mod paths;
mod renewal;
mod reports;
mod rolled;
mod sdk;
mod sessions;
mod spans;
mod support;
mod terminators;
mod why_path;
