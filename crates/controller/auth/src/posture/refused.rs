//! Bounds the remembered refusals, by number and by bytes. They contain values from reports of
//! clients, which may be long.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use weft_contract::resource::posture_data::FailedServiceRequest;
use weft_model::Id;

/// Refusals kept for one identity (docs/protocol/management-api.md 7.1).
const COUNT: usize = 100;
/// Bytes of refusals kept for one identity; the oldest are dropped first.
const BYTES: usize = 64 * 1024;
/// Bytes of one refusal. A longer one loses its values first, and then policies.
const BYTES_OF_ONE: usize = 16 * 1024;
/// Bytes of the refusals of all identities. A new refusal never displaces those of other
/// identities.
const BYTES_OF_ALL: usize = 64 * 1024 * 1024;

/// A refusal and its length.
#[derive(Debug)]
pub(super) struct SizedRefusal {
    refusal: Arc<FailedServiceRequest>,
    bytes: usize,
}

/// The refusals of identities, the latest first.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    of: HashMap<Id, VecDeque<SizedRefusal>>,
    bytes: usize,
}

impl SizedRefusal {
    /// A refusal, shortened to the limit.
    pub(super) fn new(mut refusal: FailedServiceRequest) -> Self {
        let mut bytes = length(&refusal);
        if bytes > BYTES_OF_ONE {
            for check in refusal.policy_failures.iter_mut().flat_map(|policy| &mut policy.checks) {
                (check.actual_value, check.expected_value) = (Value::Null, Value::Null);
            }
            bytes = length(&refusal);
        }
        while bytes > BYTES_OF_ONE && !refusal.policy_failures.is_empty() {
            refusal.policy_failures.truncate(refusal.policy_failures.len() / 2);
            bytes = length(&refusal);
        }
        Self { refusal: Arc::new(refusal), bytes }
    }
}

impl Refusals {
    /// The refusals of an identity, the latest first.
    pub(super) fn of(&self, identity: &Id) -> Vec<Arc<FailedServiceRequest>> {
        let of = self.of.get(identity).into_iter().flatten();
        of.map(|refused| Arc::clone(&refused.refusal)).collect()
    }

    /// Remembers a refusal.
    pub(super) fn put(&mut self, identity: &Id, refused: SizedRefusal) {
        let of = self.of.entry(identity.clone()).or_default();
        let mut own: usize = of.iter().map(|refused| refused.bytes).sum();
        let others = self.bytes - own;
        let most = BYTES.min(BYTES_OF_ALL.saturating_sub(others));
        own += refused.bytes;
        of.push_front(refused);
        while own > most || of.len() > COUNT {
            let Some(oldest) = of.pop_back() else { break };
            own -= oldest.bytes;
        }
        self.bytes = others + own;
    }

    /// Whether an identity has refusals.
    pub(super) fn has(&self, identity: &Id) -> bool {
        self.of.contains_key(identity)
    }

    /// The identities with refusals.
    pub(super) fn identities(&self) -> impl Iterator<Item = &Id> {
        self.of.keys()
    }

    /// Forgets the refusals of an identity.
    pub(super) fn forget(&mut self, identity: &Id) {
        let gone = self.of.remove(identity).into_iter().flatten();
        self.bytes -= gone.map(|refused| refused.bytes).sum::<usize>();
    }
}

/// The length of a refusal as JSON.
fn length(refusal: &FailedServiceRequest) -> usize {
    struct Counted(usize);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    // Writing to a counter cannot fail; if the encoding fails, the bytes so far count.
    let _ = serde_json::to_writer(&mut counted, refusal);
    counted.0
}

#[cfg(test)]
mod tests {
    use weft_contract::resource::posture_data::{CheckFailure, PolicyFailure};

    use super::*;

    fn refusal(value: usize) -> FailedServiceRequest {
        let check = CheckFailure {
            posture_check_name: "mac".into(),
            actual_value: Value::String("x".repeat(value)),
            ..CheckFailure::default()
        };
        let policy = PolicyFailure { checks: vec![check], ..PolicyFailure::default() };
        FailedServiceRequest { policy_failures: vec![policy], ..FailedServiceRequest::default() }
    }

    #[test]
    fn long_ones_push_out_older_ones() {
        let (mut refusals, id) = (Refusals::default(), Id::new("a"));
        for _ in 0..200 {
            refusals.put(&id, SizedRefusal::new(refusal(1)));
        }
        assert_eq!(refusals.of(&id).len(), COUNT);
        for _ in 0..200 {
            refusals.put(&id, SizedRefusal::new(refusal(BYTES_OF_ONE - 1000)));
        }
        let kept = refusals.of(&id);
        assert!((3..10).contains(&kept.len()), "{}", kept.len());
        assert!(refusals.bytes <= BYTES);
        refusals.forget(&id);
        assert_eq!((refusals.bytes, refusals.of(&id).len()), (0, 0));
    }

    #[test]
    fn one_that_is_too_long_keeps_its_names() {
        let kept = SizedRefusal::new(refusal(BYTES_OF_ONE));
        assert!(kept.bytes < 1000);
        let check = &kept.refusal.policy_failures[0].checks[0];
        assert_eq!((&check.actual_value, check.posture_check_name.as_str()), (&Value::Null, "mac"));
        let mut many = refusal(1);
        many.policy_failures = vec![many.policy_failures[0].clone(); 1000];
        assert!(SizedRefusal::new(many).bytes <= BYTES_OF_ONE);
    }
}
