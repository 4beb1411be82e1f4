//! Certificates that end while the controller runs: a warning once a day, and a metric. At the start the
//! check of the file warns.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_util::task::AbortOnDropHandle;
use weft_controller::Controller;
use weft_identity::{Certificate, LiveIdentity};
use weft_metrics::Scope;

/// Interval of the warnings.
const LOOK: Duration = Duration::from_secs(24 * 3600);
/// Name of the metric.
const METRIC: &str = "weft.certificate.seconds_left";

/// Watches certificates until it is dropped.
pub(super) struct Watch {
    _task: AbortOnDropHandle<()>,
    _metric: Scope,
}

/// Begins to watch the certificates of identities.
pub(super) fn watch(identities: Vec<Arc<LiveIdentity>>, controller: &Controller) -> Watch {
    let identities: Arc<[_]> = identities.into();
    let mut metric = controller.kernel().measures().scope();
    let measured = Arc::clone(&identities);
    metric.gauge(METRIC, move || seconds_left(&measured, SystemTime::now()));
    let task = tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK).await;
            let now = SystemTime::now();
            for identity in &*identities {
                warning(identity, now).iter().for_each(|text| tracing::warn!("{text}"));
                alternatives(identity, now).iter().for_each(|text| tracing::warn!("{text}"));
            }
        }
    });
    Watch { _task: AbortOnDropHandle::new(task), _metric: metric }
}

/// Time until the first certificate ends; negative after that.
fn seconds_left(identities: &[Arc<LiveIdentity>], now: SystemTime) -> i64 {
    let ends = identities.iter().filter_map(|one| Some(one.current().first_to_end()?.not_after()));
    let Some(first) = ends.min() else { return i64::MAX };
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    first.duration_since(now).map_or_else(|past| -seconds(past.duration()), seconds)
}

fn warning(identity: &LiveIdentity, now: SystemTime) -> Option<String> {
    let current = identity.current();
    let certificate = current.first_to_end().filter(|first| first.ends_soon(now))?;
    Some(format!(
        "{}: the certificate of `{}` ends {}; then nobody accepts it, and the controller does not start \
         again: renew it. `weft controller renew` renews the one that `weft controller config` made",
        identity.section().section(),
        certificate.subject(),
        certificate.end_in_words(now)
    ))
}

fn alternatives(identity: &LiveIdentity, now: SystemTime) -> Vec<String> {
    let (current, section) = (identity.current(), identity.section().section());
    let text = |leaf: &Certificate| {
        format!(
            "{section}: the alternative certificate of `{}` ends {}, and is not shown to clients then: \
             renew it",
            leaf.subject(),
            leaf.end_in_words(now)
        )
    };
    current.ending_alternatives(now).map(text).collect()
}

#[cfg(test)]
mod tests {
    use weft_identity::{
        Authority, AuthoritySpec, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey,
        SubjectName, TrustBundle,
    };

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn the_end_of_a_certificate_is_told_in_its_last_60_days_and_measured_always() {
        let now = SystemTime::now();
        let root = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name("ctrl");
        let leaf =
            Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Both, now).unwrap();
        let end = leaf.not_after;
        let chain = KeyedChain::new(vec![root.issue(&leaf).unwrap()], key).unwrap();
        let identity = Identity::new(Some(chain), Vec::new(), TrustBundle::default());
        let identities = [LiveIdentity::fixed(identity)];
        assert_eq!(warning(&identities[0], end - DAY * 61), None);
        let text = warning(&identities[0], end - DAY * 12 + DAY / 24).unwrap();
        assert!(text.starts_with("identity: ") && text.contains("in 11 days"), "{text}");
        let left = seconds_left(&identities, end - DAY * 12);
        assert!((11 * 86_400..=12 * 86_400).contains(&left), "{left}");
        assert!(seconds_left(&identities, end + DAY) <= -86_400);
    }
}
