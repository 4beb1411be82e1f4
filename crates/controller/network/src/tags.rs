//! The tags of a circuit. A controller gives circuits four tags only, most of whose values are ids: a
//! map of texts for each circuit would take several times the memory of the circuit itself.

use weft_model::Id;
use weft_wire::StringMap;

/// Tag with the dialing identity.
const CLIENT: &str = "clientId";
/// Tag with the hosting identity.
const HOST: &str = "hostId";
/// Tag with the routers on whose report alone a circuit exists.
const REPORTED: &str = "reportedBy";
/// Tag with the service.
const SERVICE: &str = "serviceId";

/// The tags of a circuit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CircuitTags {
    /// The dialing identity.
    pub client: Option<Id>,
    /// The hosting identity.
    pub host: Option<Id>,
    /// The ids of the routers on whose report alone the circuit exists, with commas in between. The
    /// present run of the controller did not make such a circuit.
    pub reported_by: Option<Id>,
    /// The service, or `instance@service`.
    pub service: Option<Id>,
}

impl CircuitTags {
    /// The tags that a router reports of a circuit. Tags with other names are ignored, and so is the
    /// tag that names reporters.
    pub(crate) fn reported(tags: &StringMap) -> Self {
        let value = |name: &str| tags.get(name).map(|text| Id::new(text));
        Self {
            client: value(CLIENT),
            host: value(HOST),
            reported_by: None,
            service: value(SERVICE),
        }
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            (CLIENT, &self.client),
            (HOST, &self.host),
            (REPORTED, &self.reported_by),
            (SERVICE, &self.service),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?.as_str())))
    }

    /// The value of a tag.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(other, value)| (other == name).then_some(value))
    }

    /// The tags as messages have them.
    pub fn to_map(&self) -> StringMap {
        self.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_the_same_as_a_map_of_texts() {
        let texts = |texts: &[(&str, &str)]| -> StringMap {
            texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        // A long value, an empty one, and `instance@service`.
        let known = texts(&[
            ("clientId", "0b6a5b0c-3a4f-4ee1-9b22-b9d7a3b8c0d1"),
            ("hostId", ""),
            ("serviceId", "one@svc"),
        ]);
        let mut told = known.clone();
        told.extend(texts(&[("other", "x"), ("reportedBy", "nobody")]));
        let mut tags = CircuitTags::reported(&told);
        assert_eq!(tags.to_map(), known);
        assert_eq!(
            [tags.get("hostId"), tags.get("reportedBy"), tags.get("other")],
            [Some(""), None, None]
        );
        tags.reported_by = Some(Id::new("r1,r2"));
        let names: Vec<_> = tags.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["clientId", "hostId", "reportedBy", "serviceId"]);
        assert!(names.is_sorted());
        assert_eq!(tags.to_map()["reportedBy"], "r1,r2");
        assert!(CircuitTags::default().to_map().is_empty());
    }

    #[test]
    fn tags_of_short_ids_take_no_memory_beside_the_circuit() {
        assert_eq!(size_of::<CircuitTags>(), 96);
    }
}
