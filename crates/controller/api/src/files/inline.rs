//! The scripts that stand in a page itself: inline scripts, and event handlers in attributes. A content security policy
//! allows each by the hash of its text.
//!
//! The page is one of the operator's files. This reading is simpler than a browser's: a script may be left out, which the
//! browser then does not run, and text of the page that a browser takes for no script may get a hash.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// Elements whose contents are text up to their end tag.
const RAW: [&str; 5] = ["script", "style", "textarea", "title", "xmp"];

/// Longest character reference that is read, in bytes.
const MAX_REFERENCE: usize = 16;

/// Sources for `script-src`, `'sha256-...'`, one for each script and handler of a page.
pub(super) fn hashes(page: &str) -> BTreeSet<String> {
    // Browsers read line ends so, before anything else.
    let page = page.replace("\r\n", "\n").replace('\r', "\n");
    let mut found = BTreeSet::new();
    let mut rest = page.as_str();
    while let Some((_, after)) = rest.split_once('<') {
        rest = after;
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
        } else if rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            rest = element(rest, &mut found);
        }
    }
    found
}

/// Reads a start tag and, if its contents are text, these up to the end tag. Returns the rest of the page.
fn element<'p>(tag: &'p str, found: &mut BTreeSet<String>) -> &'p str {
    let end = tag.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>'));
    let (name, mut rest) = tag.split_at(end.unwrap_or(tag.len()));
    let mut is_inline = name.eq_ignore_ascii_case("script");
    while let Some((attribute, after)) = attribute(rest) {
        let name = attribute.name.to_ascii_lowercase();
        is_inline &= name != "src";
        if name.starts_with("on") {
            found.insert(hash(&unescaped(attribute.value)));
        }
        rest = after;
    }
    rest = rest.split_once('>').map_or("", |(_, after)| after);
    if !RAW.iter().any(|raw| name.eq_ignore_ascii_case(raw)) {
        return rest;
    }
    let (text, after) = rest.split_at(end_of(rest, name));
    if is_inline && !text.is_empty() {
        found.insert(hash(text));
    }
    after
}

struct Attribute<'p> {
    name: &'p str,
    value: &'p str,
}

/// The next attribute of a start tag, and the text after it; none at the end of the tag.
fn attribute(tag: &str) -> Option<(Attribute<'_>, &str)> {
    let space = |c: char| c.is_ascii_whitespace();
    let tag = tag.trim_start_matches(|c: char| space(c) || c == '/');
    if tag.is_empty() || tag.starts_with('>') {
        return None;
    }
    // A name may begin with `=`.
    let first = tag.chars().next().map_or(0, char::len_utf8);
    let name_ends = |c: char| space(c) || matches!(c, '/' | '>' | '=');
    let end = tag.get(first..)?.find(name_ends).map_or(tag.len(), |at| first + at);
    let (name, rest) = tag.split_at(end);
    let Some(value) = rest.trim_start_matches(space).strip_prefix('=') else {
        return Some((Attribute { name, value: "" }, rest));
    };
    let value = value.trim_start_matches(space);
    for quote in ['"', '\''] {
        if let Some(quoted) = value.strip_prefix(quote) {
            let (value, rest) = quoted.split_once(quote).unwrap_or((quoted, ""));
            return Some((Attribute { name, value }, rest));
        }
    }
    let end = value.find(|c: char| space(c) || c == '>').unwrap_or(value.len());
    let (value, rest) = value.split_at(end);
    Some((Attribute { name, value }, rest))
}

/// Where the end tag of an element begins.
fn end_of(text: &str, name: &str) -> usize {
    let is_end = |at: &usize| {
        let after = text.get(at + 2..).unwrap_or_default();
        let (own, next) = (after.get(..name.len()), after.as_bytes().get(name.len()));
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
            && next.is_none_or(|next| next.is_ascii_whitespace() || matches!(next, b'/' | b'>'))
    };
    text.match_indices("</").map(|(at, _)| at).find(is_end).unwrap_or(text.len())
}

/// The value of an attribute without its character references: the numbered ones, and those that programs write.
fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('&') {
        text.push_str(before);
        // The longest reference that is read has few characters; a page may have many `&`.
        let end = after.bytes().take(MAX_REFERENCE).position(|byte| byte == b';');
        let reference = end.and_then(|end| Some((after.get(..end)?, after.get(end + 1..)?)));
        match reference.and_then(|(name, after)| Some((referred(name)?, after))) {
            Some((c, after)) => {
                text.push(c);
                rest = after;
            }
            None => {
                text.push('&');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

fn referred(name: &str) -> Option<char> {
    let number = |digits: &str, radix| char::from_u32(u32::from_str_radix(digits, radix).ok()?);
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => match name.strip_prefix('#')? {
            digits if digits.starts_with(['x', 'X']) => number(digits.get(1..)?, 16),
            digits => number(digits, 10),
        },
    }
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn scripts_and_handlers_are_found_as_browsers_find_them() {
        for (page, scripts) in [
            ("<script>a()</script>", &["a()"][..]),
            ("<SCRIPT type=module >a(1 < 2, '</scripts>')</ScRiPt\n>", &["a(1 < 2, '</scripts>')"]),
            ("<script>\r\n a();\r\n</script>", &["\n a();\n"]),
            ("<script src=x.js>a()</script><script SRC='y'>b()</script>", &[]),
            ("<script data-src=x>a()</script>", &["a()"]),
            ("<script></script><script>", &[]),
            ("<script>a()", &["a()"]),
            ("<!-- <script>a()</script> --><script>b()</script>", &["b()"]),
            ("<style><script>a()</script></style><title><p onclick=b()></title>", &[]),
            (
                "<link rel=stylesheet href=x media=print onload=\"this.media='all'\">",
                &["this.media='all'"],
            ),
            ("<p onclick=a() OnLoad = 'b(\"x\")'/>", &["a()", "b(\"x\")"]),
            (
                "<p onclick='a(&quot;&#x41;&#66;&amp;amp;&nope; & &#39;'>",
                &["a(\"AB&amp;&nope; & '"],
            ),
            ("<p title='onclick=a()' x>1 < 2 <3</p><p onclick>", &[""]),
            ("<p title=\">\" onclick=a()>", &["a()"]),
            ("<p\nonclick", &[""]),
        ] {
            let wanted: BTreeSet<_> = scripts.iter().map(|script| hash(script)).collect();
            assert_eq!(hashes(page), wanted, "{page}");
        }
        // The example of the standard.
        let known = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='";
        assert_eq!(hash("alert('Hello, world.');"), known);
    }

    proptest! {
        #[test]
        fn any_page_is_read(page in "(<|>|/|=|'|\"|&|;|!--|-->|script|style|on|src| |\n|ä|#x41){0,40}") {
            hashes(&page);
        }
    }
}
