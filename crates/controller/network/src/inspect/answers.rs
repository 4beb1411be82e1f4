//! What routers answer to an inspection, within bounds. An enrolled router may be hostile: what it answers holds up no
//! other work of the controller, and takes no place of another router's answer.

use serde_json::Value;
use weft_wire::ctrl::inspect_response::InspectValue;
use weft_wire::ctrl::{InspectRequest, InspectResponse};
use weft_wire::{Message, ProtoBody as _, fields};

/// Most values in one request, and in an answer.
pub(super) const MAX_VALUES: usize = 64;
/// Most bytes of a router's answer, and of one value.
const MAX_ANSWER: usize = 16 << 20;
const MAX_VALUE: usize = 8 << 20;
/// Most bytes of all answers. Each router has an equal share of them, if that is more than [`LEAST`].
const MAX_ANSWERS: usize = 64 << 20;
/// The share of a router where many are asked.
const LEAST: usize = 256 << 10;
/// Most errors of a router, and most bytes of one.
const MAX_ERRORS: usize = 100;
const MAX_ERROR: usize = 1_000;
/// Most memory of a value as JSON, in times the bytes of the value's share: lists of circuits take ten times theirs.
const MAX_GROWTH: usize = 16;
/// The memory of an object and of another part of a value, at most.
const OBJECT: usize = 512;
const PART: usize = 72;

/// The bytes that each of so many routers may answer.
pub(super) fn share(routers: usize) -> usize {
    (MAX_ANSWERS / routers.max(1)).clamp(LEAST, MAX_ANSWER)
}

/// A router's answer as it came.
#[derive(Debug)]
pub(super) struct Answer(Message);

/// The values of an answer that can be told, and the errors, those about values that cannot be told included.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) values: Vec<(String, Value)>,
    pub(super) errors: Vec<String>,
}

impl Answer {
    /// An answer that is within its share.
    pub(super) fn within(answer: Message, share: usize) -> Result<Self, String> {
        if answer.body.len() > share {
            return Err(format!(
                "the answer is left out: it has {} bytes, more than {share}; ask for fewer values or fewer routers",
                answer.body.len()
            ));
        }
        if !fields::are_at_most(&answer.body, MAX_VALUES + MAX_ERRORS) {
            return Err(format!(
                "the answer is left out: it has more than {MAX_VALUES} values or {MAX_ERRORS} errors"
            ));
        }
        Ok(Self(answer))
    }

    /// Reads the answer, which takes up to some tenths of a second. `Err` if nothing of it can be told.
    pub(super) fn read(self, share: usize) -> Result<(bool, Told), String> {
        let response = InspectResponse::from_message(&self.0);
        let response = response.map_err(|it| format!("the answer cannot be read: {it}"))?;
        let errors = response.errors.into_iter().map(|text| cut(&text).to_owned()).collect();
        let mut told = Told { errors, ..Told::default() };
        let mut room = share * MAX_GROWTH;
        for InspectValue { name, value } in response.values {
            match read(value, &mut room) {
                Ok(value) => told.values.push((name, value)),
                Err(problem) => told.errors.push(left_out(&name, &problem)),
            }
        }
        Ok((response.success, told))
    }
}

/// The error about a value that is not told.
pub(super) fn left_out(name: &str, problem: &str) -> String {
    format!("the value {} is left out: {problem}", cut(name))
}

/// The request for values.
pub(super) fn request(values: &[String]) -> Message {
    InspectRequest { requested_values: values.to_vec() }.to_message()
}

/// A value: JSON if it is an object or an array, otherwise a text. It takes its memory from the room that is left.
fn read(text: String, room: &mut usize) -> Result<Value, String> {
    if text.len() > MAX_VALUE {
        return Err(format!("it has {} bytes, more than {MAX_VALUE}", text.len()));
    }
    let is_json = text.starts_with(['{', '[']);
    let memory = if is_json { memory(&text) } else { text.len() };
    *room = room.checked_sub(memory).ok_or("it takes too much memory; ask for it by itself")?;
    if !is_json {
        return Ok(Value::String(text));
    }
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The memory that a text takes as JSON, at most.
fn memory(text: &str) -> usize {
    let parts = text.bytes().map(|byte| match byte {
        b'{' => OBJECT,
        b'[' | b',' => PART,
        _ => 0,
    });
    text.len() + parts.sum::<usize>()
}

/// The beginning of a text.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_ERROR)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Value, String> {
        super::read(text.to_owned(), &mut (LEAST * MAX_GROWTH))
    }

    fn answer(values: &[(&str, String)], errors: Vec<String>) -> Message {
        let values = values
            .iter()
            .map(|(name, value)| InspectValue { name: (*name).to_owned(), value: value.clone() });
        InspectResponse { success: true, errors, values: values.collect() }.to_message()
    }

    #[test]
    fn objects_are_json_and_the_rest_is_text() {
        assert_eq!(read("{\"a\":[1]}"), Ok(json!({"a": [1]})));
        for text in ["plain", "{not json", "[1,", "\"quoted\"", "7", ""] {
            assert_eq!(read(text), Ok(json!(text)));
        }
    }

    #[test]
    fn a_value_that_is_too_large_is_an_error_and_the_others_are_told() {
        let large = "x".repeat(MAX_VALUE + 1);
        let message = answer(&[("large", large), ("small", "7".into())], Vec::new());
        let read = Answer::within(message, share(1)).unwrap().read(share(1));
        let (_, told) = read.unwrap();
        assert_eq!(told.values, [("small".to_owned(), json!("7"))]);
        assert_eq!(told.errors.len(), 1);
        assert!(told.errors[0].starts_with("the value large is left out: it has 8388609 bytes"));
    }

    #[test]
    fn a_value_whose_parts_take_much_memory_is_an_error() {
        let bomb = format!("[{}{{}}]", "{\"\":0},".repeat(20_000));
        assert!(bomb.len() < share(1_000));
        let message = answer(&[("bomb", bomb), ("links", "{\"links\":[]}".into())], Vec::new());
        let read = Answer::within(message, share(1_000)).unwrap().read(share(1_000));
        let (_, told) = read.unwrap();
        assert_eq!(told.values, [("links".to_owned(), json!({"links": []}))]);
        assert!(told.errors[0].contains("too much memory"), "{:?}", told.errors);
    }

    #[test]
    fn an_answer_has_a_share_in_bytes_and_few_values_and_errors() {
        assert_eq!(
            (share(0), share(1), share(10), share(10_000)),
            (MAX_ANSWER, MAX_ANSWER, MAX_ANSWERS / 10, LEAST)
        );
        let message = answer(&[("a", "x".repeat(LEAST))], Vec::new());
        assert!(Answer::within(message, LEAST).unwrap_err().contains("fewer routers"));
        let message = answer(&[], vec![String::new(); 1_000]);
        assert!(Answer::within(message, LEAST).unwrap_err().contains("100 errors"));
        let message = answer(&[], vec!["\u{e4}".repeat(MAX_ERROR)]);
        let (_, told) = Answer::within(message, LEAST).unwrap().read(LEAST).unwrap();
        assert_eq!(told.errors[0].len(), MAX_ERROR);
    }
}
