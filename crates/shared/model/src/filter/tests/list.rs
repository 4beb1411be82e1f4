//! Order and paging.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::net::{CALLER, PEOPLE, Person, net};
use crate::filter::{LimitClause, ListQuery, Page, PageRules, Selection, parse_param};
use crate::{Ended, Meter};

fn select(request: ListQuery<'_>, rules: &PageRules) -> Selection {
    Selection::new(&request, &PEOPLE, CALLER, rules).expect("valid")
}

/// Ids in order and the total, however the list is found.
fn listed(request: ListQuery<'_>) -> (String, u64) {
    let net = net();
    let selection = select(request, &PageRules::LIST);
    let rows = || net.people.iter().map(|person| PEOPLE.row(&net, person));
    let page = selection.run(rows().rev(), &Meter::default()).unwrap();
    let by_id = selection.run_by_id(rows(), &Meter::default()).unwrap();
    let ids = |rows: &[crate::filter::Row<'_, _, super::net::Person>]| {
        rows.iter().map(|row| row.record().id).collect::<String>()
    };
    assert_eq!((ids(&page.rows), page.total), (ids(&by_id.rows), by_id.total), "{request:?}");
    (ids(&page.rows), page.total)
}

fn sorted(sort: &str) -> String {
    listed(ListQuery { sort, ..ListQuery::default() }).0
}

#[test]
fn orders() {
    assert_eq!(sorted(""), "abcd");
    assert_eq!(sorted("id"), "abcd");
    assert_eq!(sorted("id desc"), "dcba");
    assert_eq!(sorted("id desc, name"), "dcba");
    // Null first ascending, last descending; equal values by id ascending.
    assert_eq!(sorted("name"), "dabc");
    assert_eq!(sorted("name desc"), "cbad");
    assert_eq!(sorted("age"), "dacb");
    assert_eq!(sorted("age desc"), "bacd");
    assert_eq!(sorted("age, name desc"), "dcab");
    assert_eq!(sorted("age asc,id desc"), "dcab");
    assert_eq!(sorted("isAdmin"), "cdba");
    assert_eq!(sorted("score desc"), "bacd");
    assert_eq!(sorted("createdAt  desc"), "bacd");
}

#[test]
fn windows() {
    let window =
        |filter, limit, offset| listed(ListQuery { filter, limit, offset, ..ListQuery::default() });
    assert_eq!(window("", Some(2), None), ("ab".into(), 4));
    assert_eq!(window("", Some(2), Some(1)), ("bc".into(), 4));
    assert_eq!(window("", None, Some(3)), ("d".into(), 4));
    assert_eq!(window("", None, Some(4)), (String::new(), 4));
    assert_eq!(window("age = 30", Some(1), Some(1)), ("c".into(), 2));
    assert_eq!(window("limit none", None, Some(1)), ("bcd".into(), 4));
    assert_eq!(window("sort by name limit none", None, Some(1)), ("abc".into(), 4));
    assert_eq!(window("sort by name desc skip 1 limit 2", None, None), ("ba".into(), 4));
    assert_eq!(window("false", Some(-1), None), (String::new(), 0));
}

#[test]
fn clauses_of_the_filter_win() {
    let request = ListQuery {
        filter: "true sort by name skip 1 limit 2",
        sort: "id desc",
        limit: Some(1),
        offset: Some(3),
    };
    assert_eq!(listed(request), ("ab".into(), 4));
    let partly = ListQuery { filter: "limit 1", sort: "id desc", limit: None, offset: Some(1) };
    assert_eq!(listed(partly), ("c".into(), 4));
    let bad = ListQuery { filter: "sort by id", sort: "nonsense", ..ListQuery::default() };
    assert!(Selection::new(&bad, &PEOPLE, CALLER, &PageRules::LIST).is_err());
}

#[test]
fn defaults_and_limits_of_paging() {
    let count = |count| Some(LimitClause::Count(count));
    for (skip, limit, offset, expected) in [
        (None, None, 0, Some(10)),
        (Some(7), None, 7, Some(10)),
        (Some(-7), count(0), 0, Some(10)),
        (None, count(-2), 0, Some(10)),
        (None, count(i64::MIN), 0, Some(10)),
        (None, count(-1), 0, None),
        (None, Some(LimitClause::None), 0, None),
        (None, count(500), 0, Some(500)),
        (None, count(501), 0, Some(500)),
        (Some(100_000), count(1), 100_000, Some(1)),
        (Some(100_001), count(i64::MAX), 100_000, Some(500)),
    ] {
        let page = PageRules::LIST.page(skip, limit);
        assert_eq!(page, Page { offset, limit: expected }, "{skip:?} {limit:?}");
    }
    assert_eq!(Page { offset: 3, limit: Some(4) }.bounds(), (3, 7));
    assert_eq!(Page { offset: 3, limit: None }.bounds(), (3, usize::MAX));
    assert_eq!(Page { offset: 3, limit: None }.stated_limit(), i64::MAX);
    assert_eq!(Page { offset: 3, limit: Some(4) }.stated_limit(), 4);
}

#[test]
fn attribute_lists_ignore_the_parameters() {
    let request = ListQuery { filter: "", sort: "nonsense", limit: Some(1), offset: Some(1) };
    let page = select(request, &PageRules::ATTRIBUTES).page();
    assert_eq!(page, Page { offset: 0, limit: None });
    let request = ListQuery { filter: "skip 2 limit 700", ..request };
    let page = select(request, &PageRules::ATTRIBUTES).page();
    assert_eq!(page, Page { offset: 2, limit: Some(700) });
}

#[test]
fn paging_parameters_are_whole_numbers() {
    assert_eq!(parse_param("limit", "-1"), Ok(-1));
    for text in ["", "ten", "1.5", " 1", "99999999999999999999"] {
        let error = parse_param("limit", text).expect_err(text);
        assert_eq!((error.field, error.value.as_str()), ("limit", text));
    }
    let message = parse_param("offset", "x").expect_err("no number").to_string();
    assert_eq!(message, "parameter offset must be a whole number, not \"x\"");
}

#[test]
fn a_search_is_given_up_when_nobody_waits() {
    let mut net = net();
    net.people[3] = Person { services: vec![0; 5000], ..net.people[3].clone() };
    for filter in [
        "name = \"Zoe\" or age = 5",
        "isEmpty(from services where name = \"mail\")",
        "allOf(services.name) = \"web\"",
        "count(services) = 1",
        "not anyOf(services) = \"t\"",
    ] {
        let asked = Arc::new(AtomicU32::new(0));
        let asking = Arc::clone(&asked);
        // The first question comes before the first test.
        let meter = Meter::asking(u64::MAX, move || {
            (asking.fetch_add(1, Ordering::Relaxed) > 0).then_some(Ended::GivenUp)
        });
        let request = ListQuery { filter, ..ListQuery::default() };
        let selection = select(request, &PageRules::LIST);
        let rows = || [3; 1000].map(|at| PEOPLE.row(&net, &net.people[at]));
        assert_eq!(selection.run(rows(), &meter).err(), Some(Ended::GivenUp), "{filter}");
        assert_eq!(asked.load(Ordering::Relaxed), 2, "{filter}");
        let few = rows().into_iter().take(3);
        assert!(selection.run(few, &Meter::default()).is_ok(), "{filter}");
    }
}
