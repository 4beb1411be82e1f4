//! Comments, quotes, aliases and lines.

use super::*;

#[test]
fn comments_stay_with_the_keys_that_stay() {
    let text = format!(
        "# head\n\n{LEAST}\n# about paths\nnetwork:\n  # each minute\n  cycleSeconds: 60 # beside\n\n  # gone with \
         its key\n  enableLegacyLinkMgmt: true # gone too\n    # and this\n\n  # another\n  minRouterCost: 0x0a\n\n\
         #commented:\n#  out: 1\n\n# of the metrics\nmetrics:\n  # inside\n  influxdb:\n    url: x\n# the end\n"
    );
    let converted = convert(&text);
    let wanted = "
# about paths
network:
  # each minute
  cycleSeconds: 60  # beside


  # another
  minRouterCost: 0x0a

#commented:
#  out: 1

# the end
";
    assert!(
        converted.text.starts_with("# head\n\nv: 3\ndb: \"/var/lib/weft/weft.db\"\n"),
        "{}",
        converted.text
    );
    assert!(converted.text.ends_with(wanted), "{}", converted.text);
    assert_eq!(read(&converted), "");
}

#[test]
fn a_hash_in_a_value_is_no_comment() {
    let text = "v: 3
db: x
identity:
  key: |
    -----BEGIN KEY-----
    # in the text
    -----END KEY-----
  # two
  cert: c
trace:
  path: 'a # b' # one
profile: {cpu: {path: a#b}}  # four
trustDomain: \"a
    # line\" # three
ctrl: {listener: 'tls:0.0.0.0:6262'}
";
    let converted = convert(text);
    assert_eq!(
        converted.text,
        "v: 3
db: \"/var/lib/weft/weft.db\"
identity:
  key: |
    -----BEGIN KEY-----
    # in the text
    -----END KEY-----
  # two
  cert: c
trace:
  path: \"a # b\"  # one
profile:  # four
  cpu:
    path: a#b
trustDomain: \"a # line\"  # three
ctrl:
  listener: 'tls:0.0.0.0:6262'
"
    );
}

#[test]
fn aliases_and_merges_are_written_out() {
    let text = format!(
        "{LEAST}shared: &times\n  readTimeout: 7s\n  idleTimeout: 8s\nweb:\n  - name: &name one\n    bindPoints: \
         [{{interface: '0.0.0.0:1', address: 'a:1'}}]\n    options:\n      <<: *times\n      idleTimeout: 9s\n    apis: \
         [{{binding: fabric}}]\n  - name: *name\n    bindPoints:\n    - interface: 0.0.0.0:2\n      address: a:2\n    \
         options: *times\n    apis:\n    - binding: health-checks\n"
    );
    let converted = convert(&text);
    let wanted = "web:
  - name: one
    bindPoints:
      - interface: '0.0.0.0:1'
        address: 'a:1'
    options:
      idleTimeout: 9s
      readTimeout: 7s
    apis:
      - binding: fabric
  - name: one
    bindPoints:
      - interface: 0.0.0.0:2
        address: a:2
    options:
      readTimeout: 7s
      idleTimeout: 8s
    apis:
      - binding: health-checks
";
    assert!(converted.text.ends_with(wanted), "{}", converted.text);
    assert_eq!(
        notes(&converted),
        "line 5: shared: left out: OpenZiti does not read this key, and neither does weft\n"
    );
    assert_eq!(read(&converted), "");
}

#[test]
fn what_is_written_is_what_was_read() {
    // Whatever a value looks like, the file of weft has the same one.
    for value in [
        "plain",
        "'a: b'",
        "\"\\u00e9\\n\\t\"",
        "yes",
        "'yes'",
        "0x1F",
        "017",
        "1_000",
        "1e3",
        ".5",
        "~",
        "''",
        "'12'",
        "a$b${C}",
        "[a, 'b, c', \"]\"]",
        "[ [x], {y: z} ]",
        "{}",
        "[]",
        "|\n    one\n\n     two\n",
        ">-\n    one\n    two\n",
        "|2\n      deep\n     less\n",
        "!!str 12",
        "- x\n  - y",
    ] {
        let value = if value.starts_with("- ") { format!("\n  {value}") } else { value.to_owned() };
        let text = format!("v: 3\nexamples:\n  a: {value}\n");
        let tree = crate::yaml::parse(&text).unwrap();
        let written = crate::original::written(&tree.root, &text);
        let again =
            crate::yaml::parse(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(plain(&again.root), plain(&tree.root), "{text}{written}");
    }
}

/// A tree without places.
fn plain(node: &crate::yaml::Node) -> String {
    use crate::yaml::YamlValue::{List, Map};
    match &node.value {
        List(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(",")),
        Map(entries) => {
            let entry =
                |entry: &crate::yaml::MapEntry| format!("{}={}", entry.key, plain(&entry.node));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
        }
        other => format!("{other:?}"),
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_converted_or_refused(text in "([a-z]{1,3}|v|db|web|edge|network|: |- |\n|  |#|'|\"|\\||>|&a|\\*a|\\[|\\]|\\{|\\}|,|<<|1|\t|\r|é|%|\\$|-----){0,40}") {
        if let Ok(converted) = Conversion::new(STORE, &none).convert(&text) {
            // What is written can be read, and converting it again changes no key.
            let again = Conversion::new(STORE, &none).convert(&converted.text);
            let again = again.unwrap_or_else(|error| panic!("{error}\n{text}\n---\n{}", converted.text));
            proptest::prop_assert_eq!(&again.text, &converted.text);
        }
    }
}
