//! Texts of files as programs save them: UTF-8, with or without a byte order mark before it, or UTF-16 with
//! one, as some programs for Windows write it.

use std::borrow::Cow;

use crate::error::{Error, Result};

/// The mark as a character.
pub const BYTE_ORDER_MARK: char = '\u{feff}';

/// A text as UTF-8 without a byte order mark.
///
/// # Errors
/// When the bytes are neither UTF-8 nor UTF-16 with a mark.
pub fn text_of(bytes: Vec<u8>) -> Result<String> {
    let wrong = |reason: String| Error::Document { what: "text", reason };
    let plain = match without_mark(&bytes)? {
        Cow::Borrowed(rest) if rest.len() == bytes.len() => String::from_utf8(bytes),
        rest => String::from_utf8(rest.into_owned()),
    };
    plain.map_err(|error| {
        let good = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = 1 + good.filter(|byte| **byte == b'\n').count();
        wrong(format!("line {line} is not UTF-8: save the file as UTF-8"))
    })
}

/// The bytes of a text in UTF-8, without the mark, if they begin with a mark; all of the bytes otherwise.
///
/// # Errors
/// When the bytes begin with a mark of UTF-16, and are not UTF-16.
pub(crate) fn without_mark(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    let wide = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let (units, []) = rest.as_chunks::<2>() else { return Err(not_utf16()) };
        let text = char::decode_utf16(units.iter().copied().map(unit));
        let text: String = text.collect::<Result<_, _>>().map_err(|_| not_utf16())?;
        Ok(Cow::Owned(text.into_bytes()))
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => Ok(Cow::Borrowed(rest)),
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        all => Ok(Cow::Borrowed(all)),
    }
}

fn not_utf16() -> Error {
    let reason = "it begins like UTF-16 and is none: save the file as UTF-8".to_owned();
    Error::Document { what: "text", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_saved() {
        let wide = |text: &str, unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(unit).collect()
        };
        let text = "a: Zoë 😀\r\n";
        let marked = format!("{BYTE_ORDER_MARK}{text}");
        for (bytes, wanted) in [
            (text.as_bytes().to_vec(), Some(text)),
            (marked.as_bytes().to_vec(), Some(text)),
            (wide(&marked, u16::to_le_bytes), Some(text)),
            (wide(&marked, u16::to_be_bytes), Some(text)),
            (Vec::new(), Some("")),
            (b"\xef\xbb\xbf".to_vec(), Some("")),
            (b"\xff\xfe".to_vec(), Some("")),
            // Half of a unit, half of a pair, and Latin-1.
            (b"\xff\xfea".to_vec(), None),
            (b"\xff\xfe\x3d\xd8a\0".to_vec(), None),
            (b"a: Zo\xeb\n".to_vec(), None),
            (b"\xef\xbb\xbfZo\xeb\n".to_vec(), None),
        ] {
            assert_eq!(text_of(bytes.clone()).ok().as_deref(), wanted, "{bytes:x?}");
        }
        let error = text_of(b"a\nb\xeb\n".to_vec()).unwrap_err().to_string();
        assert!(error.contains("line 2 is not UTF-8"), "{error}");
    }
}
