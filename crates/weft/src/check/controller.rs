//! Checks of the files and addresses that a controller's configuration names.

use std::path::Path;
use std::sync::Arc;

use weft_config::{ControllerConfig, Examined, FileFacts};
use weft_identity::{Identity, IdentitySection, TrustBundle};

use super::addresses::{self, given};
use super::finding::{Finding, Purpose, add};
use super::identity::{self, Renewal, Rules};
use super::{debugging, web, without_effect};
use crate::compose::etcd;
use crate::compose::keys::{self, Material};
use crate::failure::chain;

/// Keys with addresses to listen at.
const BINDS: [&str; 2] = ["ctrl.listener", "web[].bindPoints[].interface"];

/// Checks everything that a controller's file refers to.
pub(crate) fn controller(examined: &mut Examined<ControllerConfig>, purpose: Purpose) {
    let config = &examined.config;
    let mut findings = identities(config);
    findings.extend(addresses::listen(&examined.facts, &BINDS, purpose));
    findings.extend(advertised(config, &examined.facts));
    let database = &config.storage.database;
    findings.extend(match database.is_dir() {
        true => {
            let text = format!("{} is a folder; `db` names a file", database.display());
            Some(Finding::mistake("db", text))
        }
        false => addresses::folder_of("db", database, purpose),
    });
    findings.extend(authorities(config));
    findings.extend(of_cluster(config));
    findings.extend(web::scrapers(&examined.facts));
    findings.extend(debugging::files(&config.debugging, purpose));
    let folder = config.snapshot_folder.as_deref();
    let of = |folder| addresses::folder_of("snapshots.folder", folder, purpose);
    findings.extend(folder.and_then(of));
    findings.extend(name_of_network(config));
    let silent = without_effect::of_controller(config);
    add(examined, findings);
    without_effect::add(examined, silent);
}

/// The warning about the name of the network that its certificates or the file give it.
fn name_of_network(config: &ControllerConfig) -> Option<Finding> {
    let load = |section: &IdentitySection| Identity::load(section).ok().map(Arc::new);
    let web = keys::with_identity(config).filter_map(|server| server.identity.as_ref());
    let material = Material {
        own: load(&config.identity.clone().with_controller_defaults())?,
        signer: load(&keys::signer_section(config).ok()?)?,
        web: web.map(load).collect::<Option<_>>()?,
    };
    let (key, text) = keys::network_name(config, &material).ok()?.warning?;
    Some(Finding::warning(key, text))
}

/// Mistakes in the files of the section `cluster`. The key of the root may be in a safe place meanwhile.
fn of_cluster(config: &ControllerConfig) -> Vec<Finding> {
    let Some(section) = &config.storage.cluster else { return Vec::new() };
    // Without them, the file says what to write.
    let is_named = !section.key.as_os_str().is_empty();
    let key = is_named.then(|| etcd::network_keys(&section.key).err()).flatten();
    let key = key.map(|failure| Finding::mistake("cluster.key", failure.to_string()));
    let tls = section.has_tls.then(|| etcd::tls(section).err()).flatten();
    let tls = tls.map(|failure| Finding::mistake("cluster", failure.to_string()));
    let root = section.root.as_ref().and_then(|(cert, _)| {
        let read = weft_identity::read_file(cert).and_then(|text| TrustBundle::from_pem(&text));
        let reason = chain(&read.err()?);
        Some(Finding::mistake("cluster.rootCert", format!("{}: {reason}", cert.display())))
    });
    [key, tls, root].into_iter().flatten().collect()
}

/// Mistakes in the files of authorities of identity providers.
fn authorities(config: &ControllerConfig) -> Vec<Finding> {
    let files = config.edge.iter().flat_map(|edge| &edge.jwks_fetch.authorities);
    let wrong = files.filter_map(|(host, file)| {
        let reason = match weft_identity::read_file(Path::new(file)) {
            Err(error) => chain(&error),
            Ok(text) => TrustBundle::from_pem(&text).err()?.to_string(),
        };
        let key = format!("edge.externalJwtSigners.jwksFetch.authorities.{host}");
        Some(Finding::mistake(key, format!("{file}: {reason}")))
    });
    wrong.collect()
}

fn identities(config: &ControllerConfig) -> Vec<Finding> {
    let mut out = Vec::new();
    // The controller's certificate may be below any authority: clients are told which ones to trust.
    let renewal = Renewal::ByHand(
        "renew it (`weft controller renew --home DIR`, if `weft controller config` made it)",
    );
    let rules = Rules { servers_lead_to_ca: false, renewal };
    if !config.identity.cert.is_empty() {
        out.extend(identity::look(&config.identity, rules));
    }
    let web = config.web.iter().filter_map(|server| server.identity.as_ref());
    out.extend(web.flat_map(|section| identity::look(section, rules)));
    if let Some(edge) = &config.edge {
        let signing = &edge.enrollment.signing_cert;
        let section = IdentitySection {
            section: "edge.enrollment.signingCert".to_owned(),
            cert: signing.cert.clone(),
            key: signing.key.clone(),
            ca: signing.ca.clone().unwrap_or_default(),
            ..IdentitySection::default()
        };
        // The signer is checked without a bundle, because it may be below any authority.
        let alone = IdentitySection { ca: String::new(), ..section.clone() };
        let rules = Rules { renewal: Renewal::ByHand("exchange the signer"), ..rules };
        out.extend(identity::look(&alone, rules));
        let bundle = IdentitySection { cert: String::new(), key: String::new(), ..section };
        out.extend(identity::look(&bundle, rules));
    }
    out
}

/// Checks that the advertised names are in a certificate.
fn advertised(config: &ControllerConfig, facts: &FileFacts) -> Vec<Finding> {
    let load = |section: &IdentitySection| -> Option<Identity> {
        let section: IdentitySection = section.clone().with_controller_defaults();
        Identity::load(&section).ok()
    };
    let Some(own) = load(&config.identity) else { return Vec::new() };
    let mut out = Vec::new();
    for fact in given(facts) {
        let words = match fact.general_key().as_str() {
            "ctrl.options.advertiseAddress" => {
                "provided value for ctrl/options/advertiseAddress is invalid"
            }
            "web[].bindPoints[].address" => "address not valid",
            _ => continue,
        };
        let Some((_, host, _)) = addresses::parts(&fact.value) else { continue };
        let checked = match web::identity_at(&config.web, &fact.key) {
            Some(section) => load(section).map(|identity| identity.check_host(&host)),
            None => Some(own.check_host(&host)),
        };
        if let Some(Err(error)) = checked {
            out.push(Finding::mistake(fact.key.clone(), format!("{words}: {error}")));
        }
    }
    out
}
