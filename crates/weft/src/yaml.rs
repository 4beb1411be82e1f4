//! YAML: values with their lines in ([`read()`]), values out ([`write()`]).
//!
//! Unquoted words are read by the core schema of YAML 1.2 (`yes` is a word, not a boolean), and
//! written so that readers of YAML 1.1 read the same values.

mod read;

pub(crate) use read::{DocumentMember, Node, Value, read};
pub(crate) use weft_contract::yaml::write;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value as Json};

    use super::*;

    fn json() -> impl Strategy<Value = Json> {
        let text = prop_oneof![
            "[ -~\n\t]{0,20}",
            "\\PC{0,8}",
            Just("yes".to_owned()),
            Just("0x1".to_owned()),
            Just("1e3".to_owned()),
            Just("null".to_owned()),
            Just("#a".to_owned()),
            Just("a: b".to_owned()),
            Just("a\n b\n".to_owned()),
            Just("\n".to_owned()),
            Just("- x".to_owned()),
            Just("---".to_owned()),
            Just("line\nother".to_owned()),
            Just("trailing \n".to_owned()),
        ];
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            any::<i64>().prop_map(Json::from),
            (-1e9f64..1e9).prop_map(Json::from),
            text.clone().prop_map(Json::String),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Json::Array),
                prop::collection::vec((text.clone(), inner), 0..5)
                    .prop_map(|members| Json::Object(members.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in json()) {
            let text = write(&value);
            let documents = read(&text).unwrap_or_else(|error| panic!("{error:?}:\n{text}"));
            prop_assert_eq!(documents.len(), 1, "{}", text);
            let back = documents[0].to_json();
            prop_assert_eq!(&back, &value, "{}", text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\n]{0,200}") {
            let _ = read(&text);
        }
    }
}
