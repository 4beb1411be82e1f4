//! The application data that a dialing tunneler sends to the hosting one: a JSON object of texts
//! (docs/protocol/tunnel.md 4).

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use crate::refusal::cut;
use crate::{Refusal, Wanted};

/// Largest application data that is read, in bytes.
const MAX_APP_DATA: usize = 64 * 1024;

/// The destination that a client asks for, as application data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppData(BTreeMap<String, Value>);

impl AppData {
    /// The application data for a client; `source` is the address that the host is asked to connect
    /// from.
    #[must_use]
    pub fn of(wanted: &Wanted, source: Option<&str>) -> Self {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, value: String| data.insert(key.to_owned(), Value::String(value));
        put("dst_protocol", wanted.protocol.name().to_owned());
        put("dst_ip", wanted.destination.ip().to_canonical().to_string());
        put("dst_port", wanted.destination.port().to_string());
        if let Some(name) = &wanted.hostname {
            put("dst_hostname", name.clone());
        }
        if let Some(source) = source.filter(|source| !source.is_empty()) {
            put("source_addr", source.to_owned());
        }
        Self(data)
    }

    /// Reads application data; an empty text is an empty object.
    ///
    /// # Errors
    /// When the text is no JSON object, or too large.
    pub fn parse(text: &[u8]) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MAX_APP_DATA {
            let length = text.len();
            return Err(Refusal::other(format!("application data of {length} bytes is too large")));
        }
        serde_json::from_slice(text)
            .map(Self)
            // The error may repeat a text of the dialer.
            .map_err(|error| cut(&error.to_string()).into_owned())
            .map_err(|error| Refusal::other(format!("application data is no JSON object: {error}")))
    }

    /// The bytes to send.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let members = self.0.iter().map(|(key, value)| (key.clone(), value.clone()));
        Bytes::from(Value::Object(members.collect()).to_string())
    }

    /// An optional text. `null` is no text: the native tunneler sends a member without a value so.
    ///
    /// # Errors
    /// When there is a value that is no text.
    pub fn text(&self, key: &str) -> Result<Option<&str>, Refusal> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::other(format!("{key} in the application data is no text"))),
        }
    }

    /// A required text.
    ///
    /// # Errors
    /// When the value is missing or no text.
    pub fn required(&self, key: &str) -> Result<&str, Refusal> {
        self.text(key)?.ok_or_else(|| {
            Refusal::other(format!(
                "{key} required but not provided: the host connects to the address that its client names"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Protocol;

    #[test]
    fn what_is_told_can_be_read() {
        let wanted = Wanted {
            protocol: Protocol::Tcp,
            source: "10.0.0.9:40000".parse().unwrap(),
            destination: "100.64.0.5:443".parse().unwrap(),
            hostname: Some("web.corp.example".into()),
        };
        let data = AppData::of(&wanted, Some("10.1.2.3:50112")).to_bytes();
        let expected: Value = serde_json::from_str(
            r#"{"dst_protocol":"tcp","dst_hostname":"web.corp.example","dst_ip":"100.64.0.5",
                "dst_port":"443","source_addr":"10.1.2.3:50112"}"#,
        )
        .unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&data).unwrap(), expected);
        let read = AppData::parse(&data).unwrap();
        assert_eq!(read.required("dst_port"), Ok("443"));
        assert_eq!(read.text("connType"), Ok(None));
    }

    #[test]
    fn a_member_without_a_value_is_absent() {
        let data = AppData::parse(br#"{"connType":null,"dst_protocol":"tcp"}"#).unwrap();
        assert_eq!(data.text("connType"), Ok(None));
        assert_eq!(data.required("dst_protocol"), Ok("tcp"));
        assert!(data.required("connType").is_err());
    }

    #[test]
    fn texts_that_are_none_are_refused() {
        let data = AppData::parse(br#"{"dst_port":443}"#).unwrap();
        assert!(data.required("dst_port").is_err());
        assert!(AppData::parse(b"[]").is_err());
        assert!(AppData::parse(&vec![b' '; MAX_APP_DATA + 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_data_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = AppData::parse(&text);
        }
    }
}
