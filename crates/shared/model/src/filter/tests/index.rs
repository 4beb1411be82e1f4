//! The questions of plans to indexes, and explanations of plans.

use super::net::{CALLER, PEOPLE, plan};
use crate::filter::{ListQuery, PageRules, Selection};

fn access(text: &str) -> String {
    plan(text).access().to_string()
}

#[test]
fn conjuncts_that_an_index_serves_are_exposed() {
    for (text, expected) in [
        ("name = \"Ann\" and score > 1", "index name = \"Ann\", then test"),
        ("name > \"Ann\"", "index name > \"Ann\""),
        ("id = \"x\" or name = \"x\"", "index id = \"x\" or index name = \"x\""),
        ("not name = \"x\"", "not index name = \"x\""),
        ("not name != \"x\"", "index name = \"x\""),
        ("name not in [\"x\", \"y\"]", "not index name = [\"x\", \"y\"]"),
        ("name = 5", "index name = \"5\""),
        ("name = \"x\" and true", "index name = \"x\""),
        ("name = \"x\" and false", "nothing"),
        ("false or true", "everything"),
        ("isEmpty(roleAttributes)", "index isEmpty(roleAttributes)"),
        ("allOf(roleAttributes) != \"x\"", "index allOf(roleAttributes) != \"x\""),
        (
            "anyOf(roleAttributes) in [\"ops\", \"dev\", \"ops\"]",
            "index anyOf(roleAttributes) in [\"dev\", \"ops\"]",
        ),
        (
            "name = \"x\" and (id = \"y\" or anyOf(roleAttributes) contains \"z\")",
            "index name = \"x\" and (index id = \"y\" or index anyOf(roleAttributes) contains \"z\")",
        ),
    ] {
        assert_eq!(access(text), expected, "{text}");
    }
}

#[test]
fn what_no_index_serves_is_a_scan() {
    for text in [
        "score = 1",
        "name contains \"x\"",
        "name = null",
        "name = \"x\" or score = 1",
        "not (name = \"x\" and score = 1)",
        "anyOf(services) = \"s\"",
        "anyOf(services.name) = \"s\"",
        "isEmpty(services)",
    ] {
        assert_eq!(access(text), "scan", "{text}");
    }
}

#[test]
fn plans_explain_themselves() {
    let request = ListQuery {
        filter: "(not isEmpty(from services where name = \"web\" limit 2)) and name icontains \"a\" \
                 and anyOf(roleAttributes) = \"dev\" and (id = \"a\" or name in [\"Ann\", \"Bob\"])",
        sort: "age desc",
        limit: Some(1000),
        offset: None,
    };
    let selection = Selection::new(&request, &PEOPLE, CALLER, &PageRules::LIST).expect("valid");
    assert_eq!(
        selection.explain(),
        "list people
candidates: (index id = \"a\" or index name = [\"Ann\", \"Bob\"]) \
and index anyOf(roleAttributes) = \"dev\", then test
test each:
  all of
    any of
      id = \"a\"
      name in [\"Ann\", \"Bob\"]
    name icontains \"A\"
    anyOf(roleAttributes) = \"dev\"
    not
      services is empty
        among services where
          name = \"web\"
          limit 2
order: age desc, id
skip: 0
limit: 500
"
    );
    assert_eq!(
        plan("sort by name skip 3 limit none").explain(),
        "list people\ncandidates: everything\ntest each:\n  always\norder: name, id\nskip: 3\nlimit: none\n"
    );
}
