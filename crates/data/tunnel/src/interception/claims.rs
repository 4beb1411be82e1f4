//! The claims of a party's services. Only a service that has changed is read again: there may be
//! thousands, and each change of one arrives with the list of all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weft_intercept::NotIntercepted;

use super::Interceptable;
use crate::{Identity, Intercept, InterceptAddress, Protocol, Service, ServiceRoute, config};

/// The services of a party, with their claims.
pub(super) struct Claims {
    /// The prefix of the party's claims, which keeps them apart from those of other parties.
    prefix: String,
    /// Services by id.
    known: HashMap<String, ClaimedService>,
}

/// A service that was read.
struct ClaimedService {
    service: Arc<Service>,
    identity: Arc<Identity>,
    configs: [Option<String>; config::INTERCEPTING.len()],
    claims: bool,
    /// The addresses of its clients, for the log.
    at: String,
    /// True if the log says that its clients are intercepted at these addresses.
    is_told: bool,
    /// True if the log says that they are intercepted at the addresses that the service had before.
    was_told: bool,
    /// Problems of the claim.
    problems: Vec<String>,
    /// The entries of its config that are left out.
    left_out: Vec<String>,
}

/// A change that operators are told of: clients of a service are intercepted, or no longer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// They are, at these addresses.
    Begins(String, String),
    /// They are not.
    Ends(String),
}

/// The changes after a change of services.
#[derive(Default)]
pub(super) struct Step {
    /// Claims that are added or replaced.
    pub(super) claims: Vec<weft_intercept::Service>,
    /// The routes of their clients, by the id of the claim.
    pub(super) routes: Vec<(String, ServiceRoute)>,
    /// Claims that are removed.
    pub(super) gone: Vec<String>,
    /// Services by the id of the claim.
    services: Vec<(String, String)>,
    /// Names of services that are intercepted no more.
    ended: Vec<String>,
}

impl Claims {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, known: HashMap::new() }
    }

    /// The changes for this list of services. A claim that was not taken is made again; `is_taken`
    /// says which ones were.
    pub(super) fn step(
        &mut self,
        services: &[Interceptable<'_>],
        is_taken: impl Fn(&str) -> bool,
    ) -> Step {
        let mut step = Step::default();
        let wanted: HashSet<&str> = services.iter().map(|one| one.service.id.as_str()).collect();
        let prefix = &self.prefix;
        self.known.retain(|id, known| {
            let stays = wanted.contains(id.as_str());
            if !stays && known.claims {
                step.gone.push(format!("{prefix}{id}"));
            }
            if !stays && known.is_told {
                step.ended.push(known.service.name.clone());
            }
            stays
        });
        for one in services {
            let claim = || format!("{prefix}{}", one.service.id);
            let before = self.known.get(&one.service.id);
            let stays = before.is_some_and(|known| {
                let is_done = !known.claims || known.problems.is_empty() || is_taken(&claim());
                is_done && known.is_of(one)
            });
            if stays {
                continue;
            }
            let claimed = before.is_some_and(|known| known.claims);
            let told = before.filter(|known| known.is_told);
            let mut known = read(one, claim(), &mut step);
            if claimed && !known.claims {
                step.gone.push(claim());
            }
            if let Some(told) = told {
                known.is_told = told.at == known.at && told.service.name == known.service.name;
                known.was_told = !known.is_told;
            }
            self.known.insert(one.service.id.clone(), known);
        }
        step
    }

    /// Keeps the problems of a step's claims.
    pub(super) fn note(&mut self, step: &Step, refused: &[NotIntercepted]) {
        let mut by_claim: HashMap<&str, Vec<String>> = HashMap::new();
        for problem in refused {
            by_claim.entry(problem.service.as_str()).or_default().push(shown(problem));
        }
        for (id, name) in &step.services {
            if let (Some(known), Some(problems)) =
                (self.known.get_mut(id), by_claim.get(name.as_str()))
            {
                known.problems.clone_from(problems);
            }
        }
    }

    /// The changes of a step that operators are told of, once its claims were made.
    pub(super) fn news(&mut self, step: Step, is_taken: impl Fn(&str) -> bool) -> Vec<News> {
        let mut news: Vec<News> = step.ended.into_iter().map(News::Ends).collect();
        let prefix = &self.prefix;
        for (id, known) in &mut self.known {
            let is_intercepted = known.claims && is_taken(&format!("{prefix}{id}"));
            let name = || known.service.name.clone();
            if is_intercepted && !known.is_told {
                news.push(News::Begins(name(), known.at.clone()));
            } else if !is_intercepted && (known.is_told || known.was_told) {
                news.push(News::Ends(name()));
            }
            (known.is_told, known.was_told) = (is_intercepted, false);
        }
        news
    }

    /// The problems of services: names and reasons.
    pub(super) fn problems(&self, services: &[Interceptable<'_>]) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for one in services {
            let known = self.known.get(&one.service.id);
            let problems = known.into_iter().flat_map(|it| it.left_out.iter().chain(&it.problems));
            out.extend(problems.map(|why| (one.service.name.clone(), why.clone())));
        }
        out
    }
}

impl ClaimedService {
    fn is_of(&self, one: &Interceptable<'_>) -> bool {
        self.service == one.service
            && self.identity == *one.identity
            && self
                .configs
                .iter()
                .zip(config::INTERCEPTING)
                .all(|(known, kind)| known.as_deref() == one.configs.get(kind).map(String::as_str))
    }
}

/// Reads a service; adds its claim to the step.
fn read(one: &Interceptable<'_>, claim: String, step: &mut Step) -> ClaimedService {
    let service = &one.service;
    let read = Intercept::read(one.configs).and_then(|intercept| {
        let route = ServiceRoute::new(Arc::clone(service), one.configs, one.identity, 0)?;
        let interfaces = config::interfaces(one.configs)?;
        Ok(intercept.map(|intercept| (intercept, route, interfaces)))
    });
    const SHOWN: usize = 4;
    let (mut problems, mut left_out, mut at) = (Vec::new(), Vec::new(), String::new());
    let claims = match read {
        Ok(Some((intercept, route, interfaces))) => {
            at = intercept.first_addresses(SHOWN).join(", ");
            for problem in &intercept.left_out {
                tracing::warn!(service = %service.name, %problem, "an entry is left out");
                left_out.push(problem.to_string());
            }
            step.claims.push(claimed(claim.clone(), service, &intercept, interfaces));
            step.routes.push((claim, route));
            step.services.push((service.id.clone(), service.name.clone()));
            true
        }
        Ok(None) => false,
        Err(problem) => {
            tracing::warn!(service = %service.name, %problem, "a service is not intercepted");
            problems.push(problem.to_string());
            false
        }
    };
    ClaimedService {
        service: Arc::clone(service),
        identity: Arc::clone(one.identity),
        configs: config::INTERCEPTING.map(|kind| one.configs.get(kind).cloned()),
        claims,
        at,
        is_told: false,
        was_told: false,
        problems,
        left_out,
    }
}

fn shown(problem: &NotIntercepted) -> String {
    match problem.entry.as_str() {
        "" => problem.why.to_string(),
        entry => format!("{} {}", entry.escape_debug(), problem.why),
    }
}

/// The claim of a service for the interceptor.
fn claimed(
    id: String,
    service: &Service,
    intercept: &Intercept,
    interfaces: Option<Vec<String>>,
) -> weft_intercept::Service {
    let addresses = intercept.addresses.iter().map(|address| match address {
        InterceptAddress::Network(network) => format!("{}/{}", network.address(), network.prefix()),
        InterceptAddress::Name(name) => name.clone(),
        InterceptAddress::Domain(domain) => format!("*.{domain}"),
        InterceptAddress::AnyName => "*".to_owned(),
    });
    let protocols = intercept.protocols.iter().map(|protocol| match protocol {
        Protocol::Tcp => weft_intercept::Protocol::Tcp,
        Protocol::Udp => weft_intercept::Protocol::Udp,
    });
    let sources = intercept.allowed_sources.iter().flatten();
    weft_intercept::Service {
        id,
        name: service.name.clone(),
        protocols: protocols.collect(),
        addresses: addresses.collect(),
        ports: intercept.port_ranges.iter().map(|range| (range.low, range.high)).collect(),
        sources: sources
            .map(|network| format!("{}/{}", network.address(), network.prefix()))
            .collect(),
        diverted: weft_intercept::Diverted { id: service.id.clone(), interfaces },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configs;

    #[test]
    fn services_claim_what_their_configs_say() {
        let config = serde_json::json!({
            "protocols": ["tcp"],
            "addresses": ["web.example", "*.lab.example", "*", "10.1.0.0/16", "fd00::1"],
            "portRanges": [{"low": 80, "high": 90}],
            "allowedSourceAddresses": ["192.168.0.0/16", "10.9.9.9"],
        });
        let configs = Configs::from([("intercept.v1".to_owned(), config.to_string())]);
        let intercept = Intercept::read(&configs).unwrap().unwrap();
        let service = Service { id: "s1".into(), name: "web".into(), ..Service::default() };
        let interfaces =
            Configs::from([("interfaces.v1".into(), r#"{"interfaces":["eth1"]}"#.into())]);
        let interfaces = config::interfaces(&interfaces).unwrap();
        let claimed = claimed("0/s1".into(), &service, &intercept, interfaces);
        assert_eq!(claimed.diverted.id, "s1");
        assert_eq!(claimed.diverted.interfaces, Some(vec!["eth1".to_owned()]));
        assert_eq!((claimed.id.as_str(), claimed.name.as_str()), ("0/s1", "web"));
        assert_eq!(claimed.protocols, [weft_intercept::Protocol::Tcp]);
        let addresses = ["web.example", "*.lab.example", "*", "10.1.0.0/16", "fd00::1/128"];
        assert_eq!(claimed.addresses, addresses);
        assert_eq!(claimed.ports, [(80, 90)]);
        assert_eq!(claimed.sources, ["192.168.0.0/16", "10.9.9.9/32"]);
    }

    /// Services by name and `intercept.v1`, as a party has them.
    struct Lab {
        claims: Claims,
        services: Vec<(Arc<Service>, Configs)>,
        own: Arc<Identity>,
    }

    impl Lab {
        fn new() -> Self {
            let (own, services) = (Arc::default(), Vec::new());
            Self { claims: Claims::new("7/".into()), services, own }
        }

        fn put(&mut self, name: &str, config: Option<&str>) {
            self.services.retain(|(service, _)| service.name != name);
            let id = format!("id-{name}");
            let service = Service { id, name: name.into(), ..Service::default() };
            let config = config.map(|text| ("intercept.v1".to_owned(), text.to_owned()));
            self.services.push((Arc::new(service), config.into_iter().collect()));
        }

        /// The claims and those given up; checks that every refusal has a reason.
        fn step(&mut self, taken: bool, refused: &[&str]) -> (Vec<String>, Vec<String>) {
            let (claims, gone, _) = self.step_with_news(taken, refused);
            (claims, gone)
        }

        /// The same, and what operators are told.
        fn step_with_news(
            &mut self,
            taken: bool,
            refused: &[&str],
        ) -> (Vec<String>, Vec<String>, Vec<News>) {
            let services = self.services.iter().map(|(service, configs)| Interceptable {
                service: Arc::clone(service),
                configs,
                identity: &self.own,
            });
            let step = self.claims.step(&services.collect::<Vec<_>>(), |_| taken);
            let problem = |name: &&str| NotIntercepted {
                service: (*name).to_owned(),
                entry: String::new(),
                why: "exceeds the limit of 1 services".into(),
            };
            self.claims.note(&step, &refused.iter().map(problem).collect::<Vec<_>>());
            let claims = step.claims.iter().map(|claim| claim.id.clone()).collect();
            assert_eq!(step.claims.len(), step.routes.len());
            let gone = step.gone.clone();
            (claims, gone, self.claims.news(step, |_| taken))
        }

        fn news(&mut self, taken: bool) -> Vec<News> {
            self.step_with_news(taken, &[]).2
        }

        fn problems(&self) -> Vec<(String, String)> {
            let services = self.services.iter().map(|(service, configs)| Interceptable {
                service: Arc::clone(service),
                configs,
                identity: &self.own,
            });
            self.claims.problems(&services.collect::<Vec<_>>())
        }
    }

    fn at(address: &str) -> String {
        let ports = r#"[{"low":80,"high":80}]"#;
        format!(r#"{{"protocols":["tcp"],"addresses":["{address}"],"portRanges":{ports}}}"#)
    }

    fn claim(id: &str) -> Vec<String> {
        vec![format!("7/id-{id}")]
    }

    #[test]
    fn only_what_changes_is_claimed_anew() {
        let mut lab = Lab::new();
        lab.put("a", Some(&at("a.example")));
        lab.put("b", Some(&at("b.example")));
        lab.put("none", None);
        let (claims, gone) = lab.step(true, &[]);
        assert_eq!((claims.len(), gone.len()), (2, 0));
        assert_eq!(lab.step(true, &[]), (vec![], vec![]), "nothing changed");
        lab.put("b", Some(&at("c.example")));
        assert_eq!(lab.step(true, &[]), (claim("b"), vec![]));
        // Services without claims: one without ports, one with a broken config, one that was
        // deleted.
        lab.put("b", None);
        assert_eq!(lab.step(true, &[]), (vec![], claim("b")));
        lab.put("b", Some(&at("b.example")));
        assert_eq!(lab.step(true, &[]), (claim("b"), vec![]));
        lab.put("b", Some("{"));
        assert_eq!(lab.step(true, &[]), (vec![], claim("b")));
        assert_eq!(lab.problems().len(), 1);
        assert_eq!(lab.step(true, &[]), (vec![], vec![]));
        assert_eq!(lab.problems().len(), 1, "it is not read again, and still wrong");
        lab.services.retain(|(service, _)| service.name != "a");
        assert_eq!(lab.step(true, &[]), (vec![], claim("a")));
        // Templates are about the identity.
        lab.put("d", Some(&at("d.example")));
        assert_eq!(lab.step(true, &[]), (claim("d"), vec![]));
        lab.own = Arc::new(Identity { name: "other".into(), ..Identity::default() });
        assert_eq!(lab.step(true, &[]).0, claim("d"));
    }

    #[test]
    fn operators_are_told_when_a_service_comes_and_goes() {
        let begins = |name: &str, at: &str| News::Begins(name.to_owned(), at.to_owned());
        let ends = |name: &str| News::Ends(name.to_owned());
        let mut lab = Lab::new();
        lab.put("none", None);
        lab.put("a", Some(&at("a.example")));
        assert_eq!(lab.news(false), [], "not taken");
        assert_eq!(lab.news(true), [begins("a", "tcp:a.example:80")]);
        assert_eq!(lab.news(true), [], "nothing changed");
        lab.put("a", Some(&at("b.example")));
        assert_eq!(lab.news(true), [begins("a", "tcp:b.example:80")]);
        lab.own = Arc::new(Identity { name: "other".into(), ..Identity::default() });
        assert_eq!(lab.news(true), [], "at the same addresses");
        lab.put("a", Some("{"));
        assert_eq!(lab.news(true), [ends("a")]);
        lab.put("a", Some(&at("a.example")));
        assert_eq!(lab.news(true), [begins("a", "tcp:a.example:80")]);
        lab.put("a", Some(&at("c.example")));
        assert_eq!(lab.news(false), [ends("a")], "the new addresses are not taken");
        assert_eq!(lab.news(true), [begins("a", "tcp:c.example:80")]);
        lab.services.retain(|(service, _)| service.name != "a");
        assert_eq!(lab.news(true), [ends("a")]);
        assert_eq!(lab.news(true), []);
    }

    #[test]
    fn a_claim_that_was_not_taken_is_made_again() {
        let mut lab = Lab::new();
        lab.put("a", Some(&at("a.example")));
        assert_eq!(lab.step(false, &["a"]).0, claim("a"));
        let why = ("a".to_owned(), "exceeds the limit of 1 services".to_owned());
        assert_eq!(lab.problems(), std::slice::from_ref(&why));
        // The claim is taken in part.
        assert_eq!(lab.step(true, &[]), (vec![], vec![]));
        assert_eq!(lab.problems(), [why]);
        assert_eq!(lab.step(false, &[]).0, claim("a"));
        assert_eq!(lab.problems(), [], "there is room now");
    }
}
