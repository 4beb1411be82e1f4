//! Circuit data: an end reads the data that was written, and a forwarder sees the same circuit.
#![cfg_attr(fuzzing, no_main)]

use arbitrary::{Arbitrary as _, Unstructured};
use weft_wire::frame::{Decoder, MAGIC};
use weft_wire::payload::{Ack, CircuitControl, NOT_FORWARDED, Payload, PayloadView};
use weft_wire::{FrameLimits, Message};

/// Headers of payloads, acks and controls, and some without a meaning in them.
const KEYS: [i32; 16] =
    [2256, 2257, 2258, 2259, 2260, 2261, 20, 21, 22, 23, 24, 25, 2000, 2001, 1000, 5];

/// The content type, some headers, and the body.
type Input = (u8, Vec<(u16, Vec<u8>)>, Vec<u8>);

fn target(bytes: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let (kind, headers, body) = input;
    let mut framed = MAGIC.to_vec();
    let mut head = Vec::new();
    for (key, value) in &headers {
        head.extend_from_slice(&(KEYS[usize::from(*key) % KEYS.len()]).to_le_bytes());
        head.extend_from_slice(&(value.len() as u32).to_le_bytes());
        head.extend_from_slice(value);
    }
    for number in [1100 + i32::from(kind % 4), 7, head.len() as i32, body.len() as i32] {
        framed.extend_from_slice(&number.to_le_bytes());
    }
    let framed = [framed, head, body].concat();
    let limits = FrameLimits::new(4096, 65536);
    let Ok(Some(mut message)) = Decoder::new(limits).decode(&mut &framed[..]) else { return };
    let payload = Payload::from_message(&message).ok();
    let ack = Ack::from_message(&message).ok();
    let control = CircuitControl::from_message(&message).ok();
    if let Ok(view) = PayloadView::of(&message) {
        let circuit = view.circuit_id.to_owned();
        assert!(control.as_ref().is_none_or(|control| control.circuit_id == circuit));
        message.headers.remove_all(&NOT_FORWARDED);
        assert_eq!(
            PayloadView::of(&message).map(|view| (view.circuit_id.to_owned(), view.strip)),
            Ok((circuit, false))
        );
    }
    if let Some(mut payload) = payload {
        let _ = (payload.capabilities(), payload.edge_flags());
        let again: Message = payload.clone().into_message("c");
        // Of a header that occurs twice the last one counts, and only the last one is written.
        let all = payload.headers.clone();
        let is_last = |at: usize| all[at + 1..].iter().all(|(key, _)| *key != all[at].0);
        payload.headers =
            (0..all.len()).filter(|at| is_last(*at)).map(|at| all[at].clone()).collect();
        assert_eq!(Payload::from_message(&again), Ok(payload));
    }
    if let Some(ack) = ack {
        assert_eq!(Ack::from_message(&ack.clone().into_message("c")), Ok(ack));
    }
    if let Some(control) = control {
        assert_eq!(CircuitControl::from_message(&control.to_message()), Ok(control));
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    weft_fuzz::replay(target)
}
