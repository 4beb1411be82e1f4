//! Reports about this device, as answers to the posture checks of services
//! (docs/protocol/auth.md 18, docs/protocol/sdk.md 12.2).
//!
//! A controller names the posture checks of a service in the list of services. [`questions`] finds
//! what they ask about this device, [`device`] finds the answers, and [`Reporter`] sends those that
//! are new, have changed, or were sent long ago. Codes of a second factor are no reports.

mod device;

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_client::ClientApi;
use weft_contract::Word as _;
use weft_contract::resource::posture_check::{PostureCheckType, PostureResponseBody};
use weft_contract::resource::service::ServiceDetail;

use self::device::Device;

/// The interval at which the device is looked at, for a device that has to answer something.
pub(crate) const INTERVAL: Duration = Duration::from_secs(20);

/// The time after which an answer is sent again although it has not changed. Controllers keep
/// reports in memory only, so that a restart of theirs loses them.
const AGAIN: Duration = Duration::from_secs(300);

/// Most questions of all services together; further ones are not answered.
const MAX_QUESTIONS: usize = 4096;

/// Most answers in one request. A path has up to 4 KiB, and controllers take bodies of 1 MiB.
const MAX_ANSWERS: usize = 100;

/// A question of a posture check about this device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Question {
    /// The id of the posture check.
    check: String,
    about: Subject,
}

/// The subject of a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Subject {
    /// The operating system.
    Os,
    /// Hardware addresses.
    Mac,
    /// The Windows domain.
    Domain,
    /// The process whose program has this path.
    Process(String),
}

/// The questions about this device that the posture checks of services ask.
pub(crate) fn questions<S: Borrow<ServiceDetail>>(
    services: impl IntoIterator<Item = S>,
) -> BTreeSet<Question> {
    let mut questions = BTreeSet::new();
    for service in services {
        let policies = &service.borrow().posture_queries;
        for query in policies.iter().flat_map(|policy| &policy.posture_queries) {
            let check = || query.base.id.clone();
            let processes = query.process.iter().chain(&query.processes);
            match PostureCheckType::parse(&query.query_type) {
                Some(PostureCheckType::Os) => {
                    questions.insert(Question { check: check(), about: Subject::Os });
                }
                Some(PostureCheckType::Mac) => {
                    questions.insert(Question { check: check(), about: Subject::Mac });
                }
                Some(PostureCheckType::Domain) => {
                    questions.insert(Question { check: check(), about: Subject::Domain });
                }
                Some(PostureCheckType::Process | PostureCheckType::ProcessMulti) => {
                    questions.extend(processes.map(|process| Question {
                        check: check(),
                        about: Subject::Process(process.path.clone()),
                    }));
                }
                Some(PostureCheckType::Mfa) | None => {}
            }
            if questions.len() >= MAX_QUESTIONS {
                return questions;
            }
        }
    }
    questions
}

/// Sends reports about this device to a controller.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    /// Held while the device is looked at and a report is sent, so that a later report is newer.
    one: tokio::sync::Mutex<()>,
    /// The memory of the device, which a look at it takes to its thread.
    device: Arc<Mutex<Device>>,
    sent: Mutex<Sent>,
}

/// The answers that a controller has.
#[derive(Debug, Default)]
struct Sent {
    /// The API session in which they were sent.
    session: Option<String>,
    answers: HashMap<Question, (PostureResponseBody, Instant)>,
}

impl Sent {
    /// Those of `answers` that the controller has to be told.
    fn news(
        &mut self,
        session: Option<&str>,
        answers: Vec<(Question, PostureResponseBody)>,
        now: Instant,
    ) -> Vec<(Question, PostureResponseBody)> {
        if self.session.as_deref() != session || self.answers.len() > 2 * MAX_QUESTIONS {
            *self = Self { session: session.map(str::to_owned), answers: HashMap::new() };
        }
        let is_known = |(question, answer): &(Question, PostureResponseBody)| {
            let known = self.answers.get(question);
            known.is_some_and(|(said, at)| said == answer && now.duration_since(*at) < AGAIN)
        };
        answers.into_iter().filter(|one| !is_known(one)).collect()
    }
}

impl Reporter {
    /// Looks at this device, and sends the answers to `questions` that the controller does not have.
    /// Returns the number of answers that were sent.
    pub(crate) async fn report(
        &self,
        api: &ClientApi,
        questions: BTreeSet<Question>,
    ) -> weft_client::Result<usize> {
        if questions.is_empty() {
            return Ok(0);
        }
        let _one = self.one.lock().await;
        let device = Arc::clone(&self.device);
        let looked = tokio::task::spawn_blocking(move || device.lock().answer(questions)).await;
        let Ok(answers) = looked else { return Ok(0) };
        let session = api.session_key();
        let news = self.sent.lock().news(session.as_deref(), answers, Instant::now());
        for part in news.chunks(MAX_ANSWERS) {
            let answers: Vec<_> = part.iter().map(|(_, answer)| answer.clone()).collect();
            api.report_posture(&answers).await?;
            let mut sent = self.sent.lock();
            let now = Instant::now();
            sent.answers.extend(part.iter().cloned().map(|(asked, said)| (asked, (said, now))));
        }
        Ok(news.len())
    }

    /// Forgets which answers the controller has: the next report sends all of them.
    pub(crate) fn forget(&self) {
        *self.sent.lock() = Sent::default();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(queries: serde_json::Value) -> ServiceDetail {
        let service = json!({"id": "s", "name": "s", "postureQueries":
            [{"policyId": "p", "policyType": "Dial", "postureQueries": queries}]});
        serde_json::from_value(service).unwrap()
    }

    #[test]
    fn every_check_but_second_factors_asks_about_the_device() {
        let one = service(json!([
            {"id": "os", "queryType": "OS"},
            {"id": "mfa", "queryType": "MFA"},
            {"id": "new", "queryType": "of a later release"},
            {"id": "many", "queryType": "PROCESS_MULTI",
             "processes": [{"osType": "Linux", "path": "/a"}, {"osType": "Linux", "path": "/b"}]},
        ]));
        let other = service(json!([
            {"id": "os", "queryType": "OS"},
            {"id": "one", "queryType": "PROCESS", "process": {"osType": "Linux", "path": "/a"}},
        ]));
        let asked = |check: &str, about| Question { check: check.into(), about };
        let process = |check: &str, path: &str| asked(check, Subject::Process(path.into()));
        let expected = [
            process("many", "/a"),
            process("many", "/b"),
            process("one", "/a"),
            asked("os", Subject::Os),
        ];
        assert!(questions([&one, &other]).into_iter().eq(expected));
    }

    #[test]
    fn only_news_are_sent() {
        let asked = Question { check: "os".into(), about: Subject::Os };
        let version = |version: &str| {
            let version = Some(version.to_owned());
            (asked.clone(), PostureResponseBody { version, ..PostureResponseBody::default() })
        };
        let (mut sent, now) = (Sent::default(), Instant::now());
        let mut tell = |session, said: &str, at| {
            let news = sent.news(Some(session), vec![version(said)], at);
            sent.answers.extend(news.iter().cloned().map(|(asked, said)| (asked, (said, at))));
            news.len()
        };
        assert_eq!(tell("a", "1", now), 1);
        assert_eq!(tell("a", "1", now), 0, "the controller has this answer");
        assert_eq!(tell("a", "2", now), 1, "another answer");
        assert_eq!(tell("a", "2", now + AGAIN / 2), 0);
        assert_eq!(tell("a", "2", now + AGAIN), 1, "a controller that restarted has lost it");
        assert_eq!(tell("b", "2", now + AGAIN), 1, "another session");
    }
}
