//! Checks of the files and addresses that a router's configuration names.

use weft_config::{EndpointsFile, Examined, FileFacts, KeyAt, RouterConfig};
use weft_identity::{Identity, IdentitySection, Location};
use weft_router::check_advertised;

use super::addresses::{self, given};
use super::finding::{Finding, Purpose, add};
use super::identity::{self, Renewal, Rules};
use super::{debugging, interception, web, without_effect};

/// Checks everything that a router's file refers to.
pub(crate) fn router(examined: &mut Examined<RouterConfig>, purpose: Purpose) {
    let config = &examined.config;
    let mut findings = identities(config, purpose);
    findings.extend(requests(config));
    // A mistake in the section `ctrl` may be the reason why no controller is known.
    let is_ctrl = |one: &KeyAt| one.key == "ctrl" || one.key.starts_with("ctrl.");
    if !examined.problems.iter().any(is_ctrl) {
        findings.extend(controllers(config, purpose));
    }
    findings.extend(dialed_by_controllers(config));
    findings.extend(addresses::listen(&examined.facts, &BINDS, purpose));
    findings.extend(interfaces(&examined.facts));
    findings.extend(interception::look(&examined.facts, purpose));
    findings.extend(advertised(config, &examined.facts));
    findings.extend(files(config, purpose));
    findings.extend(web::scrapers(&examined.facts));
    let silent = weft_router::without_effect(config).into_iter();
    let silent = silent.map(|(key, why)| (key.to_owned(), why)).collect();
    add(examined, findings);
    without_effect::add(examined, silent);
}

fn identities(config: &RouterConfig, purpose: Purpose) -> Vec<Finding> {
    let mut out = Vec::new();
    let own = &config.identity;
    if purpose.is_advice() && config.csr.is_some() && !is_enrolled(own) {
        let text = "the router is not enrolled: `weft router enroll` makes these files";
        out.push(Finding::warning("identity", text));
    } else if !own.cert.is_empty() {
        let renewal = match config.csr {
            Some(_) => Renewal::ByRouter,
            None => Renewal::ByHand(
                "renew it by hand, because the router does not without a section `csr`",
            ),
        };
        let rules = Rules { servers_lead_to_ca: true, renewal };
        let mut found = identity::look(own, rules);
        if let Some(cert) =
            found.iter_mut().find(|one| one.key == "identity.cert" && one.is_mistake())
        {
            cert.message += "; a router gets its certificates by enrolling (`weft router enroll`)";
        }
        out.extend(found);
        if own.ca.is_empty() {
            out.push(Finding::warning(
                "identity.ca",
                "without it the router refuses every controller",
            ));
        }
    }
    let others = config.web.iter().filter_map(|server| server.identity.as_ref());
    for section in others.chain(config.transport.wss.identity.as_ref()) {
        let rules = Rules { servers_lead_to_ca: false, renewal: Renewal::ByHand("renew it") };
        out.extend(identity::look(section, rules));
    }
    out
}

/// True if any file exists that enrollment writes.
fn is_enrolled(section: &IdentitySection) -> bool {
    let is_there = |value: &String| match Location::parse(value) {
        Ok(Location::File(path)) => path.exists(),
        // Text in the file itself, or a problem that is reported elsewhere.
        _ => true,
    };
    let files = [&section.cert, &section.server_cert, &section.ca];
    files.into_iter().filter(|value| !value.is_empty()).any(is_there)
}

/// Checks that the router can request certificates, with names for its listeners.
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
    let text = "no name (`sans.dns`, `sans.ip`) is asked for: clients will refuse the certificate \
                of its listeners";
    Some(Finding::warning(if edge { "edge.csr" } else { "csr" }, text))
}

/// Checks that a controller is named by the file or the remembered endpoints, or can dial the router.
fn controllers(config: &RouterConfig, purpose: Purpose) -> Vec<Finding> {
    let ctrl = &config.ctrl;
    let kept = weft_identity::read_file(&ctrl.endpoints_file)
        .ok()
        .and_then(|kept| String::from_utf8(kept).ok());
    let remembered = kept.as_deref().and_then(EndpointsFile::from_text).is_some();
    // With `ctrl.listeners` the router may wait for controllers to dial.
    if !ctrl.endpoints.is_empty() || remembered || !ctrl.listeners.is_empty() {
        return Vec::new();
    }
    if purpose.is_advice() && config.csr.is_some() && !is_enrolled(&config.identity) {
        return Vec::new();
    }
    let text = format!(
        "no controller is known: write `endpoint: tls:<host>:<port>`, or `listeners` if controllers \
         dial this router; {} names none either",
        ctrl.endpoints_file.display()
    );
    vec![Finding::mistake("ctrl", text)]
}

/// Checks that all certificates have the key of the client certificate: a controller that dials a
/// router knows the router by the key that it enrolled with.
fn dialed_by_controllers(config: &RouterConfig) -> Option<Finding> {
    let own = Identity::load(&config.identity).ok();
    let own = own.filter(|_| !config.ctrl.listeners.is_empty())?;
    let key = |chain: &weft_identity::KeyedChain| chain.leaf().public_key().ok().cloned();
    let enrolled = key(own.client()?)?;
    let is_other = |chain| key(chain).is_some_and(|key| key != enrolled);
    let text = "a certificate for servers has another key than `cert`: a controller of weft that dials \
                this router refuses it if the router shows that certificate";
    own.servers().iter().any(is_other).then(|| Finding::warning("ctrl.listeners", text))
}

/// Keys with addresses to listen at.
const BINDS: [&str; 6] = [
    "listeners[].address",
    "listeners[].bind",
    "link.listeners[].bind",
    "ctrl.listeners[].bind",
    "web[].bindPoints[].interface",
    "edge.apiProxy.listener",
];

fn interfaces(facts: &FileFacts) -> Vec<Finding> {
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

/// Checks that the advertised names are in a certificate.
fn advertised(config: &RouterConfig, facts: &FileFacts) -> Vec<Finding> {
    // Problems of the section itself were reported.
    let Ok(identity) = Identity::load(&config.identity) else {
        return Vec::new();
    };
    let outer = config.transport.wss.identity.as_ref();
    let outer = outer.and_then(|section| Identity::load(section).ok());
    let mut out = Vec::new();
    for fact in given(facts) {
        let general = fact.general_key();
        let words = match general.as_str() {
            "listeners[].options.advertise" | "listeners[].advertise" if config.edge.is_some() => {
                "invalid listeners.binding.advertise"
            }
            "link.listeners[].advertise" => "invalid link.listeners.advertise",
            "ctrl.listeners[].advertise" => "controllers will refuse the router's certificate",
            "web[].bindPoints[].address" => "address not valid",
            _ => continue,
        };
        let Some((_, host, _)) = addresses::parts(&fact.value) else { continue };
        let section = web::identity_at(&config.web, &fact.key);
        let own = section.map(Identity::load);
        // Problems of that section were reported.
        let Ok(own) = own.transpose() else { continue };
        let outer = outer.as_ref().filter(|_| is_websocket(facts, &fact.key));
        if let Err(error) = check_advertised(own.as_ref().unwrap_or(&identity), outer, &host) {
            let text = format!("{words}: {error}");
            // Only a warning for `web` and `ctrl`: some clients that ask for a router's health do not
            // compare names, and a router may dial controllers that cannot dial the router.
            out.push(match general.starts_with("web") || general.starts_with("ctrl") {
                true => Finding::warning(fact.key.clone(), text),
                false => Finding::mistake(fact.key.clone(), text),
            });
        }
    }
    out
}

/// True if a key belongs to a listener for WebSockets.
fn is_websocket(facts: &FileFacts, key: &str) -> bool {
    let Some((listener, _)) = key.split_once(']') else { return false };
    let says = |key: &str| {
        let fact = facts.get(&format!("{listener}].{key}"));
        fact.is_some_and(|fact| fact.value.starts_with("wss:"))
    };
    listener.starts_with("listeners[") && (says("address") || says("bind"))
}

/// Checks the folders of files that are written.
fn files(config: &RouterConfig, purpose: Purpose) -> Vec<Finding> {
    let mut out: Vec<Finding> = debugging::files(&config.debugging, purpose).collect();
    if let Some(edge) = &config.edge {
        out.extend(addresses::folder_of("edge.db", &edge.db, purpose));
    }
    let endpoints = &config.ctrl.endpoints_file;
    out.extend(addresses::folder_to_make("ctrl.endpointsFile", endpoints, purpose));
    out
}
