//! Texts that depend on the client: `sourceIp`, `dialOptions.identity` and `listenOptions.identity`
//! (docs/protocol/tunnel.md 5.2).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use serde_json::Value;

use crate::Wanted;

/// The identity of a tunneler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its application data.
    pub app_data: BTreeMap<String, Value>,
    /// Its tags.
    pub tags: BTreeMap<String, Value>,
}

/// A template with a mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}`: a `[` is not closed")]
pub struct TemplateError(String);

/// A text with places that each client fills.
///
/// The values of the identity are inserted when the template is read, and are never taken for such
/// places: an identity named `$src_ip` gains nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    SourceIp,
    SourcePort,
    DestinationIp,
    DestinationPort,
    DestinationProtocol,
    DestinationName,
}

const PLACES: [(&str, Part); 6] = [
    ("$src_ip", Part::SourceIp),
    ("$src_port", Part::SourcePort),
    ("$dst_ip", Part::DestinationIp),
    ("$dst_port", Part::DestinationPort),
    ("$dst_protocol", Part::DestinationProtocol),
    ("$dst_hostname", Part::DestinationName),
];
/// Stands for the name of the hosting identity.
pub(crate) const NAME: &str = "$tunneler_id.name";
const APP_DATA: &str = "$tunneler_id.appData[";
const TAG: &str = "$tunneler_id.tag[";

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// When a bracket is not closed.
    pub fn new(text: &str, identity: &Identity) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix(NAME) {
                plain.push_str(&identity.name);
                rest = after;
            } else if let Some((of, after)) = of_identity(rest, identity) {
                let closed = after.split_once(']');
                let (key, after) = closed.ok_or_else(|| TemplateError(text.to_owned()))?;
                plain.push_str(&shown(of.get(key)));
                rest = after;
            } else if let Some((place, part)) =
                PLACES.iter().find(|(place, _)| rest.starts_with(place))
            {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(part.clone());
                rest = rest.get(place.len()..).unwrap_or_default();
            } else {
                plain.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// The text for one client. An IPv6 address before a colon is put in brackets.
    #[must_use]
    pub fn fill(&self, wanted: &Wanted) -> String {
        let mut out = String::new();
        for (index, part) in self.0.iter().enumerate() {
            let colon =
                matches!(self.0.get(index + 1), Some(Part::Text(text)) if text.starts_with(':'));
            match part {
                Part::Text(text) => out.push_str(text),
                Part::SourceIp => put(&mut out, wanted.source.ip(), colon),
                Part::DestinationIp => put(&mut out, wanted.destination.ip(), colon),
                Part::SourcePort => out.push_str(&wanted.source.port().to_string()),
                Part::DestinationPort => out.push_str(&wanted.destination.port().to_string()),
                Part::DestinationProtocol => out.push_str(wanted.protocol.name()),
                Part::DestinationName => {
                    out.push_str(wanted.hostname.as_deref().unwrap_or("$dst_hostname"));
                }
            }
        }
        out
    }

    /// The text, if it does not depend on the client.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// The values that a text begins with a name for, and the rest of the text behind the bracket.
fn of_identity<'a, 't>(
    text: &'t str,
    identity: &'a Identity,
) -> Option<(&'a BTreeMap<String, Value>, &'t str)> {
    let places = [(APP_DATA, &identity.app_data), (TAG, &identity.tags)];
    places.into_iter().find_map(|(place, of)| Some((of, text.strip_prefix(place)?)))
}

fn put(out: &mut String, address: IpAddr, colon: bool) {
    // Writing to a String cannot fail.
    let _ = match address.to_canonical() {
        IpAddr::V6(address) if colon => write!(out, "[{address}]"),
        address => write!(out, "{address}"),
    };
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Protocol;

    fn identity() -> Identity {
        let app_data = [("a".to_owned(), "15.14.13.12".into()), ("b".to_owned(), 1999.into())];
        let tags = [("a".to_owned(), "$src_ip".into()), ("ok".to_owned(), true.into())];
        Identity { name: "foo.bar".into(), app_data: app_data.into(), tags: tags.into() }
    }

    fn wanted(source: &str, destination: &str, hostname: Option<&str>) -> Wanted {
        Wanted {
            protocol: Protocol::Tcp,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            hostname: hostname.map(str::to_owned),
        }
    }

    #[test]
    fn places_are_filled() {
        // docs/protocol/tunnel.md 5.2
        let usual = wanted("1.2.3.4:5432", "5.6.7.8:80", None);
        let fill = |text: &str| Template::new(text, &identity()).unwrap().fill(&usual);
        assert_eq!(fill("$src_ip:$src_port"), "1.2.3.4:5432");
        assert_eq!(fill("$src_ip:$dst_port"), "1.2.3.4:80");
        assert_eq!(fill("$dst_ip:$src_port"), "5.6.7.8:5432");
        assert_eq!(fill("$tunneler_id.name"), "foo.bar");
        assert_eq!(fill("$tunneler_id.appData[a]:$tunneler_id.appData[b]"), "15.14.13.12:1999");
        assert_eq!(fill("<$tunneler_id.appData[c]>"), "<>");
        assert_eq!(fill("$tunneler_id.tag[ok]:$tunneler_id.tag[a]"), "true:$src_ip");
        assert_eq!(fill("<$tunneler_id.tag[c]$tunneler_id.tag[]>"), "<>");
        assert_eq!(fill("$dst_protocol-$dst_hostname-$other"), "tcp-$dst_hostname-$other");
        let named = wanted("[fd00::1]:5", "[fd00::2]:6", Some("web"));
        let fill = |text: &str| Template::new(text, &identity()).unwrap().fill(&named);
        assert_eq!(fill("$src_ip:$src_port"), "[fd00::1]:5");
        assert_eq!(fill("$src_ip"), "fd00::1");
        assert_eq!(fill("$dst_hostname"), "web");
        for open in ["$tunneler_id.appData[a", "$tunneler_id.tag[a"] {
            assert!(Template::new(open, &identity()).is_err());
        }
    }

    #[test]
    fn what_an_identity_is_called_is_no_place() {
        let sly = Identity { name: "$src_ip".into(), ..Identity::default() };
        let template = Template::new("$tunneler_id.name", &sly).unwrap();
        assert_eq!(template.constant(), Some("$src_ip"));
        assert_eq!(template.fill(&wanted("1.2.3.4:5", "5.6.7.8:9", None)), "$src_ip");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[$a-z_.\\[\\]:é]{0,40}") {
            let _ = Template::new(&text, &identity());
        }

        #[test]
        fn a_text_without_places_stays(text in "[a-zé:.]{0,40}") {
            let template = Template::new(&text, &identity()).unwrap();
            prop_assert_eq!(template.constant(), Some(text.as_str()));
        }
    }
}
