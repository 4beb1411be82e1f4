//! The first bytes of a connection, as a listener and as a dialer read them.
#![cfg_attr(fuzzing, no_main)]

use weft_wire::frame::Decoder;
use weft_wire::hello::{Hello, HelloResult, negotiation};
use weft_wire::{Capabilities, FrameLimits, VersionInfo};

fn target(bytes: &[u8]) {
    let _ = negotiation::decode(bytes);
    let Ok(Some(message)) = Decoder::new(FrameLimits::HELLO).decode(&mut &bytes[..]) else {
        return;
    };
    for (_, value) in &message.headers {
        let _ = Capabilities::from_wire(value);
        if let Ok(text) = std::str::from_utf8(value) {
            let _ = VersionInfo::from_header(text).map(|info| info.release());
            let _ = VersionInfo::from_json(text);
        }
    }
    if let Ok(result) = HelloResult::from_message(message.clone(), -1) {
        let _ = (result.connection_id(), result.group_secret(), result.reject_class());
    }
    if let Ok(hello) = Hello::from_message(message) {
        let _ = (hello.is_first(), hello.connection_id(), hello.group_secret());
        let again = Hello::from_message(hello.to_message());
        assert!(again.is_ok());
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    weft_fuzz::replay(target)
}
