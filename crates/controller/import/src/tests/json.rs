//! JSON in buckets.

use serde_json::json;
use weft_model::Id;
use weft_model::entity::Config;

use super::network::{Network, array, bucket, flag, fraction, long, short, text, time, typed};
use super::writer::{Node, Tree};
use super::{import, reasons};

fn config(data: Node) -> Network {
    Network::new(44).with("configTypes", "t1", vec![("name", text("t"))]).with(
        "configs",
        "c1",
        vec![("name", text("c")), ("type", text("t1")), ("data", data)],
    )
}

#[test]
fn objects_lists_and_values_are_read() {
    let data = bucket(vec![
        ("text", text("a\u{e4}")),
        ("empty", text("")),
        ("short", short(-7)),
        ("long", long(1 << 60)),
        ("whole", fraction(8080.0)),
        ("part", fraction(1.5)),
        ("huge", fraction(1e300)),
        ("none", typed(7, &[])),
        ("yes", flag(true)),
        ("at", time(1_787_403_600)),
        ("object", bucket(vec![("a", bucket(vec![]))])),
        ("list", array(vec![text("x"), array(vec![]), bucket(vec![("low", fraction(80.0))])])),
    ]);
    let read = import(&config(data)).unwrap();
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    let config = read.snapshot.get::<Config>(&Id::new("c1")).unwrap();
    assert_eq!(
        config.data.to_value(),
        json!({
            "text": "a\u{e4}", "empty": "", "short": -7, "long": 1_i64 << 60, "whole": 8080,
            "part": 1.5, "huge": 1e300, "none": null, "yes": true,
            "at": "2026-08-22T13:00:00.000Z", "object": { "a": {} },
            "list": ["x", [], { "low": 80 }],
        })
    );
}

#[test]
fn a_list_of_two_hundred_keeps_its_order() {
    let data = bucket(vec![("list", array((0..200).map(|n| fraction(f64::from(n))).collect()))]);
    let read = import(&config(data)).unwrap();
    let config = read.snapshot.get::<Config>(&Id::new("c1")).unwrap();
    let list = config.data.get("list").unwrap().as_array().unwrap();
    assert!(list.iter().enumerate().all(|(index, it)| it.as_u64() == Some(index as u64)));
}

/// A list that says it has this length.
fn list_of(length: Node) -> Node {
    let key = "__list__size__36484231-110c-4767-afe2-01b6e3db107a";
    Node::Bucket(Tree::from([(key.as_bytes().to_vec(), length)]))
}

#[test]
fn what_is_no_object_is_a_loss_and_costs_nothing() {
    for (data, reason) in [
        (array(vec![]), "data: it is a list instead of an object"),
        (bucket(vec![("a", list_of(short(i32::MAX)))]), "data: it is too long"),
        (bucket(vec![("a", list_of(short(-1)))]), "data: it is too long"),
        (bucket(vec![("a", list_of(text("5")))]), "data: a list has no length"),
        (bucket(vec![("a", typed(5, &[0xFF]))]), "data: a text is not UTF-8"),
        (bucket(vec![("a", typed(2, &[1, 2]))]), "data: the bytes of a member are no value"),
        (bucket(vec![("a", typed(99, &[]))]), "data: the bytes of a member are no value"),
    ] {
        let read = import(&config(data)).unwrap();
        assert_eq!(reasons(&read, "c1"), [reason]);
        assert!(read.snapshot.get::<Config>(&Id::new("c1")).unwrap().data.is_empty());
    }
}

#[test]
fn an_object_of_more_than_sixteen_mebibytes_is_a_loss() {
    let long = || typed(5, &vec![b'a'; 6 << 20]);
    let data = bucket(vec![("a", long()), ("b", long()), ("c", long())]);
    let read = import(&config(data)).unwrap();
    assert_eq!(reasons(&read, "c1"), ["data: it is too long"]);
}
