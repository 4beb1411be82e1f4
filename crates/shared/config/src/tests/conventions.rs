use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use weft_wire::Scheme;

use super::{controller, none, router};
use crate::router::{ControllerEndpoint, ControllerEndpoints};
use crate::template::quoted;
use crate::yaml::{self, YamlValue};
use crate::{
    ControllerConfig, EndpointsFile, HostPort, RouterConfig, address, parse_duration, show_duration,
};

#[test]
fn variables_are_put_into_strings() {
    let variables = |name: &str| (name == "A").then(|| "x".to_owned());
    let expand = |text: &str| {
        let mut node = yaml::parse(&format!("[{}]", quoted(text))).unwrap().root;
        yaml::expand(&mut node, &variables, &mut |_, _| {});
        let YamlValue::List(items) = node.value else { panic!() };
        items[0].value.rendered().unwrap()
    };
    for (text, expected) in [
        ("$A/${A}_$B", "x/x_"),
        ("a$$b", "ab"),
        ("100%$", "100%$"),
        ("${A:-z}", ""),
        ("$A_1", ""),
        ("${}", ""),
        ("${A", "A"),
        ("a$ b", "a$ b"),
        ("$1$?x", "x"),
        ("é$A é", "éx é"),
    ] {
        assert_eq!(expand(text), expected, "{text}");
    }
}

#[test]
fn a_variable_may_give_an_integer_but_quotes_do_not() {
    let text = "v: 3\nidentity: {cert: a, server_cert: s, key: b}\nctrl: {endpoint: 'tls:c:1'}\nforwarder: {linkDialQueueLength: $N}\n";
    let variables = |name: &str| (name == "N").then(|| "17".to_owned());
    let loaded = RouterConfig::from_str(text, Path::new("x"), &variables).unwrap();
    assert_eq!(loaded.config.forwarder.link_dial_queue, 17);
    let error = RouterConfig::from_str(text, Path::new("x"), &none).unwrap_err().to_string();
    assert_eq!(
        error,
        "x:4:34: forwarder.linkDialQueueLength: must be an integer, the variable gives ``"
    );
    let error = router(&text.replace("$N", "\"17\"")).unwrap_err().to_string();
    assert!(error.contains("must be an integer, it is a string"), "{error}");
}

#[test]
fn plain_scalars_follow_yaml_1_1() {
    let value = |text: &str| {
        let YamlValue::Map(entries) = yaml::parse(&format!("k: {text}")).unwrap().root.value else {
            panic!()
        };
        entries[0].node.value.clone()
    };
    for text in ["y", "Yes", "ON", "true", "TRUE"] {
        assert_eq!(value(text), YamlValue::Bool(true), "{text}");
    }
    for text in ["n", "No", "off", "False"] {
        assert_eq!(value(text), YamlValue::Bool(false), "{text}");
    }
    for (text, number) in [("0x1F", 31), ("0o17", 15), ("017", 15), ("1_000", 1000), ("-5", -5)] {
        assert_eq!(value(text), YamlValue::Int(number), "{text}");
    }
    assert_eq!(value("1e3"), YamlValue::Float(1000.0));
    assert_eq!(value("0.5"), YamlValue::Float(0.5));
    assert_eq!(value("08"), YamlValue::Float(8.0));
    for text in ["~", "null", ""] {
        assert_eq!(value(text), YamlValue::Null, "{text}");
    }
    for text in ["yEs", "1.2.3.4", "tls:a:1", "'yes'", "\"5\"", "5s", "1-2"] {
        assert!(matches!(value(text), YamlValue::Text { .. }), "{text}");
    }
}

#[test]
fn anchors_merges_and_repeated_keys() {
    let text = "base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo: {<<: [*b, {z: 4}], x: 9}\nsame: 1\nsame: 2\ny: 1\n";
    let YamlValue::Map(entries) = yaml::parse(text).unwrap().root.value else { panic!() };
    let show = |key: &str| {
        let entry = entries.iter().find(|entry| entry.key == key).unwrap();
        let YamlValue::Map(map) = &entry.node.value else {
            return entry.node.value.rendered().unwrap();
        };
        let mut out = String::new();
        for entry in map {
            write!(out, "{}={} ", entry.key, entry.node.value.rendered().unwrap()).unwrap();
        }
        out
    };
    assert_eq!(show("one"), "y=3 x=1 ");
    assert_eq!(show("two"), "x=9 y=2 z=4 ");
    assert_eq!(show("same"), "2");
    assert_eq!(show("y"), "1", "keys are words");
}

#[test]
fn files_that_were_taken_for_each_other_are_told_in_one_line() {
    let of_router = "v: 3\nctrl: {endpoint: 'tls:c:1'}\nlink: {}\nlisteners: []\n";
    let text = controller(of_router).unwrap_err().to_string();
    assert!(text.ends_with("looks like a router's file; `weft router check` reads such a file"));
    let of_controller = "v: 3\ndb: ctrl.db\nedge: {}\n";
    let text = router(of_controller).unwrap_err().to_string();
    assert!(text.contains("this looks like a controller's file") && text.lines().count() == 1);
}

#[test]
fn bombs_are_refused() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(laughs, "a{level}: &a{level} [{refs}]").unwrap();
    }
    let error = router(&laughs).unwrap_err().to_string();
    assert!(error.contains("more than 100000 values"), "{error}");
    let error = router(&"[".repeat(500)).unwrap_err().to_string();
    assert!(error.contains("dir/r1.yml:1:"), "{error}");
    let deep: String = (0..200).map(|level| format!("{}k:\n", " ".repeat(level))).collect();
    let error = router(&deep).unwrap_err().to_string();
    assert!(error.contains("nested deeper than 64"), "{error}");
    let error = router(&"#".repeat(crate::MAX_FILE_BYTES + 1)).unwrap_err().to_string();
    assert!(error.contains("larger than"), "{error}");
}

#[test]
fn durations() {
    for (text, nanos) in [
        ("0", 0),
        ("250ms", 250_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("+3s", 3_000_000_000),
        ("1us", 1000),
        ("1µs", 1000),
        (".5s", 500_000_000),
        ("1m0.25s", 60_250_000_000),
    ] {
        let parsed = parse_duration(text).unwrap();
        assert_eq!(parsed.length, Duration::from_nanos(nanos), "{text}");
        assert!(!parsed.negative);
    }
    assert!(parse_duration("-5s").unwrap().negative);
    for (text, reason) in [
        ("5", "time: missing unit in duration \"5\""),
        ("1d", "time: unknown unit \"d\" in duration \"1d\""),
        ("x", "time: invalid duration \"x\""),
        ("", "time: invalid duration \"\""),
        ("1..2s", "time: invalid duration \"1..2s\""),
        ("9999999999h", "time: invalid duration \"9999999999h\""),
    ] {
        assert_eq!(parse_duration(text).unwrap_err(), reason);
    }
}

#[test]
fn addresses() {
    let parse = |text: &str| address::parse(text);
    assert_eq!(parse("tls:ctrl.example:6262").unwrap().port, 6262);
    let six = parse("tls:[::1]:6262").unwrap();
    assert_eq!((six.scheme, six.host.as_str()), (Scheme::Tls, "::1"));
    assert_eq!(six.to_string(), "tls:[::1]:6262");
    let error = parse("tls://host:1280").unwrap_err();
    assert!(error.contains("write `tls:host:1280`"), "{error}");
    for wrong in ["", "host:1", "tls:host", "tls:::1:5", "tls:h:65536", "tls:h:+5", "quic:h:1"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    assert_eq!("h:1".parse::<HostPort>().unwrap().to_string(), "h:1");
}

#[test]
fn endpoints_files() {
    let file = EndpointsFile {
        endpoints: vec!["tls:c1:1280".into(), "tls:c2:1280".into()],
        controllers: vec![
            ControllerEndpoints {
                id: "ctrl1".into(),
                endpoints: vec![ControllerEndpoint {
                    address: "tls:c1:1280".into(),
                    groups: vec!["default".into()],
                }],
            },
            ControllerEndpoints::default(),
        ],
    };
    assert_eq!(EndpointsFile::from_text(&file.to_text()), Some(file));
    let old = EndpointsFile::from_text("Endpoints:\n  - tls:a:1\n").unwrap();
    assert_eq!(old.endpoints, ["tls:a:1"]);
    for text in ["", "endpoints: []", "x: 1", "- a", "endpoints: [\"\"]", "{"] {
        assert_eq!(EndpointsFile::from_text(text), None, "{text}");
    }
}

/// Text that looks like configurations: known words, structure, and noise.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "v: 3\n",
            "identity:",
            "cert:",
            "ctrl:",
            "endpoint:",
            "listeners:",
            "link:",
            "edge:",
            "web:",
            "events:",
            "options:",
            "binding: edge",
            "binding: transport",
            "- ",
            "\n",
            "\n  ",
            "\n    ",
            "{",
            "}",
            "[",
            "]",
            ", ",
            "tls:a:1",
            "5s",
            "-1",
            "1e9",
            "$A",
            "&a",
            "*a",
            "<<: ",
            "\"",
            "'",
            "|",
            "null",
            "handler:",
            "subscriptions:",
            "type:",
            "forwarder:",
            "cluster:",
        ])
        .prop_map(str::to_owned),
        ".{0,6}",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in yaml_like()) {
        let _ = controller(&text);
        let _ = router(&text);
        let full = format!("v: 3\nidentity: {{cert: a, server_cert: s, key: b}}\n{text}");
        let _ = ControllerConfig::from_str(&full, Path::new("x"), &none);
        let _ = router(&full);
        let _ = EndpointsFile::from_text(&text);
    }

    #[test]
    fn quoted_text_survives(text in any::<String>()) {
        let node = yaml::parse(&format!("[{}]", quoted(&text))).unwrap().root;
        let YamlValue::List(items) = node.value else { panic!() };
        prop_assert_eq!(items[0].value.rendered().unwrap(), text);
    }

    #[test]
    fn durations_survive(millis in 0u64..10_000_000_000) {
        let duration = Duration::from_millis(millis);
        prop_assert_eq!(parse_duration(&show_duration(duration)).unwrap().length, duration);
        let _ = parse_duration(&format!("{millis}{millis}"));
    }

    #[test]
    fn any_text_is_no_panic_as_scalar(text in ".{0,40}") {
        let _ = parse_duration(&text);
        let _ = address::parse(&text);
        let _ = text.parse::<HostPort>();
        let _ = text.parse::<crate::controller::Network>();
    }
}
