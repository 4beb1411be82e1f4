//! The members of a body are read from an object, under their names in any case.
//!
//! Go reads the members of a struct without regard to case, and clients written in Go rely on it
//! (`Type` for `type` in the original's own commands). A key means the member of exactly this name,
//! otherwise the member whose name differs in ASCII case only. A body with one member twice, in
//! whichever spelling, is refused, because its meaning is unclear. Members of free objects (tags,
//! data of configs, schemas) are keys and not names, and are left as they are.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, Visitor};

/// The names of the members of a body.
type Names = &'static [&'static str];

/// Reads a struct out of an object alone, its members under names in any case. Derived readers
/// would also accept an array, member by member, which no client intends.
#[doc(hidden)]
#[derive(Debug)]
pub struct Members<D>(pub D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Members<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        names: Names,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Object { visitor, names })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The name of the member that a key means; as an error the key itself, if it means no member.
fn meant(names: Names, key: &str) -> Result<&'static str, &str> {
    let exactly = || names.iter().find(|name| **name == key);
    let roughly = || names.iter().find(|name| name.eq_ignore_ascii_case(key));
    exactly().or_else(roughly).copied().ok_or(key)
}

/// Takes an object to a visitor, member by member.
struct Object<V> {
    visitor: V,
    names: Names,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Object<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Entries { map, names: self.names })
    }
}

/// The members of an object under the names of a body.
struct Entries<A> {
    map: A,
    names: Names,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.map.next_key_seed(Key { inner: seed, names: self.names })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.map.size_hint()
    }
}

/// A wrapper around the seed, the deserializer and the visitor of a key, which exchanges the key for
/// the name of the member that the key means.
struct Key<T> {
    inner: T,
    names: Names,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<K> {
    type Value = K::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<K::Value, D::Error> {
        self.inner.deserialize(Key { inner: from, names: self.names })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Key<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_identifier(Key { inner: visitor, names: self.names })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Key<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<V::Value, E> {
        match meant(self.names, key) {
            Ok(name) => self.inner.visit_borrowed_str(name),
            Err(key) => self.inner.visit_str(key),
        }
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, key: &'de str) -> Result<V::Value, E> {
        match meant(self.names, key) {
            Ok(name) => self.inner.visit_borrowed_str(name),
            Err(key) => self.inner.visit_borrowed_str(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use crate::body::{self, Body, Verb, body};
    use crate::json::{JsonMap, Tags};
    use crate::resource::client::SdkInfo;
    use crate::resource::identity::IdentityBody;
    use crate::resource::posture_check::PostureCheckBody;

    body! {
        /// A part.
        struct Part {
            /// A number.
            Optional max_attempts: u16,
            /// Free.
            Optional app_data: JsonMap,
        }
    }

    body! {
        /// A whole.
        struct Whole {
            /// A text.
            Optional name: String,
            /// Free.
            Optional tags: Tags,
            /// One.
            Optional the_part: Part,
            /// Some.
            Optional parts: Vec<Part>,
            /// Some by names that are free.
            Optional by_name: BTreeMap<String, Part>,
        }
    }

    fn read<B: Body>(text: &str) -> B {
        body::decode(text.as_bytes(), Verb::Patch).unwrap()
    }

    fn refused(text: &str) -> String {
        body::decode::<Whole>(text.as_bytes(), Verb::Patch).unwrap_err().to_string()
    }

    #[test]
    fn members_are_found_in_any_case() {
        let check: PostureCheckBody = read(
            r#"{"NAME": "os", "typeid": "OS",
                "operatingSystems": [{"Type": "Windows", "Versions": [">=10"]}]}"#,
        );
        let systems = check.operating_systems.unwrap().read("operatingSystems").unwrap();
        assert_eq!(check.name.as_deref(), Some("os"));
        assert_eq!(systems[0].versions.as_ref().unwrap(), &[">=10"]);
        let info: SdkInfo = serde_json::from_value(json!({"AppID": "x", "Version": "1"})).unwrap();
        assert_eq!((info.app_id.as_str(), info.version.as_str()), ("x", "1"));
        // Values that were parsed already are read in the same way.
        let body: IdentityBody = serde_json::from_value(json!({"isadmin": true})).unwrap();
        assert_eq!(body.is_admin, Some(true));
    }

    #[test]
    fn other_names_are_passed_over() {
        let whole: Whole = read(r#"{"Namé": 1, "na me": 2, "the_part": 3, "": 4}"#);
        assert_eq!(whole, Whole::default());
        let whole: Whole = read(r#"{"n\u0061ME": "x"}"#);
        assert_eq!(whole.name.as_deref(), Some("x"));
    }

    #[test]
    fn a_member_is_there_once() {
        for text in [r#"{"name": "a", "name": "b"}"#, r#"{"Name": "a", "name": "b"}"#] {
            assert_eq!(refused(text), "duplicate field `name`");
        }
        let text = r#"{"thepart": {"maxattempts": 1, "maxAttempts": 2}}"#;
        assert_eq!(refused(text), "thepart: duplicate field `maxAttempts`");
    }

    #[test]
    fn errors_name_the_member_as_it_was_sent() {
        let text = r#"{"Parts": [{}, {"MAXATTEMPTS": "x"}]}"#;
        assert_eq!(refused(text), "Parts[1].MAXATTEMPTS: must be a whole number from 0 to 65535");
    }

    /// JSON of a body, with free members whose keys look like names.
    fn bodies() -> impl Strategy<Value = Value> {
        let free = prop::collection::btree_map("[nN]ame|[tT]ags|[a-zA-Z]{1,4}", any::<i64>(), 0..4);
        let part = (any::<u16>(), free.clone())
            .prop_map(|(number, free)| json!({"maxAttempts": number, "appData": free}));
        let map = prop::collection::btree_map("[a-zA-Z]{1,3}", part.clone(), 0..3);
        let parts = prop::collection::vec(part.clone(), 0..3);
        ("[a-zA-Z]{0,8}", free, part, parts, map).prop_map(|(name, tags, part, parts, map)| {
            json!({"name": name, "tags": tags, "thePart": part, "parts": parts, "byName": map})
        })
    }

    /// The object with its member names in another case, and nothing else changed.
    fn respelled(object: &Value, cases: &mut impl Iterator<Item = bool>) -> Value {
        let Value::Object(members) = object else { return object.clone() };
        let mut spelled = Map::new();
        for (name, value) in members {
            let value = match (name.as_str(), value) {
                ("thePart", part) => respelled(part, cases),
                ("parts", Value::Array(parts)) => {
                    parts.iter().map(|part| respelled(part, cases)).collect()
                }
                ("byName", Value::Object(parts)) => Value::Object(
                    parts.iter().map(|(key, part)| (key.clone(), respelled(part, cases))).collect(),
                ),
                (_, value) => value.clone(),
            };
            let other = name.chars().map(|letter| match cases.next() {
                Some(true) => letter.to_ascii_uppercase(),
                _ => letter.to_ascii_lowercase(),
            });
            spelled.insert(other.collect(), value);
        }
        Value::Object(spelled)
    }

    proptest! {
        #[test]
        fn the_case_of_names_makes_no_difference(
            body in bodies(),
            cases in prop::collection::vec(any::<bool>(), 1..64),
        ) {
            let plain: Whole = read(&body.to_string());
            // Members with free keys come back unchanged.
            prop_assert_eq!(&serde_json::to_value(&plain).unwrap(), &body);
            let other = respelled(&body, &mut cases.into_iter().cycle());
            prop_assert_eq!(read::<Whole>(&other.to_string()), plain);
        }
    }
}
