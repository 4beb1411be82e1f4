//! Questions to hosts of services, for records of names below their wildcards.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

use crate::carry::Carry;
use crate::records::{RecordQuestion, Records};

/// Time limit for a host's answer, including the dial.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most different questions under way at once.
const MOST_QUESTIONS: usize = 256;

/// The service, and the question for its host.
type Key = (Arc<str>, RecordQuestion);
type SharedLookup = Shared<BoxFuture<'static, Option<Arc<Records>>>>;

/// The hosts of services, and the questions under way.
pub(crate) struct Hosts {
    carry: Arc<dyn Carry>,
    patience: Duration,
    /// The same question is asked only once at a time, whichever client asks, even a host whose own
    /// DNS server is this one.
    asking: Arc<Mutex<HashMap<Key, SharedLookup>>>,
}

impl Hosts {
    pub(crate) fn new(carry: Arc<dyn Carry>) -> Self {
        Self { carry, patience: PATIENCE, asking: Arc::default() }
    }

    /// The answer of a service's host; `None` without an answer in time, or with too many questions
    /// under way.
    pub(crate) async fn ask(
        &self,
        service: Arc<str>,
        question: RecordQuestion,
    ) -> Option<Arc<Records>> {
        self.answer((service, question))?.await
    }

    fn answer(&self, key: Key) -> Option<SharedLookup> {
        let mut asking = self.asking.lock();
        if let Some(answer) = asking.get(&key) {
            return Some(answer.clone());
        }
        if asking.len() >= MOST_QUESTIONS {
            return None;
        }
        let (carry, table, own) = (Arc::clone(&self.carry), Arc::clone(&self.asking), key.clone());
        let patience = self.patience;
        // A task of its own, because the client that asked first may go away.
        let task = tokio::spawn(async move {
            let asked = carry.records(&own.0, own.1.clone());
            let answer = tokio::time::timeout(patience, asked).await;
            table.lock().remove(&own);
            answer.ok().flatten().map(Arc::new)
        });
        let answer = async move { task.await.ok().flatten() }.boxed().shared();
        asking.insert(key, answer.clone());
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Arrival, InterceptedClient, RecordKind};

    /// Hosts that count questions, and answer none that begins with `silent`.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Carry for Counting {
        fn carry(&self, _: Arrival, _: InterceptedClient) {}

        fn records(
            &self,
            _: &Arc<str>,
            question: RecordQuestion,
        ) -> BoxFuture<'static, Option<Records>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            if question.name.starts_with("silent") {
                return std::future::pending().boxed();
            }
            async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Some(Records::none(Records::NO_NAME))
            }
            .boxed()
        }
    }

    fn question(name: &str) -> RecordQuestion {
        RecordQuestion { name: name.into(), kind: RecordKind::Mx }
    }

    #[tokio::test]
    async fn one_question_is_asked_once_at_a_time_and_not_for_ever() {
        let counting = Arc::new(Counting::default());
        let mut hosts = Hosts::new(Arc::clone(&counting) as Arc<dyn Carry>);
        let ask = |service: &str, name: &str| hosts.ask(service.into(), question(name));
        let answers = futures::future::join_all((0..50).map(|_| ask("s", "a.example"))).await;
        assert!(answers.iter().flatten().all(|records| records.code == Records::NO_NAME));
        assert_eq!((answers.len(), counting.0.load(Ordering::SeqCst)), (50, 1));
        assert!(ask("other", "a.example").await.is_some());
        assert_eq!(counting.0.load(Ordering::SeqCst), 2, "another service has another host");
        // Waiting questions are bounded, and end after a while.
        hosts.patience = Duration::from_millis(300);
        let ask = |service: &str, name: &str| hosts.ask(service.into(), question(name));
        let waiting: Vec<_> = (0..MOST_QUESTIONS)
            .map(|i| hosts.answer(("s".into(), question(&format!("silent{i}")))))
            .collect();
        assert!(waiting.iter().all(Option::is_some));
        assert!(ask("s", "b.example").await.is_none());
        for answer in waiting.into_iter().flatten() {
            assert!(answer.await.is_none());
        }
        assert!(hosts.asking.lock().is_empty());
        assert!(ask("s", "b.example").await.is_some());
    }
}
