//! The store of a controller that is one of several: its copy, and etcd, in which they share the model and the sessions.

use std::path::Path;
use std::sync::Arc;

use rustls_platform_verifier::BuilderVerifierExt as _;
use weft_config::controller::ClusterConfig;
use weft_etcd::{EtcdLog, EtcdOptions, SealingKeys};
use weft_identity::tls::{ALPN_H2, ClientTls, client_config, provider};
use weft_identity::{IdentitySection, LiveIdentity, TrustBundle};
use weft_store::{Options, Replica, SharedLog as _};

use crate::check::Purpose;
use crate::failure::{Failure, Result, chain};

/// What the keys of the sessions begin with, behind the prefix of the network.
const SESSIONS: &str = "sessions/";
/// Digits of a key of a network.
const DIGITS: usize = 64;

/// Opens the copy at a path, and follows what is in etcd, for the controller of this name. A controller that starts needs a network there or in its copy;
/// otherwise a new one is begun.
pub(super) async fn open(
    config: &ClusterConfig,
    path: &Path,
    options: Options,
    (name, purpose): (&str, Purpose),
) -> Result<Replica> {
    let during = |failure: Failure| failure.during("cluster");
    let etcd = etcd_options(config).map_err(during)?;
    let sessions = EtcdOptions { prefix: format!("{}{SESSIONS}", etcd.prefix), ..etcd.clone() };
    let (model, sessions) = (EtcdLog::new(etcd), EtcdLog::new(sessions));
    let has_copy = std::fs::metadata(path).is_ok_and(|found| found.len() > 0);
    if !has_copy || purpose != Purpose::Start {
        let head = model.head().await;
        let head = head.map_err(|error| during(Failure::caused_by(&error)))?;
        if let Some(refusal) = refusal(config, head.is_some(), has_copy, purpose) {
            return Err(during(refusal));
        }
    }
    let model = Arc::new(model);
    let store = Replica::open_with_live(path, options, model, Arc::new(sessions)).await;
    let store = store.map_err(|error| Failure::caused_by(&error).during("cluster"))?;
    if purpose == Purpose::Start {
        store.announce(name.to_owned());
    }
    tell_obstacles(&store);
    Ok(store)
}

/// Why nothing is opened, if so.
fn refusal(
    config: &ClusterConfig,
    is_in_etcd: bool,
    has_copy: bool,
    purpose: Purpose,
) -> Option<Failure> {
    let place = format!("under {} in etcd", config.prefix);
    match (is_in_etcd, has_copy, purpose) {
        (false, false, Purpose::Start) => Some(Failure::new(format!(
            "there is no network {place}: is the prefix right? A new network is made by `weft controller init`"
        ))),
        (false, true, _) => Some(Failure::new(format!(
            "there is no network {place}, but the file that `db` names has one. A network cannot move from a file into \
             etcd yet: name a new file with `db`, and make a new network with `weft controller init`"
        ))),
        _ => None,
    }
}

fn etcd_options(config: &ClusterConfig) -> Result<EtcdOptions> {
    let tls = match config.has_tls {
        true => Some(Arc::new(tls(config)?)),
        false => None,
    };
    Ok(EtcdOptions {
        endpoints: config.members.iter().map(ToString::to_string).collect(),
        tls,
        user: config.login.as_ref().map(|login| (login.user.clone(), login.password.clone())),
        prefix: config.prefix.clone(),
        sealing: Arc::new(SealingKeys::new(network_keys(&config.key)?)),
    })
}

fn tls(config: &ClusterConfig) -> Result<rustls::ClientConfig> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let bundle = match &config.authorities {
        Some(file) => Some(TrustBundle::from_pem(&weft_identity::read_file(file)?)?),
        None => None,
    };
    Ok(match (bundle, &config.client) {
        (Some(_), Some((cert, key))) => {
            let ca = config.authorities.as_deref().map(text);
            let section = IdentitySection {
                cert: text(cert),
                key: text(key),
                ca: ca.unwrap_or_default(),
                ..IdentitySection::default()
            };
            client_config(&ClientTls::of_identity(&LiveIdentity::load(section)?, &[ALPN_H2]))?
        }
        (Some(bundle), None) => client_config(&ClientTls::anonymous(bundle, &[ALPN_H2]))?,
        (None, Some(_)) => {
            return Err(Failure::new(
                "clientCert needs ca, the authorities of etcd's certificates",
            ));
        }
        (None, None) => {
            let builder = rustls::ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_platform_verifier());
            let builder = builder.map_err(|error| Failure::new(chain(&error)))?;
            let mut tls = builder.with_no_client_auth();
            tls.alpn_protocols = vec![ALPN_H2.to_vec()];
            tls
        }
    })
}

/// The keys of a network in a file: in each line the number of a key, and the key in 64 hexadecimal digits. The last one
/// seals, all of them unseal.
fn network_keys(path: &Path) -> Result<Vec<(u32, [u8; DIGITS / 2])>> {
    let text = weft_identity::read_file(path).map_err(|error| {
        Failure::from(error).during("key").and(
            "`weft controller config --etcd` makes one for a new network; the controllers of a network have the same",
        )
    })?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().filter(|line| !line.trim().is_empty()).enumerate();
    let keys: Vec<_> = lines
        .map(|(at, line)| {
            key_in(line).ok_or_else(|| {
                Failure::new(format!(
                    "{}, line {}: not a number and {DIGITS} hexadecimal digits",
                    path.display(),
                    at + 1
                ))
            })
        })
        .collect::<Result<_>>()?;
    match keys.is_empty() {
        true => Err(Failure::new(format!("{} holds no key", path.display()))),
        false => Ok(keys),
    }
}

fn key_in(line: &str) -> Option<(u32, [u8; DIGITS / 2])> {
    let (number, digits) = line.trim().split_once(' ')?;
    let mut key = [0; DIGITS / 2];
    hex::decode_to_slice(digits.trim(), &mut key).ok()?;
    Some((number.parse().ok()?, key))
}

/// The text of a file with a new key of a network.
pub(crate) fn new_network_key() -> String {
    let key: [u8; DIGITS / 2] = rand::random();
    format!("1 {}\n", hex::encode(key))
}

/// Logs when the controller cannot write, why, and when it can again.
fn tell_obstacles(store: &Replica) {
    let mut states = store.states();
    tokio::spawn(async move {
        let mut known = None;
        loop {
            let obstacle = states.borrow_and_update().obstacle.clone();
            match (&known, &obstacle) {
                (before, Some(cause)) if before.as_ref() != Some(cause) => {
                    tracing::error!(%cause, "this controller is cut off from the others: it changes nothing until it reaches etcd again; reads, logins and dials go on");
                }
                (Some(_), None) => tracing::info!("this controller reaches etcd again"),
                _ => {}
            }
            known = obstacle;
            if states.changed().await.is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_network_are_read_and_mistakes_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.key");
        assert!(network_keys(&path).unwrap_err().to_string().contains("network.key"));
        let text = new_network_key();
        std::fs::write(&path, &text).unwrap();
        assert_eq!(network_keys(&path).unwrap()[0].0, 1);
        std::fs::write(&path, format!("{text}\n2 {}\n", "ab".repeat(32))).unwrap();
        let both = network_keys(&path).unwrap();
        assert_eq!((both.len(), both[1]), (2, (2, [0xab; 32])));
        for wrong in ["", "1", "1 abc", "x 00", &format!("1 {}", "0".repeat(63))] {
            std::fs::write(&path, wrong).unwrap();
            assert!(
                network_keys(&path).unwrap_err().to_string().contains("network.key"),
                "{wrong}"
            );
        }
    }
}
