//! One word, one thing: few names of public types occur in more than one crate, each for a stated reason.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use weft_pages::files;

/// Most names of public types that crates may share.
const MOST: usize = 60;

/// Crates that show the same entities: as they are kept, in the API, on the wires, and to applications. A name that only
/// these crates share needs no entry of its own.
const SHOW_ENTITIES: &[&str] = &["contract", "model", "sdk", "wire"];

/// The names that crates share, in order, each with the reason why it is one word.
const SHARED: &[(&str, &str)] = &[
    ("Access", "how a filter, an operation and a router let somebody in"),
    ("ApiSession", "an entity, as the router keeps it"),
    ("Call", "an accepted client on its way; an operation with its parameters"),
    ("ChannelOptions", "a section of files, and what it sets"),
    ("CircuitRequest", "a message, and what the router asks for by it"),
    ("Client", "a client of OpenID Connect; a client of a tunneler"),
    ("ConnectEvents", "a section of files, and the message that it rules"),
    ("Connection", "the noun of the field, for DTLS and for applications"),
    ("Context", "a message of the original; what one read of the model sees"),
    ("CtrlListener", "an entity, and the section of files that it comes from"),
    ("Data", "a payload of the original; the data half of a router"),
    ("DialOptions", "the noun of the field, for channels and for services"),
    ("EdgeListener", "a message, and the section of files that it comes from"),
    ("Egress", "the end of a route that dials, in its message and in the router"),
    ("EndpointState", "posture of a device, as it is reported and kept"),
    ("Error", "the error of a crate"),
    ("Event", "events of the original's data model; events of a controller"),
    ("Forward", "one line of a route, in its message and in the router"),
    ("Histogram", "the noun of the field, measured and in its message"),
    ("Hop", "one router of a route, as it is told and as it is traced"),
    ("Identity", "an entity; the keys and certificates that prove it"),
    ("Link", "a link between routers; a link in the API"),
    ("LinkConnection", "one connection of a link, in the API and in the router"),
    ("LinkListener", "a section of files, and the listener"),
    ("Links", "the links between routers; the links in the API"),
    ("Listener", "the noun of the field"),
    ("Listeners", "the listening sockets of a program, and their message"),
    ("Login", "a login, as it happens and once it has succeeded"),
    ("Logins", "the logins that a controller or a person has"),
    ("Network", "a network of addresses; the network of routers"),
    ("Options", "the options of a crate's main type"),
    ("Peer", "the other end of a connection"),
    ("PeerState", "what a controller says of another router, and its message"),
    ("Protocol", "TCP or UDP; a protocol of a controller in the API"),
    ("PublicKey", "a public key, by what it is for"),
    ("Refusal", "why something is refused, by who refuses it"),
    ("Result", "the result with the error of a crate"),
    ("Router", "an entity; the program"),
    ("Schema", "a schema of JSON; the members and symbols of an entity"),
    ("Service", "an entity, as tunnelers and applications see it"),
    ("Settings", "the settings of a controller, and a message of the original"),
    ("StartError", "why a program or a server of it does not start"),
    ("Tags", "tags of entities and of metrics"),
    ("TokenKeys", "the keys that sign tokens, kept and in the API"),
    ("TokenRequest", "the request for tokens, as it is sent and as it is read"),
    ("Verdict", "why a path is taken or not, found and in the API"),
];

/// The crate of a source of the product; none for other files.
fn crate_of(path: &str) -> Option<&str> {
    let is_product =
        path.starts_with("crates/") && path.ends_with(".rs") && !path.contains("tests");
    let folder = ["/src/", "/generated/"].iter().find_map(|inner| path.split_once(inner));
    folder.filter(|_| is_product).and_then(|(folder, _)| folder.rsplit('/').next())
}

/// The names of public types that more than one crate has, each with these crates. `sources` are crates with their texts.
fn shared<'s>(
    sources: impl Iterator<Item = (&'s str, &'s str)>,
) -> BTreeMap<&'s str, BTreeSet<&'s str>> {
    let head =
        Regex::new(r"(?m)^\s*pub (?:unsafe )?(?:struct|enum|trait|type|union) (\w+)").unwrap();
    let mut crates: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (own, text) in sources {
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for found in head.captures_iter(text) {
            crates.entry(found.get(1).unwrap().as_str()).or_default().insert(own);
        }
    }
    crates.retain(|_, own| own.len() > 1 && own.iter().any(|it| !SHOW_ENTITIES.contains(it)));
    crates
}

/// What is wrong with a list of shared names.
fn faults(found: &BTreeMap<&str, BTreeSet<&str>>, listed: &[(&str, &str)]) -> Vec<String> {
    let mut faults = Vec::new();
    let names: BTreeSet<&str> = listed.iter().map(|(name, _)| *name).collect();
    for (name, crates) in found.iter().filter(|(name, _)| !names.contains(*name)) {
        faults.push(format!("{name} is in {crates:?}: name each type after its own subject"));
    }
    for name in names.iter().filter(|name| !found.contains_key(*name)) {
        faults.push(format!("{name} is listed, and crates do not share it any more"));
    }
    for (name, _) in listed.iter().filter(|(_, reason)| reason.split(' ').count() < 2) {
        faults.push(format!("{name} has no reason"));
    }
    if !listed.is_sorted_by(|one, next| one.0 < next.0) {
        faults.push("the list is not in order, or has a name twice".to_owned());
    }
    if listed.len() > MOST {
        faults.push(format!("{} names are listed, {MOST} may be", listed.len()));
    }
    faults
}

#[test]
fn crates_share_few_names_of_public_types() {
    let files = files::all().unwrap();
    let sources = files.iter().filter_map(|file| Some((crate_of(&file.path)?, file.text.as_str())));
    let wrong = faults(&shared(sources), SHARED);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_that_crates_share_are_found() {
    let sources = [
        ("model", "pub struct Router {\npub enum Own {}\n"),
        ("wire", "pub struct Router {}\n    pub struct Path;"),
        ("paths", "pub struct Path {}\npub(crate) struct Own;\nstruct Router;"),
        ("limits", "// pub struct Path\n#[cfg(test)]\nmod tests {\n    pub struct Own;"),
    ];
    let found = shared(sources.into_iter());
    assert_eq!(found.keys().collect::<Vec<_>>(), [&"Path"]);
    assert_eq!(found["Path"], BTreeSet::from(["paths", "wire"]));
    assert_eq!(crate_of("crates/shared/wire/src/edge/data.rs"), Some("wire"));
    assert_eq!(crate_of("crates/wire/generated/weft.ctrl.rs"), Some("wire"));
    assert_eq!(crate_of("crates/shared/wire/src/tests/edge.rs"), None);
    assert_eq!(crate_of("bench/src/path/chain.rs"), None);
}

#[test]
fn a_list_that_is_too_long_or_too_old_is_refused() {
    let numbered: Vec<String> = (0..=MOST).map(|number| format!("Name{number:02}")).collect();
    let crates = BTreeSet::from(["paths", "router"]);
    let found: BTreeMap<&str, _> = numbered.iter().map(|name| (&**name, crates.clone())).collect();
    let mut listed: Vec<(&str, &str)> = found.keys().map(|name| (*name, "a reason")).collect();
    assert_eq!(faults(&found, &listed), ["61 names are listed, 60 may be"]);
    let last = listed.pop().unwrap().0;
    assert!(faults(&found, &listed)[0].starts_with(last), "it is not listed");
    let found = found.into_iter().filter(|(name, _)| *name != last && *name != "Name00").collect();
    assert_eq!(faults(&found, &listed), ["Name00 is listed, and crates do not share it any more"]);
    listed[0] = ("Name00", "reason");
    assert!(faults(&found, &listed).contains(&"Name00 has no reason".to_owned()));
    listed.swap(0, 1);
    assert!(faults(&found, &listed).iter().any(|it| it.contains("not in order")));
}
