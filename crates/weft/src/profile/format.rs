//! The file format of pprof's profiles: `perftools.profiles.Profile`, as far as it is used here.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;

/// A profile. Field numbers are facts of the format; texts are indexes into the table of texts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(super) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    pub(super) location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(super) string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) time_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub(super) period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub(super) period: i64,
}

/// Kind and unit of a value.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

/// Values of one call stack, innermost function first.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) label: Vec<Label>,
}

/// Further data of a sample.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Label {
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    #[prost(int64, tag = "2")]
    pub(super) text: i64,
}

/// A place in the program.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) line: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Line {
    #[prost(uint64, tag = "1")]
    pub(super) function_id: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Function {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
}

/// A builder of profiles.
pub(super) struct ProfileBuilder {
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<String, u64>,
}

impl ProfileBuilder {
    /// A profile at this moment, with values of these kinds and units.
    pub(super) fn new(values: &[(&str, &str)]) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_nanos = i64::try_from(now.as_nanos()).unwrap_or_default();
        let profile = Profile { time_nanos, ..Profile::default() };
        let mut writer = Self { profile, texts: HashMap::new(), functions: HashMap::new() };
        // The first text must be empty.
        writer.text("");
        for (kind, unit) in values {
            let value = ValueType { kind: writer.text(kind), unit: writer.text(unit) };
            writer.profile.sample_type.push(value);
        }
        writer
    }

    /// Sets the distance between two samples.
    pub(super) fn period(&mut self, kind: &str, unit: &str, period: i64) {
        let kind = ValueType { kind: self.text(kind), unit: self.text(unit) };
        (self.profile.period_type, self.profile.period) = (Some(kind), period);
    }

    /// Adds a sample of a stack, innermost function first.
    pub(super) fn sample(
        &mut self,
        functions: &[String],
        values: &[i64],
        label: Option<(&str, &str)>,
    ) {
        let location_id = functions.iter().map(|name| self.function(name)).collect();
        let label = label.map(|(key, text)| Label { key: self.text(key), text: self.text(text) });
        let label = label.into_iter().collect();
        self.profile.sample.push(Sample { location_id, value: values.to_vec(), label });
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        self.profile.encode_to_vec()
    }

    /// The location of a function, which has the function's number.
    fn function(&mut self, name: &str) -> u64 {
        if let Some(known) = self.functions.get(name) {
            return *known;
        }
        let id = self.functions.len() as u64 + 1;
        let text = self.text(name);
        self.functions.insert(name.to_owned(), id);
        self.profile.function.push(Function { id, name: text });
        self.profile.location.push(Location { id, line: vec![Line { function_id: id }] });
        id
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let place = self.profile.string_table.len() as i64;
        self.texts.insert(text.to_owned(), place);
        self.profile.string_table.push(text.to_owned());
        place
    }
}
