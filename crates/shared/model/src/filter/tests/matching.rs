//! The matches of filters.

use super::net::ids;

/// Each filter with the ids of the people it selects.
fn all(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(ids(text), *expected, "{text}");
    }
}

#[test]
fn constants_and_chains() {
    all(&[
        ("", "abcd"),
        ("true", "abcd"),
        ("false", ""),
        ("not false", "abcd"),
        ("name = \"Ann\" or name = \"Bob\" or id = \"d\"", "abd"),
        ("age = 30 and isAdmin", "a"),
        ("name = \"Bob\" and age = 30 or id = \"a\"", ""),
        ("not name = \"Ann\" and age = 30", "bcd"),
        ("(not name = \"Ann\") and age = 30", "c"),
        ("false or (true and id = \"a\")", "a"),
        ("not (id = \"a\" or id = \"b\")", "cd"),
    ]);
}

#[test]
fn comparisons() {
    all(&[
        ("name = \"ann\"", ""),
        ("name < \"Bob\"", "a"),
        ("name <= \"Bob\"", "ab"),
        ("name > \"Bob\"", "c"),
        ("name >= \"Bob\"", "bc"),
        ("age = 30.0", "ac"),
        ("age > 30.5", "b"),
        ("score = 2", "b"),
        ("score < 2", "a"),
        ("isAdmin = false", "bcd"),
        ("isAdmin != false", "a"),
        ("name = 7", ""),
        ("name > 7", "abc"),
        ("isAdmin", "a"),
        ("not isAdmin", "bcd"),
        ("createdAt > datetime(2024-03-01T00:00:00+02:00)", "b"),
        ("createdAt = datetime(2024-01-01T13:00:00+01:00)", "a"),
        ("login.tries = 2", "a"),
    ]);
}

#[test]
fn null_is_no_value() {
    all(&[
        ("name = null", "d"),
        ("name != null", "abc"),
        ("name != \"Ann\"", "bcd"),
        ("age < 100", "abc"),
        ("isAdmin != true", "bcd"),
        ("age not in [30]", "bd"),
        ("age not between 0 and 35", "bd"),
        ("name not contains \"n\"", "bcd"),
        ("name not icontains \"N\"", "bcd"),
        ("favourite = null", "cd"),
    ]);
}

#[test]
fn lists_and_ranges() {
    all(&[
        ("name in [\"Cid\", \"Ann\", \"Ann\"]", "ac"),
        ("name not in [\"Cid\", \"Ann\"]", "bd"),
        ("name in [1, 2.5]", ""),
        ("name not in [1]", "abcd"),
        ("age in [\"30\", \"x\"]", "ac"),
        ("score not in [\"1.5\"]", "bcd"),
        ("age in [40, 30.5, 2.0, 1]", "b"),
        ("age in [30.0]", "ac"),
        ("score in [2, 7]", "b"),
        ("score in [1.5, 2]", "ab"),
        ("createdAt in [datetime(2024-01-01T12:00:00Z)]", "a"),
        ("age between 30 and 40", "ac"),
        ("age between 30.5 and 40.5", "b"),
        (
            "createdAt between datetime(2024-01-01T12:00:00Z) and datetime(2024-06-01T12:00:00Z)",
            "a",
        ),
    ]);
}

#[test]
fn substrings() {
    all(&[
        ("name contains \"n\"", "a"),
        ("name contains \"N\"", ""),
        ("name icontains \"B\"", "b"),
        ("name icontains \"bO\"", "b"),
        ("age contains 0", "abc"),
        ("age contains \"3\"", "ac"),
        ("score contains 1.5", "a"),
        ("score contains \".\"", "a"),
        ("age icontains \"4\"", "b"),
        ("name contains \"\"", "abc"),
    ]);
}

#[test]
fn tags_take_the_type_of_the_right_side() {
    all(&[
        ("tags.site = \"Berlin\"", "a"),
        ("tags.site != \"Berlin\"", "bcd"),
        ("tags.site icontains \"BO\"", "b"),
        ("tags.site = null", "cd"),
        ("tags.floor = 12", "a"),
        ("tags.floor = \"12\"", "a"),
        ("tags.floor < \"2\"", "a"),
        ("tags.floor > 11.5", "a"),
        ("tags.floor != 12", "bcd"),
        ("tags.floor contains 1", "a"),
        ("tags.floor contains \"tw\"", "c"),
        ("tags.floor in [\"twelve\"]", "c"),
        ("tags.floor in [\"12\"]", "a"),
        ("tags.floor not in [\"x\"]", "abcd"),
        ("tags.floor not in [12]", "bcd"),
        ("tags.floor between 1 and 13", "a"),
        ("tags.new-desk", "a"),
        ("tags.new-desk = true", "a"),
        ("tags.new-desk = false", "bcd"),
        ("tags.new-desk = \"true\"", "a"),
        ("tags.new-desk contains \"r\"", "a"),
        ("tags.new-desk not contains \"t\"", "bcd"),
        ("tags.no.such.key = null", "abcd"),
    ]);
}

#[test]
fn sets() {
    all(&[
        ("anyOf(roleAttributes) = \"dev\"", "ac"),
        ("anyOf(roleAttributes) != \"dev\"", "ab"),
        ("anyOf(roleAttributes) in [\"ops\", \"x\"]", "ab"),
        ("anyOf(roleAttributes) not in [\"dev\"]", "bd"),
        ("allOf(roleAttributes) not in [\"dev\"]", "ab"),
        ("anyOf(roleAttributes) > 1", "abc"),
        ("anyOf(roleAttributes) = null", ""),
        ("allOf(roleAttributes) = null", "d"),
        ("anyOf(roleAttributes) != null", "abc"),
        ("anyOf(roleAttributes) contains \"p\"", "ab"),
        ("allOf(roleAttributes) = \"dev\"", "cd"),
        ("allOf(roleAttributes) != \"dev\"", "bd"),
        ("allOf(roleAttributes) not contains \"z\"", "abcd"),
        ("not anyOf(roleAttributes) = \"dev\"", "bd"),
        ("count(roleAttributes) = 0", "d"),
        ("count(roleAttributes) > 1", "a"),
        ("count(roleAttributes) in [1, 5]", "bc"),
        ("count(roleAttributes) not in [\"1\"]", "ad"),
        ("count(roleAttributes) between 1 and 2", "bc"),
        ("isEmpty(roleAttributes)", "d"),
        ("not isEmpty(roleAttributes)", "abc"),
        ("anyOf(services) = \"t\"", "ab"),
        ("anyOf(services) not in [\"t\"]", "cd"),
    ]);
}

#[test]
fn links_and_sub_queries() {
    all(&[
        ("anyOf(services.name) = \"web\"", "a"),
        ("allOf(services.name) = \"ssh\"", "bcd"),
        ("anyOf(services.configs) = \"host\"", "a"),
        ("count(services.configs) = 2", "a"),
        ("isEmpty(services.configs)", "bcd"),
        ("anyOf(services.users.name) = \"Bob\"", "ab"),
        ("not isEmpty(from services where name = \"web\")", "a"),
        ("isEmpty(from services where name = \"web\")", "bcd"),
        ("count(from services where true) = 2", "a"),
        ("count(from services where name = \"ssh\") = 1", "ab"),
        ("count(from services where true limit 1) = 1", "ab"),
        ("count(from services where skip 1) = 1", "a"),
        ("isEmpty(from services where skip 1)", "bcd"),
        ("isEmpty(from services where true limit 0)", "abcd"),
        ("isEmpty(from services where true sort by name limit none)", "cd"),
        ("not isEmpty(from services where anyOf(configs) = \"host\" and name = \"web\")", "a"),
        ("not isEmpty(from services where not isEmpty(from users where age = 40))", "ab"),
        ("count(from services.users where age = 30) = 2", "a"),
    ]);
}
