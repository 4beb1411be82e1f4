//! Syntax: every production, and the errors in each.

use time::macros::datetime;

use crate::filter::{
    Check, Code, Direction, Expr, LimitClause, Literal, MAX_DEPTH, MAX_SUB_QUERIES, MAX_TESTS,
    MAX_TEXT, Op, Operand, Query, Reason, SetExpr, Test, parse, parse_sort,
};

fn parsed(text: &str) -> Query {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn printed(text: &str) -> String {
    parsed(text).to_string()
}

/// The right side of a filter with one test.
fn check(text: &str) -> Check {
    match parsed(text).condition {
        Some(Expr::Test(Test { check, .. })) => check,
        other => panic!("{text}: {other:?}"),
    }
}

/// The offset of a failure, the found text and the expected one.
fn failure(text: &str) -> (usize, String, &'static str) {
    let error = parse(text).expect_err(text);
    assert_eq!(error.code(), Code::Filter);
    match error.reason() {
        Reason::Unexpected { found, expected } => (error.offset(), found.clone(), expected),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn chains_bind_to_the_right_whatever_the_word() {
    for (text, meaning) in [
        ("a = 1 and b = 2 or c = 3", "a = 1 and (b = 2 or c = 3)"),
        ("a = 1 or b = 2 and c = 3", "a = 1 or (b = 2 and c = 3)"),
        ("not a = 1 and b = 2", "not a = 1 and b = 2"),
        ("(a = 1 or b = 2) and c = 3 or d = 4", "(a = 1 or b = 2) and (c = 3 or d = 4)"),
        (
            "a = 1 and b = 2 and c = 3 or d = 4 and e = 5",
            "a = 1 and b = 2 and (c = 3 or (d = 4 and e = 5))",
        ),
        ("true and not a = 1 and b = 2", "true and not a = 1 and b = 2"),
        ("(not a) and b", "(not a) and b"),
    ] {
        assert_eq!(printed(text), meaning, "{text}");
        assert_eq!(parsed(meaning), parsed(text), "{text}");
    }
    assert_eq!(parsed("not a = 1 and b = 2"), parsed("not (a = 1 and b = 2)"));
    assert_ne!(parsed("not a = 1 and b = 2"), parsed("(not a = 1) and b = 2"));
    assert_eq!(parsed("true and not a = 1 and b"), parsed("true and (not (a = 1 and b))"));
}

#[test]
fn everything_that_clients_send_is_accepted() {
    for text in [
        "",
        " \t\r\n",
        "limit 5",
        "skip 1 limit 3",
        "sort by name",
        "sort by a asc,b",
        "true sort by name desc, id skip 5 limit none",
        "true skip 0 limit 2",
        "TRUE LIMIT NONE",
        "name=\"a\"",
        "name!= \"a\"",
        "isEmpty(from x where name = \"y\" limit 2)",
        "isEmpty( from x where sort by a )",
        "count(x) > 3",
        "count( from x where y ) >= 3",
        "anyOf(roleAttributes) in [\"x\"]",
        "ALLOF( roleAttributes ) NOT IN [ \"x\" , \"y\" ]",
        "x != null or y",
        "'a.b' = 1",
        "tags.foo-bar = \"x\"",
        " name icontains \"x\"",
        "id = \"x\" or name=\"x\"",
        "a  not  contains \"x\"",
        "a not\tin [1, 2.5]",
        "a between 1 and 2 and b",
        "t between datetime( 2024-01-01T00:00:00Z ) and datetime(2024-02-01t00:00:00z)",
        "(((a)))",
        "not not a",
        "datetime = 1",
    ] {
        let query = parsed(text);
        assert_eq!(parsed(&query.to_string()), query, "{text}");
    }
}

#[test]
fn operators_and_values() {
    let compare = |op, value| Check::Compare(op, value);
    for (text, expected) in [
        ("a = \"x\"", compare(Op::Equal, Literal::Text("x".into()))),
        ("a!=-1", compare(Op::NotEqual, Literal::Int(-1))),
        ("a<1.5", compare(Op::Less, Literal::Float(1.5))),
        ("a <= 2e3", compare(Op::LessOrEqual, Literal::Float(2000.0))),
        ("a>0", compare(Op::Greater, Literal::Int(0))),
        ("a >=-0.5E-1", compare(Op::GreaterOrEqual, Literal::Float(-0.05))),
        ("a = 99999999999999999999", compare(Op::Equal, Literal::Float(1e20))),
        ("a = False", compare(Op::Equal, Literal::Bool(false))),
        ("a = NULL", Check::Null { negated: false }),
        ("a != null", Check::Null { negated: true }),
        (
            "a = datetime(2024-01-01T02:00:00.5+02:00)",
            compare(Op::Equal, Literal::Time(datetime!(2024-01-01 0:00:00.5 UTC))),
        ),
        ("a in [1]", Check::In { negated: false, values: vec![Literal::Int(1)] }),
        (
            "a between 1 and 2",
            Check::Between { negated: false, low: Literal::Int(1), high: Literal::Int(2) },
        ),
        (
            "a not between 1 and 2.5",
            Check::Between { negated: true, low: Literal::Int(1), high: Literal::Float(2.5) },
        ),
        ("a contains 5", Check::Contains { negated: false, fold: false, needle: Literal::Int(5) }),
        (
            "a not icontains \"x\"",
            Check::Contains { negated: true, fold: true, needle: Literal::Text("x".into()) },
        ),
    ] {
        assert_eq!(check(text), expected, "{text}");
    }
    assert_eq!(
        check(r#"a = "q\" b\\ \f\n\r\t ü ✓""#),
        compare(Op::Equal, Literal::Text("q\" b\\ \u{c}\n\r\t ü ✓".into()))
    );
}

#[test]
fn left_sides() {
    let left = |text: &str| match parsed(text).condition {
        Some(Expr::Test(Test { left, .. })) => left,
        other => panic!("{text}: {other:?}"),
    };
    assert!(matches!(left("a.b_c-d = 1"), Operand::Symbol(name) if name.text == "a.b_c-d"));
    assert!(matches!(left("'not' = 1"), Operand::Symbol(name) if name.text == "not"));
    assert!(matches!(left("anyOf(a) = 1"), Operand::AnyOf(name) if name.text == "a"));
    assert!(matches!(left("allOf('a') = 1"), Operand::AllOf(name) if name.text == "a"));
    assert!(matches!(left("count(a) = 1"), Operand::Count(SetExpr::Symbol(_))));
    let Operand::Count(SetExpr::From(name, query)) = left("count(from a where b limit 3) = 1")
    else {
        panic!("no sub-query");
    };
    assert_eq!((name.text.as_str(), query.limit), ("a", Some(LimitClause::Count(3))));
}

#[test]
fn clauses() {
    let query = parsed("a sort by b desc, c ASC ,d skip 4 limit 9");
    let fields: Vec<_> =
        query.sort.iter().map(|field| (field.name.text.as_str(), field.direction)).collect();
    let (up, down) = (Direction::Ascending, Direction::Descending);
    assert_eq!(fields, [("b", down), ("c", up), ("d", up)]);
    assert_eq!((query.skip, query.limit), (Some(4), Some(LimitClause::Count(9))));

    assert_eq!(parsed("limit none").limit, Some(LimitClause::None));
    assert_eq!(parsed("limit -1").limit, Some(LimitClause::Count(-1)));
    assert_eq!(parsed("sort by a, b, c, d, e, f, g").sort.len(), 5);
}

#[test]
fn the_sort_parameter() {
    let names = |text: &str| {
        let fields = parse_sort(text).expect(text).fields;
        fields.into_iter().map(|field| field.name.text).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(""), "");
    assert_eq!(names("  name   asc "), "name");
    assert_eq!(names("name desc,id"), "name id");
    for (text, offset) in [("name up", 5), ("name,", 5), ("5", 0), ("a b c", 2), ("limit", 0)] {
        let error = parse_sort(text).expect_err(text);
        assert_eq!((error.code(), error.offset()), (Code::Sort, offset), "{text}");
    }
}

#[test]
fn errors_point_at_the_character() {
    for (text, offset, found, expected) in [
        // Characters that begin no token, and words that are no names.
        ("a-b = 1", 2, "b", "a digit"),
        ("_a = 1", 0, "_", "a name, a value or an operator"),
        ("a = 1.", 6, "<EOF>", "a digit"),
        ("a. = 1", 1, ".", "a name, a value or an operator"),
        ("a\u{a0}= 1", 1, "\u{a0}", "a name, a value or an operator"),
        ("a ! b", 3, " ", "'=' after '!'"),
        ("a1 = 2", 1, "1", "'and', 'or', 'sort by', 'skip', 'limit' or the end"),
        ("tags.foo1 = 2", 8, "1", "'and', 'or', 'sort by', 'skip', 'limit' or the end"),
        ("'a = 1", 2, " ", "a closing single quote"),
        ("'' = 1", 1, "'", "a name that starts with a letter"),
        // Numbers, texts and times.
        ("a = 01", 5, "1", "a number without leading zeros"),
        ("a = 1e", 6, "<EOF>", "a digit"),
        ("a = 1e01", 7, "1", "a number without leading zeros"),
        ("a = 1e999", 4, "1e999", "a number within the range of a double"),
        ("a = \"x", 6, "<EOF>", "a closing double quote"),
        (r#"a = "\x""#, 6, "x", "one of \" \\ f n r t after a backslash"),
        ("a = \"\n\"", 5, "\n", "an escape such as \\n for a control character"),
        ("a = datetime(x", 14, "<EOF>", "')' after the time"),
        (
            "a > datetime( now )",
            14,
            "now",
            "an RFC 3339 time with offset, such as 2024-01-31T12:00:00Z",
        ),
        (
            "a > datetime(2024-01-01 00:00:00Z)",
            13,
            "2024-01-01 00:00:00Z",
            "an RFC 3339 time with offset, such as 2024-01-31T12:00:00Z",
        ),
        (
            "a > datetime(2024-01-01T00:00:00)",
            13,
            "2024-01-01T00:00:00",
            "an RFC 3339 time with offset, such as 2024-01-31T12:00:00Z",
        ),
        (
            "a > datetime(0000-01-01T00:00:00+01:00)",
            13,
            "0000-01-01T00:00:00+01:00",
            "an RFC 3339 time with offset, such as 2024-01-31T12:00:00Z",
        ),
        (
            "a > datetime(9999-12-31T23:59:59-01:00)",
            13,
            "9999-12-31T23:59:59-01:00",
            "an RFC 3339 time with offset, such as 2024-01-31T12:00:00Z",
        ),
        (
            "a > DateTime(2024-01-01T00:00:00Z)",
            4,
            "DateTime",
            "a value: \"text\", a number or datetime(...)",
        ),
        // Operators.
        ("a in []", 6, "]", "a list element: \"text\", a number or datetime(...)"),
        ("a in [true]", 6, "true", "a list element: \"text\", a number or datetime(...)"),
        ("a in [1, \"x\"]", 9, "\"x\"", "an element of the same type as the first"),
        ("a in [1 2]", 8, "2", "',' or ']'"),
        ("a in[1]", 4, "[", "a space after the operator"),
        ("a in 1", 5, "1", "'[' and a list of values"),
        ("a not  in [\"x\"]", 7, "in", "exactly one space between 'not' and 'in'"),
        ("a not = 1", 6, "=", "'in', 'between', 'contains' or 'icontains' after 'not'"),
        ("a not like \"x\"", 6, "like", "'in', 'between', 'contains' or 'icontains' after 'not'"),
        ("a not not in [1]", 6, "not", "'in', 'between', 'contains' or 'icontains' after 'not'"),
        ("name like \"x\"", 5, "like", "'and', 'or', 'sort by', 'skip', 'limit' or the end"),
        ("name = 'x'", 7, "'x'", "a value: \"text\", a number, true, false, null or datetime(...)"),
        ("a > true", 4, "true", "a value: \"text\", a number or datetime(...)"),
        ("a > null", 4, "null", "a value: \"text\", a number or datetime(...)"),
        ("name icontains 5", 15, "5", "a \"text\""),
        ("a contains true", 11, "true", "a \"text\" or a number"),
        ("a contains\"x\"", 10, "\"x\"", "a space after the operator"),
        ("a between \"x\" and \"y\"", 10, "\"x\"", "a number or datetime(...)"),
        (
            "a between 1 and datetime(2024-01-01T00:00:00Z)",
            16,
            "datetime(2024-01-01T00:00:00Z)",
            "an upper bound of the same type as the lower",
        ),
        ("a between 1, 2", 11, ",", "a space and 'and'"),
        ("a between 1 or 2", 12, "or", "'and'"),
        // Conditions.
        ("not(a = 1)", 3, "(", "a space after 'not'"),
        ("a=1and b=2", 3, "and", "a space before 'and' or 'or'"),
        ("a and(b)", 5, "(", "a space and a condition"),
        ("a and", 5, "<EOF>", "a space and a condition"),
        (
            "a or and",
            5,
            "and",
            "a condition: a name, 'not', 'true', 'false', '(' or a set function",
        ),
        ("(a", 2, "<EOF>", "')'"),
        ("a)", 1, ")", "'and', 'or', 'sort by', 'skip', 'limit' or the end"),
        ("()", 1, ")", "a condition: a name, 'not', 'true', 'false', '(' or a set function"),
        (
            "\"x\" = a",
            0,
            "\"x\"",
            "a condition: a name, 'not', 'true', 'false', '(' or a set function",
        ),
        // Set functions.
        ("anyOf (a) = 1", 6, "(", "'(' directly after the set function"),
        ("anyOf(a)", 8, "<EOF>", "an operator: = != < <= > >= in between contains icontains"),
        ("anyOf(a)in [1]", 8, "in", "a space before the operator"),
        ("anyOf(from a where b) = 1", 6, "from", "the name of a set"),
        ("isEmpty(5)", 8, "5", "the name of a set, or 'from'"),
        ("isEmpty(from a)", 14, ")", "a space and 'where'"),
        (
            "isEmpty(from a where )",
            21,
            ")",
            "a condition: a name, 'not', 'true', 'false', '(' or a set function",
        ),
        ("count(from a which b) = 1", 13, "which", "'where'"),
        // Clauses.
        ("limit 5 skip 2", 8, "skip", "'and', 'or', 'sort by', 'skip', 'limit' or the end"),
        ("limit", 5, "<EOF>", "a space and a number or 'none'"),
        ("limit 1.5", 6, "1.5", "a whole number or 'none'"),
        ("skip none", 5, "none", "a whole number"),
        ("(a)limit 5", 3, "limit", "a space before the clause"),
        ("sort name", 5, "name", "'by'"),
        ("sort by", 7, "<EOF>", "a space and a sort field"),
        ("sort by a,", 10, "<EOF>", "a sort field"),
    ] {
        let (at, what, wanted) = failure(text);
        assert_eq!((at, what.as_str(), wanted), (offset, found, expected), "{text}");
    }
}

#[test]
fn messages_show_the_place() {
    let error = parse("name = \"ü\" and\n  size ~ 5").expect_err("no such character");
    assert_eq!((error.line(), error.column()), (2, 7));
    assert_eq!(
        error.to_string(),
        "Unexpected symbol: \"~\" at line: 2 column: 7, expected a name, a value or an operator\n    \
         size ~ 5\n         ^"
    );
    let long = format!("{} ~ {}", "abc and ".repeat(30), "x".repeat(200));
    let text = parse(&long).expect_err("no such character").to_string();
    assert!(text.lines().all(|line| line.chars().count() < 110), "{text}");
}

#[test]
fn limits_hold() {
    let too_many = |text: &str| match parse(text).expect_err("over the limit").reason() {
        Reason::TooMany { limit, .. } => *limit,
        other => panic!("{other:?}"),
    };
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(too_many(&nested(MAX_DEPTH + 1)), MAX_DEPTH);
    assert_eq!(too_many(&nested(20_000)), MAX_DEPTH);
    assert_eq!(too_many(&"not ".repeat(MAX_DEPTH + 1)), MAX_DEPTH);

    let alternating = |changes: usize| {
        let tail = (0..changes).map(|n| if n % 2 == 0 { " or b" } else { " and c" });
        format!("a and a{}", tail.collect::<String>())
    };
    assert_eq!(parsed(&printed(&alternating(MAX_DEPTH))), parsed(&alternating(MAX_DEPTH)));
    assert_eq!(too_many(&alternating(MAX_DEPTH + 1)), MAX_DEPTH);

    let chain = |tests: usize| vec!["a"; tests].join(" and ");
    assert!(parse(&chain(MAX_TESTS)).is_ok());
    assert_eq!(too_many(&chain(MAX_TESTS + 1)), MAX_TESTS);

    let sub = |levels: usize| {
        format!("{}b{}", "isEmpty(from a where ".repeat(levels), ")".repeat(levels))
    };
    assert!(parse(&sub(MAX_SUB_QUERIES)).is_ok());
    assert_eq!(too_many(&sub(MAX_SUB_QUERIES + 1)), MAX_SUB_QUERIES);
    let wide = vec![sub(1); MAX_SUB_QUERIES + 2].join(" and ");
    assert!(parse(&wide).is_ok());

    assert!(parse(&" ".repeat(MAX_TEXT)).is_ok());
    let error = parse(&" ".repeat(MAX_TEXT + 1)).expect_err("too long");
    assert_eq!(error.reason(), &Reason::TooLong { length: MAX_TEXT + 1 });
    assert!(!error.to_string().contains('\n'));
}
