//! Reading and writing PEM text.
//!
//! Reading is lenient: blocks of other kinds and blocks that do not decode are skipped
//! (docs/protocol/config.md 2.2).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::{PemObject as _, SectionKind};

use crate::text::without_mark;

/// Columns of a line of base64 text.
const LINE: usize = 64;

/// DER as one PEM block with a final newline.
#[must_use]
pub fn encode(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = String::with_capacity(text.len() + text.len() / LINE + 2 * label.len() + 40);
    out.push_str("-----BEGIN ");
    out.push_str(label);
    out.push_str("-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(LINE));
        out.push_str(line);
        out.push('\n');
        rest = tail;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}

/// The DER of every block of one kind, in order.
pub(crate) fn blocks(text: &[u8], wanted: SectionKind) -> Vec<Vec<u8>> {
    let text = plain(text);
    sections(&text).filter(|(kind, _)| *kind == wanted).map(|(_, der)| der).collect()
}

/// The first private key of the text; other blocks before it are skipped.
pub(crate) fn first_key(text: &[u8]) -> Option<PrivateKeyDer<'static>> {
    let text = plain(text);
    sections(&text).find_map(|(kind, der)| PrivateKeyDer::from_pem(kind, der))
}

/// The text without a byte order mark. Lines that are no PEM may be of any character set.
fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    without_mark(text).unwrap_or(Cow::Borrowed(text))
}

fn sections(text: &[u8]) -> impl Iterator<Item = (SectionKind, Vec<u8>)> + '_ {
    // A block that does not decode is an `Err` item, after which the iterator goes on.
    <(SectionKind, Vec<u8>)>::pem_slice_iter(text).filter_map(std::result::Result::ok)
}
