//! A function named `is_`, `has_` or `can_` answers a question and changes nothing.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use regex::Regex;
use weft_pages::files;

/// Reads the heads of such functions: name, parameters and what they return.
struct Reader(Regex);

impl Reader {
    fn new() -> Self {
        let head = r"(?s)\bfn ((?:is|has|can)_\w+)(?:<[^>]*>)?\(((?:[^()]|\([^()]*\))*)\)\s*(?:->\s*(.*?))?\s*(?:\bwhere\b|[{;])";
        Self(Regex::new(head).unwrap())
    }

    /// The functions of a text, without its tests, that may change `self`, or return neither `bool` nor a result of it.
    fn faults(&self, text: &str) -> Vec<(usize, String)> {
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let mut faults = Vec::new();
        for head in self.0.captures_iter(text) {
            let part = |at: usize| head.get(at).map_or("", |it| it.as_str()).trim();
            let (name, parameters, returned) = (part(1), part(2), part(3));
            let line = files::line_of(text, head.get(0).unwrap().start());
            if parameters.contains("&mut self") {
                faults.push((line, format!("{name} takes `&mut self`")));
            }
            if returned != "bool" && !(returned.contains("Result<bool") && returned.ends_with('>'))
            {
                faults.push((line, format!("{name} returns `{returned}`")));
            }
        }
        faults
    }
}

#[test]
fn functions_that_ask_change_nothing_and_say_yes_or_no() {
    let (reader, mut wrong) = (Reader::new(), Vec::new());
    let files = files::all().unwrap();
    let is_of_product = |path: &str| {
        path.starts_with("crates/") && path.ends_with(".rs") && !path.contains("tests")
    };
    for file in files.iter().filter(|file| is_of_product(&file.path)) {
        let faults = reader.faults(&file.text).into_iter();
        wrong.extend(faults.map(|(line, fault)| format!("{}:{line}: {fault}", file.path)));
    }
    assert!(wrong.is_empty(), "name these after what they do:\n{}", wrong.join("\n"));
}

#[test]
fn functions_that_do_more_than_ask_are_found() {
    let reader = Reader::new();
    let good = [
        "fn is_full(&self) -> bool {",
        "pub async fn has_ended(client: &Client) -> Result<bool, Error> {",
        "fn is_found<'a>(&self, find: impl Fn(&str) -> Option<&'a str>) -> bool {",
        "fn has_fin(headers: &[(u8, Bytes)]) -> bool;",
        "fn tells(&mut self) {",
        "#[cfg(test)]\nmod tests {\n    fn is_closed() {",
    ];
    good.iter().for_each(|text| assert!(reader.faults(text).is_empty(), "{text}"));
    let wrong = [
        "fn is_due(&mut self, now: Instant) -> bool {",
        "fn is_routed(&self, circuit: &str) {",
        "fn is_among<T>(&self, one: T) -> Option<bool>\nwhere\n    T: Eq,\n{",
        "async fn can_sign(keys: &Keys) -> Result<()> {",
        "fn has_room(\n    self,\n);",
    ];
    wrong.iter().for_each(|text| assert_eq!(reader.faults(text).len(), 1, "{text}"));
}
