//! The logs of a cluster in etcd: its members, TLS, and the keys with which everything is sealed.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustls_platform_verifier::BuilderVerifierExt as _;
use weft_config::controller::ClusterConfig;
use weft_etcd::{EtcdLog, EtcdOptions, SealingKeys};
use weft_identity::tls::{ALPN_H2, ClientTls, client_config, provider};
use weft_identity::{IdentitySection, LiveIdentity, TrustBundle};

use crate::failure::{Failure, Result, chain};

/// The interval of looks at the files of certificates.
const LOOK: Duration = Duration::from_secs(1);
/// What the keys of the sessions begin with, behind the prefix of the network.
const SESSIONS: &str = "sessions/";

/// The logs of the model and of the sessions.
pub(super) fn logs(config: &ClusterConfig) -> Result<(EtcdLog, EtcdLog)> {
    let etcd = etcd_options(config).map_err(|failure| failure.during("cluster"))?;
    let sessions = EtcdOptions { prefix: format!("{}{SESSIONS}", etcd.prefix), ..etcd.clone() };
    Ok((EtcdLog::new(etcd), EtcdLog::new(sessions)))
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
        sealing: Arc::new(network_keys(&config.key)?),
    })
}

/// The TLS settings of connections to etcd.
pub(crate) fn tls(config: &ClusterConfig) -> Result<rustls::ClientConfig> {
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
            let identity = LiveIdentity::load(section)?;
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(follow(Arc::downgrade(&identity)));
            }
            client_config(&ClientTls::of_identity(&identity, &[ALPN_H2]))?
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

/// Reads certificate, key and authorities again when their files have changed, for the connections after that, until
/// nothing uses them any more.
async fn follow(identity: Weak<LiveIdentity>) {
    let mut complaint = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(identity) = identity.upgrade() else { return };
        let looked = tokio::task::spawn_blocking(move || identity.reload_if_changed()).await;
        match looked {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => {
                complaint = None;
                tracing::info!("changed certificates of `cluster` are in use");
            }
            Ok(Err(error)) => {
                let problem = error.to_string();
                if complaint.as_ref() != Some(&problem) {
                    tracing::warn!(problem, "changed certificates of `cluster` are not in use");
                    complaint = Some(problem);
                }
            }
            // The runtime ends.
            Err(_) => return,
        }
    }
}

/// The keys of a network in a file: in each line the number of a key, and the key in 64 hexadecimal digits. The last one
/// seals, all of them unseal.
pub(crate) fn network_keys(path: &Path) -> Result<SealingKeys> {
    let text = weft_identity::read_file(path).map_err(|error| {
        Failure::from(error).during("key").and(
            "`weft controller config --etcd` makes one for a new network; the controllers of a network have the same",
        )
    })?;
    SealingKeys::in_file(path, &String::from_utf8_lossy(&text))
        .map_err(|error| Failure::new(format!("{}, {error}", path.display())))
}

/// The text of a file with a new key of a network.
pub(crate) fn new_network_key() -> String {
    let key: [u8; 32] = rand::random();
    format!("1 {}\n", hex::encode(key))
}

#[cfg(test)]
mod tests {
    use weft_store::LogKeys as _;

    use super::*;

    #[test]
    fn keys_of_a_network_are_read_and_mistakes_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.key");
        assert!(network_keys(&path).unwrap_err().to_string().contains("network.key"));
        std::fs::write(&path, new_network_key()).unwrap();
        assert_eq!(network_keys(&path).unwrap().numbers().sealing, 1);
        std::fs::write(&path, "1 abc").unwrap();
        let refused = network_keys(&path).unwrap_err().to_string();
        assert!(refused.contains("network.key, line 1: not a number"), "{refused}");
    }
}
