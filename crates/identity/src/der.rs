//! Elements of DER by their position, for parts whose bytes have to stay as they were written.

use x509_parser::asn1_rs::{Any, FromDer as _, Tag};

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
