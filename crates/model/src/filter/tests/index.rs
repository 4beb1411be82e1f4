//! What indexes are asked, and how a plan explains itself.

use std::cell::RefCell;
use std::ops::{Bound, RangeBounds};

use roaring::RoaringBitmap;

use super::net::{PEOPLE, net, plan};
use crate::filter::{
    Access, Audience, Indexes, ListQuery, Literal, Lookup, PageRules, Record, Schema, Selection,
    SymbolId,
};

fn symbol(name: &str) -> SymbolId {
    PEOPLE.symbol(name).expect(name).id
}

/// Answers by looking at everybody, and keeps what it was asked.
#[derive(Default)]
struct Scanned {
    asked: RefCell<Vec<SymbolId>>,
}

impl Indexes for Scanned {
    fn lookup(&self, lookup: &Lookup<'_>) -> Option<RoaringBitmap> {
        let net = net();
        let (Lookup::Equal { symbol, .. }
        | Lookup::Range { symbol, .. }
        | Lookup::Holds { symbol, .. }) = lookup;
        self.asked.borrow_mut().push(*symbol);
        let answers = |place: &usize| {
            let row = PEOPLE.row(&net, &net.people[*place]);
            let is = |value: &crate::filter::Value<'_>, literal: &Literal| {
                value.compare(literal).is_some_and(std::cmp::Ordering::is_eq)
            };
            match lookup {
                Lookup::Equal { symbol, values } => {
                    values.iter().any(|literal| is(&row.value(*symbol), literal))
                }
                Lookup::Holds { symbol, values } => {
                    let mut found = false;
                    let _ = row.each(*symbol, &mut |value| {
                        found |= values.iter().any(|literal| is(&value, literal));
                        std::ops::ControlFlow::Continue(())
                    });
                    found
                }
                Lookup::Range { symbol, low, high } => match row.value(*symbol) {
                    crate::filter::Value::Int(age) => {
                        let int = |bound: &Bound<&Literal>| {
                            bound.map(|literal| match literal {
                                Literal::Int(value) => *value,
                                other => panic!("{other:?}"),
                            })
                        };
                        (int(low), int(high)).contains(&age)
                    }
                    _ => false,
                },
            }
        };
        Some((0..net.people.len()).filter(answers).map(|place| place as u32).collect())
    }
}

#[test]
fn conjuncts_that_an_index_serves_are_exposed() {
    let one = |text: &str| Literal::Text(text.into());
    let name = [one("Ann")];
    assert_eq!(
        plan("name = \"Ann\" and score > 1").access(),
        Access::Lookup(Lookup::Equal { symbol: symbol("name"), values: &name })
    );
    let low = Literal::Int(3);
    assert_eq!(
        plan("age > 3").access(),
        Access::Lookup(Lookup::Range {
            symbol: symbol("age"),
            low: Bound::Excluded(&low),
            high: Bound::Unbounded,
        })
    );
    let roles = [one("dev"), one("ops")];
    assert_eq!(
        plan("anyOf(roleAttributes) in [\"ops\", \"dev\", \"ops\"]").access(),
        Access::Lookup(Lookup::Holds { symbol: symbol("roleAttributes"), values: &roles })
    );
    let yes = [Literal::Bool(true)];
    assert_eq!(
        plan("isAdmin").access(),
        Access::Lookup(Lookup::Equal { symbol: symbol("isAdmin"), values: &yes })
    );
    assert!(matches!(
        plan("id = \"x\" or name = \"x\"").access(),
        Access::Union(parts) if parts.len() == 2
    ));
    assert!(matches!(
        plan("age between 1 and 5 and anyOf(roleAttributes) = \"x\"").access(),
        Access::Intersect(parts) if parts.len() == 2
    ));
}

#[test]
fn what_no_index_serves_is_a_scan() {
    for text in [
        "",
        "score = 1",
        "name > \"x\"",
        "name contains \"x\"",
        "name != \"x\"",
        "name = null",
        "not name = \"x\"",
        "name not in [\"x\"]",
        "name = \"x\" or score = 1",
        "allOf(roleAttributes) = \"x\"",
        "anyOf(roleAttributes) != \"x\"",
        "anyOf(services) = \"s\"",
        "anyOf(services.name) = \"s\"",
        "isEmpty(roleAttributes)",
    ] {
        assert_eq!(plan(text).access(), Access::Everything, "{text}");
        assert_eq!(plan(text).candidates(&Scanned::default()), None, "{text}");
    }
    assert_eq!(plan("name = \"x\" and false").access(), Access::Nothing);
    assert_eq!(plan("false").candidates(&Scanned::default()), Some(RoaringBitmap::new()));
}

#[test]
fn candidates_are_a_superset_of_the_matches() {
    for (text, expected) in [
        ("age >= 30 and age < 40", vec![0, 2]),
        ("age <= 30", vec![0, 2]),
        ("id = \"d\" or name = \"Bob\"", vec![1, 3]),
        ("anyOf(roleAttributes) = \"dev\" and (id = \"b\" or id = \"c\")", vec![2]),
        ("isAdmin and name contains \"zzz\"", vec![0]),
        ("name in [\"Ann\", \"Cid\"] and not isAdmin", vec![0, 2]),
    ] {
        let found = plan(text).candidates(&Scanned::default()).expect(text);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn an_empty_intersection_asks_no_further() {
    let indexes = Scanned::default();
    let found = plan("name = \"Nobody\" and isAdmin").candidates(&indexes).expect("indexed");
    assert!(found.is_empty());
    assert_eq!(indexes.asked.borrow().len(), 1);
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
    let selection =
        Selection::new(&request, &PEOPLE, Audience::Caller, &PageRules::LIST).expect("valid");
    assert_eq!(
        selection.explain(),
        "list people
candidates:
  in all of
    in any of
      index id = \"a\"
      index name = [\"Ann\", \"Bob\"]
    index holders of roleAttributes = \"dev\"
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
        "list people\ncandidates:\n  everything\ntest each:\n  always\norder: name, id\nskip: 3\nlimit: none\n"
    );
}
