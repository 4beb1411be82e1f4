//! What a router's file names.

use weft_config::{EndpointsFile, Examined, Facts, IdentitySection, RouterConfig};
use weft_identity::{Identity, Location};
use weft_router::check_advertised;

use super::{
    Finding, Purpose, add,
    addresses::{self, given},
    debugging,
    identity::{self, Rules},
    interception, web,
};
use crate::compose::identity_section;

/// Looks at everything that a router's file names outside of itself.
pub(crate) fn router(examined: &mut Examined<RouterConfig>, purpose: Purpose) {
    let config = &examined.config;
    let mut findings = identities(config, purpose);
    findings.extend(requests(config));
    findings.extend(controllers(config, purpose));
    findings.extend(addresses::listen(&examined.facts, &BINDS, purpose));
    findings.extend(interfaces(&examined.facts));
    findings.extend(interception::look(&examined.facts, purpose));
    findings.extend(advertised(config, &examined.facts));
    findings.extend(files(config, purpose));
    findings.extend(web::scrapers(&examined.facts));
    add(examined, findings);
}

fn identities(config: &RouterConfig, purpose: Purpose) -> Vec<Finding> {
    let mut out = Vec::new();
    let own = &config.identity;
    if purpose == Purpose::Advice && config.csr.is_some() && !is_enrolled(own) {
        let text = "the router is not enrolled: `weft router enroll` makes these files";
        out.push(Finding::warning("identity", text));
    } else if !own.cert.is_empty() {
        let rules = Rules { servers_lead_to_ca: true, servers_are_renewed: config.csr.is_some() };
        let mut found = identity::look(own, rules);
        if let Some(cert) = found.iter_mut().find(|one| one.key == "identity.cert") {
            cert.message += "; a router gets its certificates by enrolling (`weft router enroll`)";
        }
        out.extend(found);
        if own.ca.is_empty() {
            out.push(Finding::warning("identity.ca", "without it no controller is believed"));
        }
    }
    let others = config.web.iter().filter_map(|server| server.identity.as_ref());
    for section in others.chain(config.transport.wss.identity.as_ref()) {
        let rules = Rules { servers_lead_to_ca: false, servers_are_renewed: false };
        out.extend(identity::look(section, rules));
    }
    out
}

/// Whether anything is there that enrollment writes.
fn is_enrolled(section: &IdentitySection) -> bool {
    let is_there = |value: &String| match Location::parse(value) {
        Ok(Location::File(path)) => path.exists(),
        // Text in the file itself, or something that will be told of.
        _ => true,
    };
    let files = [&section.cert, &section.server_cert, &section.ca];
    files.into_iter().filter(|value| !value.is_empty()).any(is_there)
}

/// What would be missed when certificates are asked for.
fn requests(config: &RouterConfig) -> Option<Finding> {
    let Some(csr) = &config.csr else {
        let text = "without it the router can neither enroll nor renew its certificates";
        return Some(Finding::warning("csr", text));
    };
    let (sans, edge) = (&csr.sans, config.edge.is_some());
    let listens = edge || !config.link.listeners.is_empty();
    if !listens || !sans.dns.is_empty() || !sans.ip.is_empty() {
        return None;
    }
    let text = "no name (`sans.dns`, `sans.ip`) is asked for: nobody will believe the router at its \
                listeners";
    Some(Finding::warning(if edge { "edge.csr" } else { "csr" }, text))
}

/// Some controller must be known.
fn controllers(config: &RouterConfig, purpose: Purpose) -> Vec<Finding> {
    let ctrl = &config.ctrl;
    let kept = std::fs::read_to_string(&ctrl.endpoints_file);
    let remembered = kept.as_deref().ok().and_then(EndpointsFile::from_text).is_some();
    if !ctrl.endpoints.is_empty() || remembered {
        return Vec::new();
    }
    if purpose == Purpose::Advice && config.csr.is_some() && !is_enrolled(&config.identity) {
        return Vec::new();
    }
    let text = format!(
        "no controller is known: write `endpoint: tls:<host>:<port>`; {} names none either",
        ctrl.endpoints_file.display()
    );
    // Routers of the original may wait for controllers; the addresses may come into the file later.
    vec![if !ctrl.listeners.is_empty() && purpose == Purpose::Advice {
        Finding::warning("ctrl", format!("{text}, and controllers do not dial routers"))
    } else {
        Finding::mistake("ctrl", text)
    }]
}

/// Addresses to listen at, by the keys that name them.
const BINDS: [&str; 6] = [
    "listeners[].address",
    "listeners[].bind",
    "link.listeners[].bind",
    "ctrl.listeners[].bind",
    "web[].bindPoints[].interface",
    "edge.apiProxy.listener",
];

fn interfaces(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    for fact in given(facts) {
        let key = || fact.key.clone();
        match fact.general_key().as_str() {
            "ctrl.bind" | "link.dialers[].bind" => {
                out.extend(addresses::dial_from(key(), &fact.value));
            }
            "link.dialers[].bindInterface"
            | "link.listeners[].bindInterface"
            | "ctrl.listeners[].bindInterface" => {
                out.extend(addresses::interface(key(), &fact.value));
            }
            "listeners[].options.lanIf" => {
                let names = fact.value.trim_matches(['[', ']']).split(", ");
                let names = names.filter(|name| !name.is_empty());
                out.extend(names.filter_map(|name| addresses::interface(key(), name)));
            }
            _ => {}
        }
    }
    out
}

/// What others are told must be a name that a certificate has.
fn advertised(config: &RouterConfig, facts: &Facts) -> Vec<Finding> {
    // What is wrong with the section itself was told of.
    let Ok(identity) = Identity::load(&identity_section(&config.identity)) else {
        return Vec::new();
    };
    let outer = config.transport.wss.identity.as_ref();
    let outer = outer.and_then(|section| Identity::load(&identity_section(section)).ok());
    let mut out = Vec::new();
    for fact in given(facts) {
        let general = fact.general_key();
        let words = match general.as_str() {
            "listeners[].options.advertise" | "listeners[].advertise" if config.edge.is_some() => {
                "invalid listeners.binding.advertise"
            }
            "link.listeners[].advertise" => "invalid link.listeners.advertise",
            "web[].bindPoints[].address" => "address not valid",
            _ => continue,
        };
        let Some((_, host, _)) = addresses::parts(&fact.value) else { continue };
        let section = web::identity_at(&config.web, &fact.key);
        let own = section.map(|section| Identity::load(&identity_section(section)));
        // What is wrong with that section was told of, too.
        let Ok(own) = own.transpose() else { continue };
        let outer = outer.as_ref().filter(|_| is_websocket(facts, &fact.key));
        if let Err(error) = check_advertised(own.as_ref().unwrap_or(&identity), outer, &host) {
            let text = format!("{words}: {error}");
            // Whoever asks for the health of a router may not look at names.
            out.push(match general.starts_with("web") {
                true => Finding::warning(fact.key.clone(), text),
                false => Finding::mistake(fact.key.clone(), text),
            });
        }
    }
    out
}

/// Whether a key is of a listener that speaks WebSockets.
fn is_websocket(facts: &Facts, key: &str) -> bool {
    let Some((listener, _)) = key.split_once(']') else { return false };
    let says = |key: &str| {
        let fact = facts.get(&format!("{listener}].{key}"));
        fact.is_some_and(|fact| fact.value.starts_with("wss:"))
    };
    listener.starts_with("listeners[") && (says("address") || says("bind"))
}

/// Files that are written need a folder.
fn files(config: &RouterConfig, purpose: Purpose) -> Vec<Finding> {
    let mut out: Vec<Finding> = debugging(&config.debugging, purpose).collect();
    if let Some(edge) = &config.edge {
        out.extend(addresses::folder_of("edge.db", &edge.db, purpose));
    }
    let endpoints = &config.ctrl.endpoints_file;
    out.extend(addresses::folder_to_make("ctrl.endpointsFile", endpoints, purpose));
    out
}
