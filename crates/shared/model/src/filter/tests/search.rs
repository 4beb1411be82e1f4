//! Searches by index against scans, and how they explain themselves.

use std::ops::ControlFlow;
use std::sync::Arc;

use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::net::CALLER;
use crate::entity::{Identity, Router};
use crate::filter::{
    Column, Index, ListQuery, Listed, PageRules, ROW, Row, SearchTrace, Selection, Source, Symbols,
    Type, Value, ValueVisitor,
};
use crate::role::attributes;
use crate::{Base, Ended, Entity, Id, Kind, Meter, Part, Timestamp};

type IdentityColumn = Column<(), Identity>;
type RouterColumn = Column<(), Router>;

fn texts(list: &[Arc<str>], visit: ValueVisitor<'_>) -> ControlFlow<()> {
    list.iter().try_for_each(|text| visit(Value::text(text)))
}

static IDENTITIES: Symbols<(), Identity> = Symbols {
    kind: "identities",
    id: |it| it.base.id.as_str(),
    shared: &[],
    columns: &[
        IdentityColumn::one("id", Type::String, |_, it| Value::text(it.base.id.as_str())).public(),
        IdentityColumn::one("name", Type::String, |_, it| Value::text(&it.name)).public(),
        IdentityColumn::one("createdAt", Type::Time, |_, it| {
            Value::unix_millis(it.base.created_at.0)
        })
        .public(),
        IdentityColumn::set("roleAttributes", Type::String, |_, it, visit| {
            texts(&it.role_attributes, visit)
        })
        .public(),
        IdentityColumn::one("externalId", Type::String, |_, it| {
            it.external_id.as_deref().map_or(Value::Null, Value::text)
        })
        .public()
        .indexed(Index::Unique(0)),
        IdentityColumn::one("authPolicyId", Type::String, |_, it| {
            Value::text(it.auth_policy_id.as_str())
        })
        .public()
        .indexed(Index::Link(0)),
        IdentityColumn::one("isAdmin", Type::Bool, |_, it| Value::Bool(it.is_admin)).public(),
    ],
};

static ROUTERS: Symbols<(), Router> = Symbols {
    kind: "routers",
    id: |it| it.base.id.as_str(),
    shared: &[],
    columns: &[
        RouterColumn::one("id", Type::String, |_, it| Value::text(it.base.id.as_str())).public(),
        RouterColumn::one("name", Type::String, |_, it| Value::text(&it.name)).public(),
        RouterColumn::one("createdAt", Type::Time, |_, it| {
            Value::unix_millis(it.base.created_at.0)
        })
        .public(),
        RouterColumn::set("roleAttributes", Type::String, |_, it, visit| {
            texts(&it.role_attributes, visit)
        })
        .public(),
        RouterColumn::set("configs", Type::String, |_, it, visit| {
            it.configs.iter().try_for_each(|id| visit(Value::text(id.as_str())))
        })
        .public()
        .indexed(Index::Link(0)),
    ],
};

/// One entity as numbers.
type Numbers = (u8, u8, i64, Vec<u8>, [bool; 2]);

fn entities() -> impl Strategy<Value = Vec<Numbers>> {
    let created = prop_oneof![12 => 0_i64..5, 1 => Just(i64::MAX)];
    let one = (0u8..40, 0u8..30, created, prop::collection::vec(0u8..5, 0..4), any::<[bool; 2]>());
    prop::collection::vec(one, 0..60)
}

fn base(id: u8, created: i64) -> Base {
    Base::new(Id::new(&format!("i{id:02}")), Timestamp(created))
}

fn attributes_of(numbers: &[u8]) -> Vec<Arc<str>> {
    let texts: Vec<_> = numbers.iter().map(|n| format!("r{n}")).collect();
    attributes(&texts).expect("fine")
}

fn identities(numbers: &[Numbers]) -> crate::Table {
    let mut table = crate::Table::new(Kind::Identity);
    for (id, name, created, roles, flags) in numbers {
        // Without a name, although no operation makes such an entity.
        let name = if *name == 0 { String::new() } else { format!("n{name:02}") };
        let identity = Identity {
            base: base(*id, *created),
            name: name.as_str().into(),
            external_id: flags[0].then(|| format!("x{id}").as_str().into()),
            auth_policy_id: Id::new(&format!("p{}", id % 3)),
            role_attributes: attributes_of(roles),
            is_admin: flags[1],
            ..Identity::default()
        };
        // Entities with a name that exists are left out.
        let _ = table.put(identity);
        if flags[0] && id % 7 == 0 {
            table.remove(&Id::new(&format!("i{:02}", id / 2)));
        }
    }
    table
}

fn routers(numbers: &[Numbers]) -> crate::Table {
    let mut table = crate::Table::new(Kind::Router);
    for (id, name, created, roles, flags) in numbers {
        let router = Router {
            base: base(*id, *created),
            name: format!("n{name:02}").as_str().into(),
            is_edge: flags[0],
            role_attributes: attributes_of(roles),
            configs: roles.iter().map(|n| Id::new(&format!("c{n}"))).collect(),
            ..Router::default()
        };
        let _ = table.put(router);
    }
    table
}

fn text() -> impl Strategy<Value = String> {
    let texts = prop_oneof![
        (0u8..40).prop_map(|n| format!("i{n:02}")),
        (0u8..30).prop_map(|n| format!("n{n:02}")),
        (0u8..5).prop_map(|n| format!("r{n}")),
        (0u8..5).prop_map(|n| format!("c{n}")),
        (0u8..3).prop_map(|n| format!("p{n}")),
        (0u8..40).prop_map(|n| format!("x{n}")),
        Just(String::new()),
        Just("n1".to_owned()),
    ];
    texts.prop_map(|text| format!("\"{text}\""))
}

fn time() -> impl Strategy<Value = String> {
    // Times between two milliseconds are included.
    const TIMES: [&str; 7] =
        ["00.000", "00.001", "00.0015", "00.002", "00.003999999", "00.004", "01.000"];
    let times = prop::sample::select(&TIMES);
    times.prop_map(|time| format!("datetime(1970-01-01T00:00:{time}Z)"))
}

fn text_test(name: String) -> impl Strategy<Value = String> {
    let op = prop::sample::select(&["=", "!=", "<", "<=", ">", ">="]);
    let list = (prop::sample::select(&["in", "not in"]), prop::collection::vec(text(), 1..4));
    let list = list.prop_map(|(word, list)| format!("{word} [{}]", list.join(", ")));
    let contains = (prop::sample::select(&["contains", "not contains", "icontains"]), text());
    let contains = contains.prop_map(|(word, text)| format!("{word} {text}"));
    let compare = (op.clone(), text()).prop_map(|(op, text)| format!("{op} {text}"));
    let number = (op, 0u8..40).prop_map(|(op, number)| format!("{op} {number}"));
    prop_oneof![6 => compare, 2 => list, 1 => contains, 1 => number]
        .prop_map(move |it| format!("{name} {it}"))
}

fn one_test(
    single: &'static [&'static str],
    sets: &'static [&'static str],
) -> BoxedStrategy<String> {
    let single = prop::sample::select(single).prop_map(str::to_owned);
    let set = (prop::sample::select(&["anyOf", "allOf"]), prop::sample::select(sets));
    let set = set.prop_map(|(word, name)| format!("{word}({name})"));
    let op = prop::sample::select(&["=", "!=", "<", "<=", ">", ">="]);
    prop_oneof![
        4 => single.clone().prop_flat_map(text_test),
        3 => set.prop_flat_map(text_test),
        2 => (op, time()).prop_map(|(op, at)| format!("createdAt {op} {at}")),
        1 => (time(), time()).prop_map(|(a, b)| format!("createdAt between {a} and {b}")),
        1 => single.prop_map(|name| format!("{name} = null")),
        1 => prop::sample::select(sets).prop_map(|name| format!("isEmpty({name})")),
        1 => prop::sample::select(sets).prop_map(|name| format!("count({name}) > 1")),
        1 => prop::sample::select(&["true", "false"]).prop_map(str::to_owned),
    ]
    .boxed()
}

fn filter(single: &'static [&'static str], sets: &'static [&'static str]) -> BoxedStrategy<String> {
    one_test(single, sets)
        .prop_recursive(3, 12, 3, |inner| {
            let pair = (inner.clone(), prop::sample::select(&["and", "or"]), inner.clone());
            prop_oneof![
                3 => pair.prop_map(|(a, word, b)| format!("(({a}) {word} ({b}))")),
                1 => inner.prop_map(|it| format!("(not ({it}))")),
            ]
        })
        .boxed()
}

fn sort(names: &'static [&'static str]) -> impl Strategy<Value = String> {
    let key = (prop::sample::select(names), prop::sample::select(&["", " asc", " desc"]));
    prop::collection::vec(key, 0..3).prop_map(|keys| {
        keys.iter().map(|(name, way)| format!("{name}{way}")).collect::<Vec<_>>().join(", ")
    })
}

/// Ids in order and the total.
fn seen<R>(listed: Listed<Row<'_, (), R>>, id: fn(&R) -> &str) -> (Vec<String>, u64) {
    (listed.rows.iter().map(|row| id(row.record()).to_owned()).collect(), listed.total)
}

/// The ids on a page, and the number of matches.
type Page = (Vec<String>, u64);

/// Lists by index and by scan.
fn both<R: crate::Record>(
    table: &crate::Table,
    symbols: &'static Symbols<(), R>,
    request: &ListQuery<'_>,
    within: Option<&RoaringBitmap>,
    hidden: Option<u8>,
) -> (Page, Page, SearchTrace) {
    let selection = Selection::new(request, symbols, CALLER, &PageRules::LIST);
    let selection = selection.unwrap_or_else(|error| panic!("{request:?}: {error}"));
    let shown = |entity: &Entity| {
        hidden.is_none_or(|digit| !entity.id().as_str().ends_with(char::from(b'0' + digit)))
    };
    let row = |entity| {
        let record = Entity::get::<R>(entity)?;
        shown(entity).then(|| symbols.row(&(), record))
    };
    let source = Source { table, within: within.cloned(), all_have_rows: hidden.is_none(), row };
    let (found, trace) = selection.search(source, &Meter::default()).unwrap();
    let candidates = table
        .occupied()
        .filter(|(ordinal, _)| within.is_none_or(|within| within.contains(*ordinal)));
    let rows = candidates.filter_map(|(_, entity)| row(entity));
    let scanned = selection.run(rows, &Meter::default()).unwrap();
    assert_eq!(found.page, scanned.page);
    (seen(found, symbols.id), seen(scanned, symbols.id), trace)
}

const IDENTITY_TEXTS: &[&str] = &["id", "name", "externalId", "authPolicyId"];
const IDENTITY_SORTS: &[&str] =
    &["id", "name", "createdAt", "externalId", "authPolicyId", "isAdmin"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn indexes_find_what_a_scan_finds(
        numbers in entities(),
        filter in filter(IDENTITY_TEXTS, &["roleAttributes"]),
        sort in sort(IDENTITY_SORTS),
        (limit, offset) in (prop::option::of(-1_i64..8), prop::option::of(0_i64..40)),
        within in prop::option::of(prop::collection::btree_set(0u32..40, 0..30)),
        hidden in prop::option::weighted(0.2, 0u8..10),
    ) {
        let table = identities(&numbers);
        let within: Option<RoaringBitmap> = within.map(|set| set.into_iter().collect());
        let within = within.map(|set| set & &**table.live());
        let request = ListQuery { filter: &filter, sort: &sort, limit, offset };
        let (found, scanned, trace) =
            both(&table, &IDENTITIES, &request, within.as_ref(), hidden);
        prop_assert_eq!(found, scanned, "{}", trace);
    }

    #[test]
    fn attributes_that_policies_cannot_mean_are_found_too(
        numbers in entities(),
        filter in filter(&["id", "name"], &["roleAttributes", "configs"]),
        sort in sort(&["id", "name", "createdAt"]),
        offset in prop::option::of(0_i64..40),
    ) {
        let table = routers(&numbers);
        let request = ListQuery { filter: &filter, sort: &sort, limit: None, offset };
        let (found, scanned, trace) = both(&table, &ROUTERS, &request, None, None);
        prop_assert_eq!(found, scanned, "{}", trace);
    }
}

/// Checks that a search, and a list of rows, take no more units than their estimates.
fn is_estimated<R: crate::Record>(
    table: &crate::Table,
    symbols: &'static Symbols<(), R>,
    request: &ListQuery<'_>,
    within: Option<RoaringBitmap>,
    hidden: Option<u8>,
) {
    let selection = Selection::new(request, symbols, CALLER, &PageRules::LIST).expect("valid");
    let shown = |entity: &Entity| {
        hidden.is_none_or(|digit| !entity.id().as_str().ends_with(char::from(b'0' + digit)))
    };
    let row = |entity| {
        let record = Entity::get::<R>(entity)?;
        shown(entity).then(|| symbols.row(&(), record))
    };
    let source = Source { table, within, all_have_rows: hidden.is_none(), row };
    let (effort, meter) = (selection.effort(&source), Meter::new(u64::MAX));
    let (found, trace) = selection.search(source, &meter).unwrap();
    let spent = meter.spent() + found.rows.len() as u64 * ROW;
    assert!(spent <= effort, "{spent} of {effort} for {request:?}: {trace}");

    let records: Vec<_> = table.iter().filter_map(Entity::get::<R>).collect();
    for by_id in [false, true] {
        let (effort, meter) = (selection.effort_of(table.len()), Meter::new(u64::MAX));
        let rows = records.iter().map(|record| symbols.row(&(), *record));
        let listed = match by_id {
            true => selection.run_by_id(rows, &meter),
            false => selection.run(rows, &meter),
        };
        let spent = meter.spent() + listed.unwrap().rows.len() as u64 * ROW;
        assert!(spent <= effort, "{spent} of {effort} for {request:?} by id: {by_id}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_list_takes_more_work_than_was_estimated(
        numbers in entities(),
        filter in prop_oneof![
            4 => filter(IDENTITY_TEXTS, &["roleAttributes"]),
            1 => Just(String::new()),
        ],
        sort in sort(IDENTITY_SORTS),
        (limit, offset) in (prop::option::of(-1_i64..8), prop::option::of(0_i64..40)),
        within in prop::option::of(prop::collection::btree_set(0u32..40, 0..30)),
        hidden in prop::option::weighted(0.2, 0u8..10),
    ) {
        let request = ListQuery { filter: &filter, sort: &sort, limit, offset };
        let table = identities(&numbers);
        let within: Option<RoaringBitmap> = within.map(|set| set.into_iter().collect());
        let within = within.map(|set| set & &**table.live());
        is_estimated(&table, &IDENTITIES, &request, within, hidden);
    }

    #[test]
    fn no_list_with_attributes_that_policies_cannot_mean_takes_more_work_than_was_estimated(
        numbers in entities(),
        filter in filter(&["id", "name"], &["roleAttributes", "configs"]),
        sort in sort(&["id", "name", "createdAt"]),
    ) {
        let request = ListQuery { filter: &filter, sort: &sort, ..ListQuery::default() };
        is_estimated(&routers(&numbers), &ROUTERS, &request, None, None);
    }
}

/// Identities of which each bears attributes of its own.
fn bearing(identities: u32, attributes: u32) -> crate::Table {
    let mut table = crate::Table::new(Kind::Identity);
    for n in 0..identities {
        let own: Vec<String> = (0..attributes).map(|at| format!("r{n}-{at}")).collect();
        let identity = Identity {
            base: base(0, 0),
            name: format!("n{n}").as_str().into(),
            role_attributes: crate::role::attributes(&own).expect("fine"),
            ..Identity::default()
        };
        let base = Base::new(Id::new(&format!("i{n}")), Timestamp(0));
        table.put(Identity { base, ..identity }).expect("fine");
    }
    table
}

#[test]
fn what_is_excepted_counts_and_so_does_the_work_on_indexes() {
    let table = bearing(100, 40);
    let one = "(name contains \"z1\" and not (anyOf(roleAttributes) contains \"q1\"))";
    let filter = vec![one; 500].join(" or ");
    let request = ListQuery { filter: &filter, ..ListQuery::default() };
    let selection = Selection::new(&request, &IDENTITIES, CALLER, &PageRules::LIST).unwrap();
    let row = |entity| Some(IDENTITIES.row(&(), Entity::get::<Identity>(entity)?));
    let source = || Source { table: &table, within: None, all_have_rows: true, row };
    // Each of the 500 conditions asks 4000 attributes, and is tested on 100 entities.
    let least = 500 * 4000;
    assert!(selection.effort(&source()) >= least);
    let meter = Meter::new(u64::MAX);
    selection.search(source(), &meter).unwrap();
    assert!(meter.spent() >= least, "{meter:?}");

    let small = Meter::new(least / 2);
    let refused = selection.search(source(), &small).err();
    assert_eq!(refused, Some(Ended::TooMuch(least / 2, Part::Index)));
    assert!(small.spent() <= least / 2 + 100, "{small:?}: it ends soon");

    let request = ListQuery { filter: "name contains \"z1\"", ..ListQuery::default() };
    let selection = Selection::new(&request, &IDENTITIES, CALLER, &PageRules::LIST).unwrap();
    let refused = selection.search(source(), &Meter::new(300)).err();
    assert_eq!(refused, Some(Ended::TooMuch(300, Part::Tests)));
    let request = ListQuery { sort: "isAdmin", limit: Some(-1), ..ListQuery::default() };
    let selection = Selection::new(&request, &IDENTITIES, CALLER, &PageRules::LIST).unwrap();
    let refused = selection.search(source(), &Meter::new(1500)).err();
    assert_eq!(refused, Some(Ended::TooMuch(1500, Part::Order)));
}

/// 200 identities: `i00` to `i199`, half of them with the attribute `r0`, one in twenty with `r1`.
fn many() -> crate::Table {
    let mut table = crate::Table::new(Kind::Identity);
    for n in 0..200_u32 {
        let mut roles = vec![if n % 2 == 0 { "r0" } else { "r2" }];
        if n % 20 == 0 {
            roles.push("r1");
        }
        let identity = Identity {
            base: Base::new(Id::new(&format!("i{n:03}")), Timestamp(i64::from(n / 4))),
            name: format!("n{:03}", 199 - n).as_str().into(),
            auth_policy_id: Id::new("p"),
            role_attributes: attributes(&roles).expect("fine"),
            ..Identity::default()
        };
        table.put(identity).expect("fine");
    }
    table
}

fn trace(filter: &str, sort: &str, offset: i64) -> String {
    let request = ListQuery { filter, sort, limit: Some(2), offset: Some(offset) };
    let (found, scanned, trace) = both(&many(), &IDENTITIES, &request, None, None);
    assert_eq!(found, scanned, "{trace}");
    trace.to_string()
}

#[test]
fn searches_tell_how_they_went() {
    for (filter, sort, offset, expected) in [
        ("", "", 150, "everything; 0 tested, 200 match; page by rank in the index of id"),
        (
            "",
            "createdAt desc",
            3,
            "everything; 0 tested, 200 match; page after 5 steps in the index of createdAt desc, id",
        ),
        (
            "name = \"n007\"",
            "name",
            0,
            "index name = \"n007\"; 1 candidate, 0 tested, 1 match; 1 sorted by name, id",
        ),
        (
            "anyOf(roleAttributes) = \"r0\"",
            "name desc",
            4,
            "index anyOf(roleAttributes) = \"r0\"; 100 candidates, 0 tested, 100 match; \
             page after 11 steps in the index of name desc, id",
        ),
        (
            "anyOf(roleAttributes) = \"r0\" and isAdmin",
            "",
            0,
            "index anyOf(roleAttributes) = \"r0\", then test; 100 candidates, 100 tested, 0 match; \
             page by rank in the index of id",
        ),
        (
            "anyOf(roleAttributes) = \"r0\" and anyOf(roleAttributes) = \"r1\"",
            "name",
            0,
            "index anyOf(roleAttributes) = \"r0\" and index anyOf(roleAttributes) = \"r1\"; \
             10 candidates, 0 tested, 10 match; page after 40 steps in the index of name, id",
        ),
        (
            "id in [\"i000\", \"i010\", \"i020\"] and anyOf(roleAttributes) = \"r1\"",
            "",
            0,
            "index id = [\"i000\", \"i010\", \"i020\"] and index anyOf(roleAttributes) = \"r1\"; 3 candidates, 3 tested, \
             2 match; 2 sorted by id",
        ),
        (
            "authPolicyId != \"q\"",
            "isAdmin",
            0,
            "not index authPolicyId = \"q\"; 200 candidates, 0 tested, 200 match; \
             200 sorted by isAdmin, id",
        ),
        (
            "name contains \"7\" or id = \"i001\"",
            "",
            0,
            "scan; 200 tested, 39 match; page after 3 steps in the index of id",
        ),
        (
            "id >= \"i010\" and id < \"i110\"",
            "",
            0,
            "index id >= \"i010\" and index id < \"i110\"; 100 candidates, 0 tested, 100 match; \
             page after 12 steps in the index of id",
        ),
    ] {
        assert_eq!(trace(filter, sort, offset), expected, "{filter}");
    }
}
