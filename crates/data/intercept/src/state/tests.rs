use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::ports::Range;

fn service(id: &str, addresses: &[&str], ports: &[Range], sources: &[&str]) -> Service {
    let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    Service {
        id: id.into(),
        name: id.into(),
        protocols: vec![Protocol::Tcp],
        addresses: texts(addresses),
        ports: ports.to_vec(),
        sources: texts(sources),
        ..Service::default()
    }
}

fn state() -> State {
    State::new("100.64.0.1/10".parse().unwrap(), Limits::default(), ["ctrl.example".to_owned()])
}

/// Adds a service without mistakes.
fn add(state: &mut State, service: &Service) -> Changes {
    let (changes, problems) = state.add(service, Instant::now());
    assert_eq!(problems, []);
    changes
}

fn assign(state: &mut State, name: &str, now: Instant) -> Result<(IpAddr, Changes), NoAddress> {
    let (assigned, changes) = state.assign(name, now, HashSet::new);
    assigned.map(|address| (address, changes))
}

fn naming(state: &mut State, name: &str) -> Naming {
    state.naming(name, Instant::now())
}

fn nets<'a>(elements: impl IntoIterator<Item = &'a Element>) -> Vec<(String, Range)> {
    elements.into_iter().map(|element| (element.net.to_string(), element.ports)).collect()
}

#[test]
fn several_services_share_a_name() {
    let mut state = state();
    let first = add(&mut state, &service("web", &["App.example"], &[(80, 80)], &[]));
    assert_eq!(nets(&first.new), [("100.64.0.2/32".into(), (80, 80))]);
    let second = add(&mut state, &service("ssh", &["app.example"], &[(22, 22)], &[]));
    assert_eq!(nets(&second.new), [("100.64.0.2/32".into(), (22, 22))]);
    let now = Instant::now();
    let to = |state: &mut State, port| {
        let found =
            state.find(Protocol::Tcp, [10, 0, 0, 1].into(), ([100, 64, 0, 2], port).into(), now);
        found.map(|(plan, name)| (plan.name.clone(), name.unwrap().to_string()))
    };
    assert_eq!(to(&mut state, 22), Some(("ssh".into(), "app.example".into())));
    state.remove("ssh", now);
    assert_eq!(to(&mut state, 22), None);
    assert_eq!(to(&mut state, 80), Some(("web".into(), "app.example".into())));
    let gone = state.remove("web", now);
    assert_eq!(nets(&gone.gone), [("100.64.0.2/32".into(), (80, 80))]);
    assert_eq!(state.sizes(), (0, 0, 0));
}

#[test]
fn two_services_with_one_wildcard_do_not_end_each_other() {
    let mut state = state();
    let now = Instant::now();
    add(&mut state, &service("web", &["*.corp.example"], &[(80, 80)], &[]));
    add(&mut state, &service("ssh", &["*.corp.example"], &[(22, 22)], &[]));
    assert_eq!(naming(&mut state, "a.corp.example"), Naming::Wild);
    assert_eq!(naming(&mut state, "corp.example"), Naming::Unknown);
    let (address, changes) = assign(&mut state, "a.corp.example", now).unwrap();
    assert_eq!(changes.new.len(), 2);
    assert_eq!(naming(&mut state, "a.corp.example"), Naming::Known(address, 0));
    let gone = state.remove("ssh", now);
    assert_eq!(nets(&gone.gone), [(format!("{address}/32"), (22, 22))]);
    assert_eq!(naming(&mut state, "a.corp.example"), Naming::Known(address, 0));
    // A service that is added later gets the names that are assigned already.
    let new = add(&mut state, &service("all", &["*"], &[(1, 65_535)], &[]));
    assert_eq!(nets(&new.new), [(format!("{address}/32"), (1, 65_535))]);
    state.remove("web", now);
    state.remove("all", now);
    assert_eq!(state.sizes(), (0, 0, 0));
    assert_eq!(naming(&mut state, "a.corp.example"), Naming::Unknown);
}

#[test]
fn one_address_of_two_services_stays_until_both_are_gone() {
    let (mut state, now) = (state(), Instant::now());
    let first = add(&mut state, &service("a", &["10.0.0.0/8"], &[(80, 80)], &[]));
    assert_eq!(first.new_routes.len(), 1);
    let second = add(&mut state, &service("b", &["10.0.0.0/8"], &[(80, 90)], &[]));
    assert!(second.new_routes.is_empty());
    assert_eq!(nets(&second.new), [("10.0.0.0/8".into(), (80, 90))]);
    assert_eq!(nets(&second.gone), [("10.0.0.0/8".into(), (80, 80))]);
    let gone = state.remove("a", now);
    assert!(gone.is_empty(), "{gone:?}");
    let gone = state.remove("b", now);
    assert_eq!(gone.gone_routes.len(), 1);
    assert_eq!(state.sizes(), (0, 0, 0));
}

#[test]
fn lists_of_sources_are_groups() {
    let (mut state, now) = (state(), Instant::now());
    let net = ["10.0.0.0/8"];
    let first =
        add(&mut state, &service("a", &net, &[(80, 80)], &["192.168.1.0/24", "192.168.0.0/24"]));
    assert_eq!(first.new_groups.len(), 1);
    // The same sources in another notation.
    let second = add(&mut state, &service("b", &net, &[(81, 81)], &["192.168.0.0/23"]));
    assert_eq!(second.new_groups, []);
    add(&mut state, &service("c", &net, &[(82, 82)], &[]));
    let whose = |state: &mut State, source: [u8; 4], port| {
        let found = state.find(Protocol::Tcp, source.into(), ([10, 1, 1, 1], port).into(), now);
        found.map(|(plan, _)| plan.name.clone())
    };
    assert_eq!(whose(&mut state, [192, 168, 1, 9], 81).as_deref(), Some("b"));
    assert_eq!(whose(&mut state, [192, 168, 2, 9], 81), None);
    assert_eq!(whose(&mut state, [192, 168, 2, 9], 82).as_deref(), Some("c"));
    state.remove("a", now);
    let last = state.remove("b", now);
    assert_eq!(last.gone_groups.len(), 1);
    assert_eq!(last.gone.len(), 1);
}

#[test]
fn what_a_controller_is_called_is_not_intercepted() {
    let mut state = state();
    let (_, problems) =
        state.add(&service("evil", &["CTRL.example", "*"], &[(443, 443)], &[]), Instant::now());
    assert_eq!(problems.len(), 1);
    assert_eq!(naming(&mut state, "ctrl.example"), Naming::Unknown);
    assert_eq!(naming(&mut state, "other.example"), Naming::Wild);
    assert_eq!(naming(&mut state, "bad name"), Naming::Unknown);
}

#[test]
fn names_that_become_known_as_our_own_are_taken_back() {
    let (mut state, now) = (state(), Instant::now());
    add(&mut state, &service("wild", &["*.example"], &[(443, 443)], &[]));
    add(&mut state, &service("named", &["router.example", "10.0.0.1"], &[(443, 443)], &[]));
    let (address, _) = assign(&mut state, "ctrl2.example", now).unwrap();
    let names = || ["ctrl2.example".to_owned(), "Router.example".to_owned()];
    let (changes, problems) = state.keep(names(), now);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let gone: Vec<_> = changes.gone.iter().map(|element| element.net.to_string()).collect();
    assert!(gone.contains(&format!("{address}/32")) && gone.len() == 2, "{gone:?}");
    assert_eq!(changes.new, BTreeSet::new());
    for name in ["ctrl2.example", "router.example"] {
        assert_eq!(naming(&mut state, name), Naming::Unknown, "{name}");
    }
    assert_eq!(naming(&mut state, "ctrl.example"), Naming::Wild, "no longer kept");
    assert_eq!(state.keep(names(), now), (Changes::default(), Vec::new()));
    // Without kept names, the services have them again.
    let (changes, problems) = state.keep([], now);
    assert_eq!((changes.new.len(), problems), (1, Vec::new()));
    state.remove("wild", now);
    state.remove("named", now);
    assert_eq!(state.sizes(), (0, 0, 0));
}

#[test]
fn limits_hold_and_are_told() {
    let limits = Limits { services: 3, elements: 4, groups: 1, names: 1, ..Limits::default() };
    let mut state = State::new("100.64.0.1/10".parse().unwrap(), limits, []);
    let now = Instant::now();
    let mut add = |id, addresses: &[&str], sources: &[&str]| {
        state.add(&service(id, addresses, &[(80, 80)], sources), now).1.len()
    };
    assert_eq!(add("a", &["10.0.0.1"], &["10.1.0.0/16"]), 0);
    assert_eq!(add("b", &["10.0.0.1"], &["10.2.0.0/16"]), 1);
    assert_eq!(add("c", &["1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"], &[]), 1);
    assert_eq!(add("d", &["*.x.example"], &[]), 0);
    assert_eq!(add("e", &["10.0.0.3"], &[]), 0);
    assert_eq!(add("f", &["10.0.0.4"], &[]), 1);
    assert!(assign(&mut state, "a.x.example", now).is_ok());
    assert_eq!(assign(&mut state, "b.x.example", now).unwrap_err(), NoAddress::TooMany);
    // Names that no client uses are given back.
    let later = now + Duration::from_secs(700);
    let (_, changes) = assign(&mut state, "b.x.example", later).unwrap();
    assert_eq!((changes.gone.len(), changes.new.len()), (1, 1));
}

#[test]
fn changes_one_after_the_other_are_one_change() {
    let (mut state, now) = (state(), Instant::now());
    let mut all = Changes::default();
    let services = [
        service("a", &["10.0.0.0/8", "a.example"], &[(80, 90)], &[]),
        service("b", &["10.0.0.0/8", "10.1.0.0/16"], &[(85, 95)], &["10.9.0.0/16"]),
        service("c", &["10.1.0.0/16", "*.example"], &[(1, 1000)], &[]),
        service("d", &["a.example"], &[(5, 5)], &["fd00::/8"]),
    ];
    for service in &services {
        all.then(add(&mut state, service));
    }
    all.then(assign(&mut state, "x.example", now).unwrap().1);
    let mut whole = state.everything();
    whole.new_groups.sort();
    all.new_groups.sort();
    assert_eq!(all, whole);
    for service in &services {
        all.then(state.remove(&service.id, now));
    }
    assert!(all.is_empty(), "{all:?}");
    assert!(!state.has(&services[0]) && state.ids().is_empty());
}

fn small(elements: usize) -> State {
    let limits = Limits { elements, ..Limits::default() };
    State::new("100.64.0.1/10".parse().unwrap(), limits, [])
}

#[test]
fn what_does_not_fit_leaves_nothing_behind() {
    let hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
    let mut both = service("both", &[&hosts[..], &["a.example"]].concat(), &[(80, 80)], &[]);
    both.protocols = vec![Protocol::Tcp, Protocol::Udp];
    // Each port that a wider network takes splits a range.
    let split = service("split", &["10.0.0.0/8"], &[(10, 10), (20, 20), (30, 30)], &[]);
    let sources: Vec<String> = (1..12).map(|index| format!("10.{}.0.0/16", 2 * index)).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let guarded = service("guarded", &["10.0.0.9"], &[(80, 80)], &sources);
    for odd in [both, split, guarded] {
        let (mut state, now) = (small(10), Instant::now());
        add(&mut state, &service("first", &hosts, &[(1, 65_535)], &[]));
        let before = (state.everything(), state.sizes());
        let (changes, problems) = state.add(&odd, now);
        assert!(changes.is_empty(), "{changes:?}");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].to_string().contains("at most 10"), "{problems:?}");
        assert_eq!((state.everything(), state.sizes()), before);
        assert_eq!(naming(&mut state, "a.example"), Naming::Unknown);
        add(&mut state, &service("next", &["10.0.1.1", "b.example"], &[(80, 80)], &[]));
        let first = Naming::Known([100, 64, 0, 2].into(), 0);
        assert_eq!(naming(&mut state, "b.example"), first, "no address is used up");
        state.remove("first", now);
        state.remove("next", now);
        assert_eq!(state.sizes(), (0, 0, 0));
    }
}

#[test]
fn sources_are_rules_where_there_are_no_sets() {
    let guarded = service("a", &["10.0.0.1", "10.0.0.2"], &[(80, 80)], &["1.0.0.0/8", "3.0.0.0/8"]);
    let mut state = small(3).per_source(true);
    assert_eq!(state.add(&guarded, Instant::now()).1.len(), 1);
    let mut state = small(4).per_source(true);
    add(&mut state, &guarded);
    assert_eq!(state.sizes().2, 4);
    state.remove("a", Instant::now());
    assert_eq!(state.sizes(), (0, 0, 0));
}

#[test]
fn what_a_wider_network_hid_has_to_fit_without_it() {
    let (mut state, now) = (small(10), Instant::now());
    add(&mut state, &service("wide", &["10.0.0.0/8"], &[(1, 65_535)], &[]));
    add(&mut state, &service("odd", &["10.0.0.0/16"], &[(10, 10), (20, 20), (30, 30)], &[]));
    let hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
    add(&mut state, &service("hosts", &hosts, &[(1, 65_535)], &[]));
    assert_eq!(state.sizes(), (3, 0, 1));
    state.remove("wide", now);
    let dropped: Vec<_> = state.take_dropped().into_iter().map(|one| one.service).collect();
    assert_eq!(dropped, ["hosts"]);
    assert_eq!(state.sizes(), (1, 0, 3));
}

#[test]
fn a_service_that_changes_keeps_the_addresses_of_its_names() {
    let (mut state, now) = (state(), Instant::now());
    add(&mut state, &service("a", &["app.example", "*.corp.example"], &[(80, 80)], &[]));
    let (wild, _) = assign(&mut state, "x.corp.example", now).unwrap();
    let Naming::Known(own, 0) = naming(&mut state, "app.example") else { panic!() };
    add(&mut state, &service("a", &["*.corp.example", "app.example"], &[(81, 81)], &[]));
    assert_eq!(naming(&mut state, "app.example"), Naming::Known(own, 0));
    assert_eq!(naming(&mut state, "x.corp.example"), Naming::Known(wild, 0));
    let found = state.find(Protocol::Tcp, [10, 0, 0, 1].into(), (wild, 81).into(), now);
    assert_eq!(found.unwrap().1.as_deref(), Some("x.corp.example"));
    // Addresses and ports that the service has no longer are removed.
    add(&mut state, &service("a", &["app.example"], &[(81, 81)], &[]));
    assert_eq!(naming(&mut state, "x.corp.example"), Naming::Unknown);
    assert_eq!(naming(&mut state, "app.example"), Naming::Known(own, 0));
    state.remove("a", now);
    assert_eq!(state.sizes(), (0, 0, 0));
}

#[test]
fn a_name_in_use_keeps_its_address() {
    let (mut state, start) = (state(), Instant::now());
    add(&mut state, &service("wild", &["*.example"], &[(53, 53)], &[]));
    let [talk, asked, idle] = ["talk.example", "asked.example", "idle.example"];
    let (address, _) = assign(&mut state, talk, start).unwrap();
    for name in [asked, idle] {
        assign(&mut state, name, start).unwrap();
    }
    let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
    // A conversation lives for two hours, and a client asks for another name now and then.
    for minute in 1..=120 {
        state.touch([address], at(minute));
        if minute.is_multiple_of(50) {
            state.naming(asked, at(minute));
        }
        let gone = state.sweep(at(minute), HashSet::new);
        assert_eq!(gone.gone.len(), usize::from(minute == 60), "minute {minute}");
    }
    assert_eq!(naming(&mut state, idle), Naming::Wild);
    for name in [talk, asked] {
        assert!(matches!(naming(&mut state, name), Naming::Known(..)), "{name}");
    }
    // Nobody asks for names that conversations use unless there is another one to give back.
    assert!(state.sweep(at(122), || panic!("no name is old enough")).is_empty());
    let gone = state.sweep(at(300), || [address].into());
    assert_eq!(gone.gone.len(), 1);
    assert_eq!(naming(&mut state, talk), Naming::Known(address, 0));
}

#[test]
fn a_conversation_keeps_its_address_when_there_is_no_room_for_names() {
    let limits = Limits { names: 1, ..Limits::default() };
    let mut state = State::new("100.64.0.1/10".parse().unwrap(), limits, []);
    let now = Instant::now();
    add(&mut state, &service("wild", &["*.example"], &[(53, 53)], &[]));
    let (address, _) = assign(&mut state, "talk.example", now).unwrap();
    let later = now + Duration::from_secs(700);
    let (refused, changes) = state.assign("next.example", later, || [address].into());
    assert_eq!((refused, changes.is_empty()), (Err(NoAddress::TooMany), true));
    assert!(state.assign("next.example", later + Duration::from_secs(700), HashSet::new).0.is_ok());
}
