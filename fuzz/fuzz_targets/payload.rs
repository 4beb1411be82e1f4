//! Circuit data: what an end reads is what it wrote, and a forwarder sees the same circuit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::frame::Decoder;
use weft_wire::payload::{Ack, Control, NOT_FORWARDED, Payload, View};
use weft_wire::{FrameLimits, Message};

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (kind, bytes) = input;
    let mut framed = weft_wire::frame::MAGIC.to_vec();
    framed.extend_from_slice(&(1100 + i32::from(kind % 4)).to_le_bytes());
    framed.extend_from_slice(&bytes);
    let limits = FrameLimits::new(4096, 65536);
    let Ok(Some(mut message)) = Decoder::new(limits).decode(&mut &framed[..]) else { return };
    let payload = Payload::from_message(&message).ok();
    let ack = Ack::from_message(&message).ok();
    let control = Control::from_message(&message).ok();
    if let Ok(view) = View::of(&message) {
        let circuit = view.circuit_id.to_owned();
        assert!(payload.as_ref().is_none_or(|payload| payload.circuit_id == circuit));
        assert!(ack.as_ref().is_none_or(|ack| ack.circuit_id == circuit));
        assert!(control.as_ref().is_none_or(|control| control.circuit_id == circuit));
        message.headers.remove_all(&NOT_FORWARDED);
        assert_eq!(
            View::of(&message).map(|view| (view.circuit_id.to_owned(), view.strip)),
            Ok((circuit, false))
        );
    }
    if let Some(payload) = payload {
        let _ = (payload.capabilities(), payload.edge_flags());
        let again: Message = payload.to_message();
        assert_eq!(Payload::from_message(&again).map(|p| p.sequence), Ok(payload.sequence));
    }
    if let Some(ack) = ack {
        assert_eq!(Ack::from_message(&ack.to_message()), Ok(ack));
    }
    if let Some(control) = control {
        assert_eq!(Control::from_message(&control.to_message()), Ok(control));
    }
});
