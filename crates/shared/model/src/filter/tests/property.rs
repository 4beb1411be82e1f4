//! Properties: no text panics, printing keeps the meaning, simplified plans select the same.

use proptest::prelude::*;
use time::OffsetDateTime;

use super::net::{CALLER, PEOPLE, ids_of, net};
use crate::Meter;
use crate::filter::{
    Check, Direction, Expr, LimitClause, ListQuery, Literal, Name, Op, Operand, PageRules,
    Position, Query, Selection, SetExpr, SortField, Test, bind, parse, parse_sort,
};

/// Words of the language, which fit the grammar more often than random characters.
const PIECES: &[&str] = &[
    "name",
    "age",
    "isAdmin",
    "tags.site",
    "roleAttributes",
    "services",
    "services.name",
    "'id'",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "not",
    "in",
    "between",
    "contains",
    "icontains",
    "and",
    "or",
    "(",
    ")",
    "[",
    "]",
    ",",
    "anyOf(",
    "allOf(",
    "count(",
    "isEmpty(",
    "from",
    "where",
    "sort",
    "by",
    "asc",
    "desc",
    "skip",
    "limit",
    "none",
    "null",
    "true",
    "false",
    "1",
    "-2.5",
    "1e5",
    "\"x\"",
    "\"",
    "\\",
    "'",
    "datetime(2024-01-01T00:00:00Z)",
    "datetime(",
    ".",
    "-",
    "é",
    "\0",
];

fn soup() -> impl Strategy<Value = String> {
    let space = prop_oneof![4 => Just(" "), 1 => Just(""), 1 => Just("\t\n")];
    prop::collection::vec((prop::sample::select(PIECES), space), 0..24)
        .prop_map(|parts| parts.into_iter().flat_map(|(piece, space)| [piece, space]).collect())
}

fn name(names: &'static [&'static str]) -> impl Strategy<Value = Name> {
    prop::sample::select(names).prop_map(|text| Name { text: text.into(), at: Position::default() })
}

fn text() -> impl Strategy<Value = Literal> {
    "[a-zA-Z\"\\\\ \t\r\n\u{c}é✓']{0,8}".prop_map(Literal::Text)
}

fn number() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any::<i64>().prop_map(Literal::Int),
        (-50_i64..50).prop_map(Literal::Int),
        any::<f64>().prop_filter("finite", |it| it.is_finite()).prop_map(Literal::Float),
    ]
}

fn time() -> impl Strategy<Value = Literal> {
    // The years 0 to 9999, in nanoseconds.
    (-62_167_219_200_i64..253_402_300_800, 0_u32..1_000_000_000).prop_map(|(seconds, nanos)| {
        let whole = OffsetDateTime::from_unix_timestamp(seconds).expect("in range");
        Literal::Time(whole.replace_nanosecond(nanos).expect("in range"))
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop::sample::select(vec![
        Op::Equal,
        Op::NotEqual,
        Op::Less,
        Op::LessOrEqual,
        Op::Greater,
        Op::GreaterOrEqual,
    ])
}

fn list(of: impl Strategy<Value = Literal>) -> impl Strategy<Value = Vec<Literal>> {
    prop::collection::vec(of, 1..5)
}

fn text_check() -> impl Strategy<Value = Check> {
    prop_oneof![
        (op(), text()).prop_map(|(op, value)| Check::Compare(op, value)),
        (any::<bool>(), list(text())).prop_map(|(negated, values)| Check::In { negated, values }),
        (any::<bool>(), any::<bool>(), text())
            .prop_map(|(negated, fold, needle)| Check::Contains { negated, fold, needle }),
    ]
}

fn number_check() -> impl Strategy<Value = Check> {
    prop_oneof![
        (op(), number()).prop_map(|(op, value)| Check::Compare(op, value)),
        (any::<bool>(), list(number())).prop_map(|(negated, values)| Check::In { negated, values }),
        (any::<bool>(), number(), number()).prop_map(|(negated, low, high)| Check::Between {
            negated,
            low,
            high
        }),
        (any::<bool>(), number()).prop_map(|(negated, needle)| Check::Contains {
            negated,
            fold: false,
            needle
        }),
    ]
}

fn time_check() -> impl Strategy<Value = Check> {
    prop_oneof![
        (op(), time()).prop_map(|(op, value)| Check::Compare(op, value)),
        (any::<bool>(), time(), time()).prop_map(|(negated, low, high)| Check::Between {
            negated,
            low,
            high
        }),
        any::<bool>().prop_map(|negated| Check::Null { negated }),
    ]
}

fn test(
    left: impl Strategy<Value = Operand>,
    check: impl Strategy<Value = Check>,
) -> impl Strategy<Value = Expr> {
    (left, check)
        .prop_map(|(left, check)| Expr::Test(Test { left, check, at: Position::default() }))
}

/// Conditions of types that fit people, so that they can be bound too.
fn expr() -> impl Strategy<Value = Expr> {
    let plain = |names| name(names).prop_map(Operand::Symbol);
    let set = || name(&["roleAttributes", "services", "services.name"]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Expr::Constant),
        name(&["isAdmin", "tags.new-desk"]).prop_map(Expr::Symbol),
        test(plain(&["id", "name", "tags.site"]), text_check()),
        test(plain(&["age", "score", "tags.floor"]), number_check()),
        test(plain(&["createdAt"]), time_check()),
        test(set().prop_map(Operand::AnyOf), text_check()),
        test(set().prop_map(Operand::AllOf), text_check()),
        test(set().prop_map(|it| Operand::Count(SetExpr::Symbol(it))), number_check()),
        set().prop_map(|it| Expr::Empty(SetExpr::Symbol(it))),
        sub_query().prop_map(Expr::Empty),
        test(sub_query().prop_map(Operand::Count), number_check()),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|it| Expr::Not(Box::new(it))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::And),
            prop::collection::vec(inner, 2..4).prop_map(Expr::Or),
        ]
    })
}

fn sub_query() -> impl Strategy<Value = SetExpr> {
    let inner = test(name(&["id", "name"]).prop_map(Operand::Symbol), text_check());
    (name(&["services"]), inner, prop::option::of(-1_i64..3), prop::option::of(limit())).prop_map(
        |(name, condition, skip, limit)| {
            let query = Query { condition: Some(condition), skip, limit, ..Query::default() };
            SetExpr::From(name, Box::new(query))
        },
    )
}

fn limit() -> impl Strategy<Value = LimitClause> {
    prop_oneof![Just(LimitClause::None), (-2_i64..20).prop_map(LimitClause::Count)]
}

fn query() -> impl Strategy<Value = Query> {
    let direction = prop::sample::select(vec![Direction::Ascending, Direction::Descending]);
    let field = (name(&["id", "name", "age", "isAdmin"]), direction)
        .prop_map(|(name, direction)| SortField { name, direction });
    (
        prop::option::of(expr()),
        prop::collection::vec(field, 0..5),
        prop::option::of(-3_i64..10),
        prop::option::of(limit()),
    )
        .prop_map(|(condition, sort, skip, limit)| Query {
            condition,
            sort,
            skip,
            limit,
            ..Query::default()
        })
}

/// Checks a text: it fails with a position inside it, or prints as text with the same meaning.
fn survives(text: &str) {
    match parse(text) {
        Ok(query) => {
            let printed = query.to_string();
            assert_eq!(parse(&printed).as_ref(), Ok(&query), "{text} printed as {printed}");
            if let Ok(plan) = bind(&query, &PEOPLE, CALLER) {
                ids_of(&plan);
                plan.explain();
            }
        }
        Err(error) => {
            assert!(error.offset() <= text.len());
            assert!(text.is_char_boundary(error.offset()));
            assert!(error.to_string().contains('^'));
        }
    }
    let _ = parse_sort(text);
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        survives(&text);
    }

    #[test]
    fn no_soup_of_words_panics(text in soup()) {
        survives(&text);
    }

    #[test]
    fn printing_keeps_the_query(query in query()) {
        let printed = query.to_string();
        prop_assert_eq!(parse(&printed).map_err(|error| error.to_string()), Ok(query), "{}", printed);
    }

    #[test]
    fn negation_selects_the_others(expr in expr()) {
        let select = |condition| {
            let query = Query { condition: Some(condition), ..Query::default() };
            ids_of(&bind(&query, &PEOPLE, CALLER).expect("well typed"))
        };
        let chosen = select(expr.clone());
        let others = select(Expr::Not(Box::new(expr)));
        let mut all: Vec<char> = chosen.chars().chain(others.chars()).collect();
        all.sort_unstable();
        prop_assert_eq!(all, ['a', 'b', 'c', 'd']);
    }

    #[test]
    fn simplification_and_order_of_tests_change_nothing(parts in prop::collection::vec(expr(), 1..4)) {
        let select = |condition: Expr| {
            let query = Query { condition: Some(condition), ..Query::default() };
            ids_of(&bind(&query, &PEOPLE, CALLER).expect("well typed"))
        };
        let single: Vec<String> = parts.iter().cloned().map(select).collect();
        let by = |all: bool| -> String {
            "abcd".chars().filter(|id| {
                let mut holds = single.iter().map(|ids| ids.contains(*id));
                if all { holds.all(|it| it) } else { holds.any(|it| it) }
            }).collect()
        };
        prop_assert_eq!(select(Expr::And(parts.clone())), by(true));
        prop_assert_eq!(select(Expr::Or(parts)), by(false));
    }

    #[test]
    fn a_page_is_a_piece_of_the_whole_list(
        query in query(), offset in 0_i64..6, limit in 1_i64..6,
    ) {
        let net = net();
        let base = Query { skip: None, limit: None, ..query };
        let run = |tail: String| {
            let gap = if base == Query::default() { "" } else { " " };
            let filter = format!("{base}{gap}{tail}");
            let request = ListQuery { filter: &filter, ..ListQuery::default() };
            let rows = net.people.iter().map(|person| PEOPLE.row(&net, person));
            let list = Selection::new(&request, &PEOPLE, CALLER, &PageRules::LIST)
                .expect("well typed")
                .run(rows, &Meter::default())
                .expect("nothing ends the search");
            (list.rows.iter().map(|row| row.record().id).collect::<String>(), list.total)
        };
        let (whole, total) = run("limit none".into());
        prop_assert_eq!(whole.len() as u64, total);
        let (page, page_total) = run(format!("skip {offset} limit {limit}"));
        prop_assert_eq!(page_total, total);
        let expected: String =
            whole.chars().skip(offset as usize).take(limit as usize).collect();
        prop_assert_eq!(page, expected);
    }
}
