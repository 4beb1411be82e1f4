//! Elements of DER by their position, for parts whose bytes have to stay as they were written, and the check that bytes
//! are DER at all: parsers that stop at what they do not expect, or take lengths in several forms, would let one
//! certificate say two things.

use x509_parser::asn1_rs::{Any, FromDer as _, Tag};

/// Most elements of a certificate or a request, without what its extensions have inside; usual ones have some 100.
const MAX_ELEMENTS: usize = 4096;
/// Most elements that are inside each other.
const MAX_DEPTH: usize = 24;

/// Checks that `bytes` are one element of DER: each length is written in as few bytes as possible, and what consists of
/// elements does so to its end. Values are not looked at.
pub(crate) fn check(bytes: &[u8]) -> Result<(), &'static str> {
    let mut left = MAX_ELEMENTS;
    match check_one(bytes, MAX_DEPTH, &mut left)? {
        [] => Ok(()),
        _ => Err("bytes behind its end"),
    }
}

/// Checks the first element, and returns what is behind it.
fn check_one<'a>(
    bytes: &'a [u8],
    depth: usize,
    left: &mut usize,
) -> Result<&'a [u8], &'static str> {
    *left = left.checked_sub(1).ok_or("too many elements")?;
    let (&tag, bytes) = bytes.split_first().ok_or("an element without a tag")?;
    if tag & 0x1f == 0x1f {
        return Err("a tag above 30");
    }
    let (&first, bytes) = bytes.split_first().ok_or("an element without a length")?;
    let (length, bytes) = match first {
        0..=0x7f => (usize::from(first), bytes),
        0x81..=0x84 => {
            let (written, bytes) =
                bytes.split_at_checked(usize::from(first & 0x7f)).ok_or("a length that is cut")?;
            let length = written.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            let shortest = if written.len() == 1 { 0x80 } else { 1 << (8 * (written.len() - 1)) };
            if length < shortest {
                return Err("a length that could be shorter");
            }
            (length, bytes)
        }
        _ => return Err("a length of another form"),
    };
    let (mut contents, rest) = bytes.split_at_checked(length).ok_or("an element that is cut")?;
    if tag & 0x20 != 0 {
        let depth = depth.checked_sub(1).ok_or("too many elements inside each other")?;
        while !contents.is_empty() {
            contents = check_one(contents, depth, left)?;
        }
    }
    Ok(rest)
}

/// An element.
pub(crate) struct Element<'a> {
    /// The whole element: tag, length and contents.
    pub(crate) raw: &'a [u8],
    /// Tag and contents.
    pub(crate) any: Any<'a>,
}

impl<'a> Element<'a> {
    /// The one element that `bytes` is.
    pub(crate) fn only(bytes: &'a [u8]) -> Option<Self> {
        match Any::from_der(bytes).ok()? {
            ([], any) => Some(Self { raw: bytes, any }),
            _ => None,
        }
    }

    /// The elements inside.
    pub(crate) fn children(&self) -> Option<Vec<Element<'a>>> {
        let mut bytes = self.any.data;
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let (rest, any) = Any::from_der(bytes).ok()?;
            let raw = bytes.get(..bytes.len() - rest.len())?;
            out.push(Element { raw, any });
            bytes = rest;
        }
        Some(out)
    }

    /// The contents of a sequence.
    pub(crate) fn sequence(&self) -> Option<&'a [u8]> {
        (self.any.tag() == Tag::Sequence).then_some(self.any.data)
    }

    /// The bytes of a bit string that has whole bytes.
    pub(crate) fn bits(&self) -> Option<&'a [u8]> {
        match self.any.data {
            [0, bits @ ..] if self.any.tag() == Tag::BitString => Some(bits),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_distinguished_form_is_taken() {
        let long = |head: &[u8], length: usize| [head, &vec![1; length]].concat();
        let table: [(Vec<u8>, Result<(), &str>); 16] = [
            (vec![0x05, 0x00], Ok(())),
            (vec![0x30, 0x03, 0x02, 0x01, 0x01], Ok(())),
            (long(&[0x04, 0x81, 0x80], 0x80), Ok(())),
            (long(&[0x04, 0x82, 0x01, 0x00], 0x100), Ok(())),
            (vec![], Err("an element without a tag")),
            (vec![0x05], Err("an element without a length")),
            (vec![0x05, 0x00, 0x00], Err("bytes behind its end")),
            (vec![0x04, 0x02, 0x01], Err("an element that is cut")),
            (vec![0x30, 0x04, 0x02, 0x02, 0x01, 0x01], Ok(())),
            (vec![0x30, 0x04, 0x02, 0x01, 0x01, 0x05], Err("an element without a length")),
            (vec![0x30, 0x03, 0x02, 0x02, 0x01], Err("an element that is cut")),
            (long(&[0x04, 0x81, 0x7f], 0x7f), Err("a length that could be shorter")),
            (long(&[0x04, 0x82, 0x00, 0x80], 0x80), Err("a length that could be shorter")),
            (vec![0x30, 0x80, 0x00, 0x00], Err("a length of another form")),
            (vec![0x04, 0x85, 0, 0, 0, 0, 1, 1], Err("a length of another form")),
            (vec![0x1f, 0x01, 0x00], Err("a tag above 30")),
        ];
        for (bytes, wanted) in table {
            assert_eq!(check(&bytes), wanted, "{bytes:02x?}");
        }
    }

    #[test]
    fn elements_have_a_number_and_a_depth() {
        let wrapped = |inner: Vec<u8>| {
            let length = u16::try_from(inner.len()).unwrap().to_be_bytes();
            [&[0x30, 0x82][..], &length, &inner].concat()
        };
        let nulls = |count: usize| wrapped([5, 0].repeat(count));
        assert_eq!(check(&nulls(MAX_ELEMENTS - 1)), Ok(()));
        assert_eq!(check(&nulls(MAX_ELEMENTS)), Err("too many elements"));
        let deep = |depth: u8| {
            (1..depth).fold(vec![0x30, 0], |inner, _| {
                [vec![0x30, u8::try_from(inner.len()).unwrap()], inner].concat()
            })
        };
        assert_eq!(check(&deep(MAX_DEPTH as u8)), Ok(()));
        assert_eq!(check(&deep(MAX_DEPTH as u8 + 1)), Err("too many elements inside each other"));
    }
}
