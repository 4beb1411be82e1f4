//! The fields of a protobuf body, looked at before they are decoded.
//!
//! A field takes a few bytes in a body and up to some hundred times as many in memory, so that the number of fields
//! has a limit beside that of the bytes.

/// The next field of a body: its number, and its content if it has a length. The cursor moves behind it.
///
/// `None` if the body is malformed.
pub(crate) fn next<'b>(body: &mut &'b [u8]) -> Option<(u64, Option<&'b [u8]>)> {
    let key = varint(body)?;
    let mut content = None;
    match key & 7 {
        0 => drop(varint(body)?),
        1 => *body = body.get(8..)?,
        2 => {
            let length = usize::try_from(varint(body)?).ok()?;
            let (field, rest) = body.split_at_checked(length)?;
            *body = rest;
            content = Some(field);
        }
        // A group, whose fields decoders skip: here they count like those around the group.
        3 | 4 => {}
        5 => *body = body.get(4..)?,
        _ => return None,
    }
    Some((key >> 3, content))
}

/// True if a body has at most so many fields with a length, not counting those inside of them. Of a malformed body,
/// which no decoder takes, the fields before the fault count.
pub fn are_at_most(mut body: &[u8], most: usize) -> bool {
    let mut count = 0;
    while !body.is_empty() && count <= most {
        match next(&mut body) {
            Some((_, content)) => count += usize::from(content.is_some()),
            None => break,
        }
    }
    count <= most
}

fn varint(body: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = body.split_first()?;
        *body = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProtoBody as _;
    use crate::ctrl::InspectResponse;

    #[test]
    fn fields_are_counted_up_to_a_limit() {
        let errors = vec![String::new(); 10];
        let body = InspectResponse { success: true, errors, values: Vec::new() }.to_body();
        assert!(are_at_most(&body, 10) && !are_at_most(&body, 9));
        assert!(are_at_most(&[], 0));
        assert!(are_at_most(&[0x12, 0x7f], 0), "it ends behind the body");
    }
}
