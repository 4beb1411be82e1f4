//! Names and types that binding refuses, with their positions.

use super::net::{CALLER, PEOPLE, SERVICES, ids_of, plan_for};
use crate::filter::{Audience, Code, FilterError, Reason, Schema, bind_sort, parse_sort};

fn refused(text: &str) -> FilterError {
    plan_for(CALLER, text).expect_err(text)
}

#[test]
fn unknown_names_and_wrong_types_are_refused_with_their_place() {
    for (text, offset, message) in [
        ("size = 1", 0, "unknown symbol 'size'"),
        ("true and (x or y)", 10, "unknown symbol 'x'"),
        ("tags = \"x\"", 0, "unknown symbol 'tags'"),
        ("count(tags) = 1", 6, "unknown symbol 'tags'"),
        ("password = \"x\"", 0, "unknown symbol 'password'"),
        ("favourite.name = \"x\"", 0, "unknown symbol 'favourite.name'"),
        ("name.first = \"x\"", 0, "unknown symbol 'name.first'"),
        (
            "name = true",
            7,
            "operation not supported with operand types: 'name' is string, used with = bool",
        ),
        (
            "isAdmin != \"x\"",
            11,
            "operation not supported with operand types: 'isAdmin' is bool, used with != string",
        ),
        (
            "age < datetime(2024-01-01T00:00:00Z)",
            6,
            "operation not supported with operand types: 'age' is int, used with < datetime",
        ),
        (
            "score = \"x\"",
            8,
            "operation not supported with operand types: 'score' is float, used with = string",
        ),
        (
            "isAdmin not in [\"true\"]",
            15,
            "operation not supported with operand types: 'isAdmin' is bool, used with in string",
        ),
        (
            "createdAt in [\"x\"]",
            13,
            "operation not supported with operand types: 'createdAt' is datetime, used with in string",
        ),
        (
            "name between 1 and 2",
            13,
            "operation not supported with operand types: 'name' is string, used with between number",
        ),
        (
            "createdAt contains 2024",
            19,
            "operation not supported with operand types: 'createdAt' is datetime, used with contains number",
        ),
        (
            "isAdmin icontains \"t\"",
            18,
            "operation not supported with operand types: 'isAdmin' is bool, used with icontains string",
        ),
        (
            "anyOf(roleAttributes) = true",
            24,
            "operation not supported with operand types: 'roleAttributes' is string, used with = bool",
        ),
        (
            "count(roleAttributes) = true",
            24,
            "operation not supported with operand types: 'count(roleAttributes)' is int, used with = bool",
        ),
        (
            "roleAttributes = \"x\"",
            0,
            "symbol 'roleAttributes' is a set: use it inside anyOf, allOf, count or isEmpty",
        ),
        (
            "services.name = \"x\"",
            0,
            "symbol 'services.name' is a set: use it inside anyOf, allOf, count or isEmpty",
        ),
        (
            "anyOf(name) = \"x\"",
            6,
            "symbol 'name' is not a set: anyOf, allOf, count and isEmpty need a set",
        ),
        (
            "isEmpty(name)",
            8,
            "symbol 'name' is not a set: anyOf, allOf, count and isEmpty need a set",
        ),
        ("age", 0, "symbol 'age' is int: only a boolean symbol may stand alone"),
        (
            "count(roleAttributes) != null",
            25,
            "a count is never null: compare it with 0, or use isEmpty",
        ),
        (
            "isEmpty(from roleAttributes where true)",
            13,
            "symbol 'roleAttributes' leads to no other kind: a sub-query needs a link",
        ),
        ("isEmpty(from services where age = 1)", 28, "unknown symbol 'age'"),
        ("isEmpty(from services where true sort by age)", 41, "unknown symbol 'age'"),
        (
            "anyOf(services.users.services.users.services.name) = \"x\"",
            6,
            "more than 4 links in one name",
        ),
    ] {
        let error = refused(text);
        assert_eq!(error.offset(), offset, "{text}");
        assert_eq!(error.message(), format!("{message} at line: 1 column: {offset}"), "{text}");
    }
}

#[test]
fn sort_fields_must_have_one_value() {
    for (text, offset) in [
        ("sort by size", 8),
        ("sort by name, roleAttributes", 14),
        ("sort by tags.site", 8),
        ("sort by favourite.name", 8),
        ("sort by login.tries.more", 8),
        ("sort by tags", 8),
        ("sort by password", 8),
    ] {
        let error = refused(text);
        assert_eq!((error.code(), error.offset()), (Code::Sort, offset), "{text}");
        let alone = text.trim_start_matches("sort by ");
        let sort = parse_sort(alone).expect(alone);
        let error = bind_sort(&sort, &PEOPLE, CALLER).expect_err(alone);
        assert_eq!((error.code(), error.offset()), (Code::Sort, offset - 8), "{alone}");
    }
    // A dot may be part of a symbol's name.
    let sort = parse_sort("login.tries desc").unwrap();
    bind_sort(&sort, &PEOPLE, CALLER).unwrap();
    assert_eq!(refused("size = 1").code().as_str(), "INVALID_FILTER");
    assert_eq!(refused("sort by size").code().as_str(), "INVALID_SORT_IDENTIFIER");
}

#[test]
fn the_server_may_use_what_callers_may_not() {
    let ids = |text: &str| ids_of(&plan_for(Audience::Server, text).expect(text));
    assert_eq!(ids("password = \"secret\""), "abcd");
    assert_eq!(ids("favourite.name = \"web\""), "a");
    assert_eq!(ids("favourite.name = null"), "cd");
    assert_eq!(ids("favourite.name != \"web\""), "bcd");
}

#[test]
fn links_lead_only_to_kinds_that_the_caller_may_read() {
    let reader = Audience::Caller(&|kind| kind == "people");
    for (text, offset) in [
        ("anyOf(services.name) = \"web\"", 6),
        ("isEmpty(from services where true)", 13),
        ("count(from services where name contains \"w\") > 0", 11),
        ("isEmpty(services.users)", 8),
        ("anyOf(services) = \"s\"", 6),
        ("anyOf(services) contains \"s\"", 6),
        ("isEmpty(services)", 8),
        ("count(services) = 2", 6),
    ] {
        let error = plan_for(reader, text).expect_err(text);
        assert!(matches!(error.reason(), Reason::NotReadable { kind, .. } if kind == "services"));
        assert_eq!((error.code(), error.offset()), (Code::Filter, offset), "{text}");
    }
    assert!(plan_for(CALLER, "anyOf(services.name) = \"web\"").is_ok());
}

#[test]
fn public_names_are_listed() {
    let names: Vec<_> = SERVICES.public_names().collect();
    assert_eq!(names, ["id", "name", "configs", "users"]);
    assert!(PEOPLE.public_names().all(|name| name != "password"));
    assert_eq!(PEOPLE.kind(), "people");
}
