//! Files for a start: commented configurations, as `weft quickstart` writes them. They are text, so
//! that people can read them; tests check that they parse to the given values.

mod controller;
mod router;

pub use controller::{ClusterTemplate, ControllerTemplate};
pub use router::{RouterTemplate, TunnelerMode};

/// A string in double quotes for YAML. A dollar sign would be read as a variable; callers keep it
/// out of paths.
#[must_use]
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 || u32::from(c) == 0x7f => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c if (0x80..0xa0).contains(&u32::from(c))
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') =>
            {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
