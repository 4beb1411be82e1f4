//! Reports about a file: every mistake with its location, and every value with its origin.

use std::path::Path;

use crate::show::{Severity, excerpt};
use crate::{Examined, RouterConfig, ValueOrigin};

const BARE: &str =
    "v: 3\nidentity: {cert: a, server_cert: s, key: b}\nctrl: {endpoint: 'tls:c:6262'}\n";

fn examine(more: &str) -> Examined<RouterConfig> {
    let variables = |name: &str| (name == "HOST").then(|| "r1.example".to_owned());
    RouterConfig::examine(&format!("{BARE}{more}"), Path::new("r.yml"), &variables).unwrap()
}

fn report(more: &str) -> String {
    let examined = examine(more);
    let one = |problem| excerpt(&examined.path, &examined.source, Severity::Error, problem);
    examined.problems.iter().map(one).collect()
}

#[test]
fn marks_end_with_their_value_and_credentials_are_not_shown() {
    let marked = |value: &str| {
        let text = report(&format!("forwarder:\n  faultTxInterval: {value}\n"));
        text.matches('^').count()
    };
    assert_eq!(marked("soon # 'no'"), 4);
    assert_eq!(marked("'it''s' # 'no'"), 7);
    assert_eq!(marked(r#""a \" b" # "no""#), 8);
    for more in [
        "proxy: {type: http, address: 'user:geheim@p'}\n",
        "proxy: {type: http, address: 'http://user:geheim@p:3128'}\n",
        "link: {listeners: [{binding: transport, bind: 'tls://user:geheim@p:1'}]}\n",
        "listeners: [{binding: transport, address: 'tcp:user:geheim@p:1'}]\n",
    ] {
        let examined = examine(more);
        assert!(!examined.problems.is_empty(), "{more}");
        let said = format!("{:?}\n{}", examined.problems, report(more));
        assert!(!said.contains("geheim"), "{said}");
    }
    let proxy = report("proxy: {type: http, address: 'http://user:geheim@p:3128'}\n");
    assert!(!proxy.is_empty() && !proxy.contains("geheim"), "{proxy}");
}

/// Whoever wrote a file may name any variable in it.
#[test]
fn values_of_variables_are_hidden_on_request() {
    let value = "hunter2:Tr0ub4dor/x-y.z";
    let variables = |name: &str| (name == "MINE").then(|| value.to_owned());
    let text = "v: 3\nidentity: {cert: /no/$MINE, server_cert: s, key: b}\n\
                ctrl: {endpoint: 'tls:${MINE}:6262'}\n\
                forwarder: {faultTxInterval: $MINE, idleTxInterval: '${MINE}s'}\n\
                link: {listeners: [{binding: transport, bind: 'tls:$MINE'}, {binding: $MINE}]}\n\
                listeners: [{binding: $MINE, address: $MINE}]\n\
                healthChecks: {ctrlPingCheck: {interval: $MINE}}\n";
    let mut examined = RouterConfig::examine(text, Path::new("r.yml"), &variables).unwrap();
    // As a check of what the file names adds it.
    let about = examined.about("identity.cert", format!("cannot read /no/{value}: HUNTER2"));
    examined.problems.push(about);
    let said = |examined: &Examined<RouterConfig>| {
        let facts = examined.facts.all().iter().map(|fact| format!("{fact:?}"));
        let all = examined.problems.iter().chain(&examined.warnings);
        let one = |problem| excerpt(&examined.path, &examined.source, Severity::Error, problem);
        facts.chain(all.map(one)).collect::<Vec<_>>().join("\n").to_lowercase()
    };
    let parts = ["hunter2", "tr0ub4dor", "x-y.z"];
    assert!(parts.iter().all(|part| said(&examined).contains(part)), "{}", said(&examined));
    examined.hide_variables();
    let said = said(&examined);
    assert!(parts.iter().all(|part| !said.contains(part)), "{said}");
    assert!(said.contains("cannot read /no/$mine: $mine") && said.contains("($mine)"), "{said}");
}

#[test]
fn a_mistake_is_shown_in_its_line() {
    assert_eq!(
        report("forwarder:\n  faultTxInterval: \"soon\"  # no\n"),
        "error: forwarder.faultTxInterval: must be an integer, it is a string\n \
         --> r.yml:5:20\n  |\n5 |   faultTxInterval: \"soon\"  # no\n  |                    ^^^^^^\n  \
         = found: soon\n  = allowed: integer, 0..2147483647 (default 15000)\n"
    );
    assert_eq!(
        report("metrics: {reportIntervall: 5s}\n"),
        "error: metrics.reportIntervall: unknown key; did you mean `reportInterval`?\n \
         --> r.yml:4:11\n  |\n4 | metrics: {reportIntervall: 5s}\n  |           ^^^^^^^^^^^^^^^\n  \
         = did you mean: reportInterval\n"
    );
    let words = report("listeners:\n- {binding: tunnel, options: {dnsUnanswerable: refuse}}\n");
    assert!(words.contains("= allowed: timeout, servfail, refused\n"), "{words}");
    assert!(words.contains("= did you mean: refused\n"), "{words}");
    // A missing key is reported at the location where its section begins.
    let absent = report("link:\n  listeners:\n    - binding: transport\n");
    assert!(absent.contains("--> r.yml:6:7\n"), "{absent}");
}

#[test]
fn secrets_are_not_shown() {
    let more = "proxy: {type: http, address: 'p:1', password: 5, username: [hunter2]}\n";
    let said = report(more);
    assert!(said.contains("proxy.password: must be a string"), "{said}");
    assert!(said.contains("(not shown)") && !said.contains("hunter2"), "{said}");
    let examined = examine(&more.replace("5, username: [hunter2]", "hunter2, username: u"));
    let password = examined.facts.get("proxy.password").unwrap();
    assert_eq!(password.value, "(not shown)");
    assert!(!format!("{:?} {:?}", examined.facts, examined.source).contains("hunter2"));
    let pem = "-----BEGIN EC PRIVATE KEY-----";
    let text = format!("v: 3\nidentity: {{cert: a, key: '{pem}'}}\nctrl: {{}}\n");
    let none = |_: &str| None;
    let examined = RouterConfig::examine(&text, Path::new("r.yml"), &none).unwrap();
    assert_eq!(examined.facts.get("identity.key").unwrap().value, "(not shown)");
}

#[test]
fn each_value_has_an_origin() {
    let examined = examine(
        "link:\n  listeners:\n    - {binding: transport, bind: 'tls:0.0.0.0:1', advertise: 'tls:${HOST}:1'}\n\
         edge: {dbSaveIntervalSeconds: 5}\n\
         listeners: [{binding: edge, address: 'tls:a:1', advertise: 'a:1'}]\n",
    );
    let fact = |key: &str| examined.facts.get(key).unwrap_or_else(|| panic!("{key}")).clone();
    let advertise = fact("link.listeners[0].advertise");
    assert_eq!(advertise.value, "tls:r1.example:1");
    let names = vec!["HOST".to_owned()];
    assert_eq!(advertise.origin, ValueOrigin::Variables { line: 6, column: 62, names });
    assert_eq!(advertise.origin.to_string(), "line 6, $HOST");
    let endpoint = fact("ctrl.endpoint");
    assert_eq!(endpoint.origin, ValueOrigin::File { line: 3, column: 18 });
    let silent = fact("forwarder.xgressDialWorkerCount");
    assert_eq!((silent.value.as_str(), silent.origin), ("128", ValueOrigin::Default));
    // The fact has the value in effect, 30, which replaces the one in the file.
    let raised = fact("edge.dbSaveIntervalSeconds");
    assert_eq!((raised.value.as_str(), raised.origin.to_string().as_str()), ("30", "line 7"));
    assert_eq!(fact("edge.db").value, "r.yml.proto.gzip");
}

#[test]
fn keys_that_stand_twice_and_variables_that_are_not_set_are_named() {
    let examined =
        examine("metrics:\n  reportInterval: 5s\n  reportInterval: 7s\nplugins: [$NOBODY]\n");
    let said: Vec<String> = examined.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "line 6: reportInterval: the key is in the file twice; this one counts, and the one in line 5 is ignored",
            "line 7: the variable `NOBODY` is not set; it is replaced by an empty text"
        ]
    );
    assert_eq!(examined.config.metrics.report_interval.as_secs(), 7);
}

#[test]
fn a_misspelt_key_is_a_mistake_unless_the_right_one_is_there_too() {
    assert_eq!(examine("metrics: {reportIntervall: 5s}\n").problems.len(), 1);
    let both = examine("metrics: {reportIntervall: 5s, reportInterval: 6s}\n");
    assert_eq!(both.problems, []);
    assert_eq!(both.warnings[0].suggestion.as_deref(), Some("reportInterval"));
    // Keys of other programs.
    assert_eq!(examine("ha: {enabled: false}\nsomebodysExtension: 1\n").problems, []);
}
