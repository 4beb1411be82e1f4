//! Posture data in the messages between controllers.

use weft_auth::posture::exchange::SharedPosture;
use weft_auth::posture::{EndpointState, PostureReport};
use weft_model::posture::{OsReport, ProcessReport};
use weft_model::{Id, Timestamp};
use weft_wire::ctrl::posture_of_device::PostureFact;
use weft_wire::ctrl::{
    PostureNews, PostureOfDevice, PostureOfSession, PostureProcess, PostureSystem,
};

const DOMAIN: u32 = 1;
const MACS: u32 = 2;
const OS: u32 = 3;
const PROCESS: u32 = 4;

/// The message that tells posture data.
pub(super) fn news(told: Vec<SharedPosture>, last: bool) -> PostureNews {
    let mut news = PostureNews { last, ..PostureNews::default() };
    for shared in told {
        match shared {
            SharedPosture::Device { identity, reports } => news.devices.push(PostureOfDevice {
                identity: identity.to_string(),
                facts: reports.into_iter().filter_map(fact).collect(),
            }),
            SharedPosture::Endpoint { session, state } => news.sessions.push(PostureOfSession {
                session: session.to_string(),
                woken_at: state.woken_at.map_or(0, |at| at.0),
                unlocked_at: state.unlocked_at.map_or(0, |at| at.0),
            }),
        }
    }
    news
}

fn fact((check, since, report): (String, Timestamp, PostureReport)) -> Option<PostureFact> {
    let fact = PostureFact { check, since: since.0, ..PostureFact::default() };
    Some(match report {
        PostureReport::Domain(domain) => PostureFact { kind: DOMAIN, domain, ..fact },
        PostureReport::Mac(macs) => PostureFact { kind: MACS, macs, ..fact },
        PostureReport::Os(OsReport { os_type, version, build }) => {
            let os = Some(PostureSystem { os_type, version, build });
            PostureFact { kind: OS, os, ..fact }
        }
        PostureReport::Process(path, report) => {
            let ProcessReport { is_running, hash, signer_fingerprints: signers } = report;
            let process = Some(PostureProcess { path, is_running, hash, signers });
            PostureFact { kind: PROCESS, process, ..fact }
        }
        PostureReport::EndpointState { .. } => return None,
    })
}

/// The posture data in a message. What a later release tells beside it is left out, and so is what has no valid id.
pub(super) fn told(news: PostureNews) -> Vec<SharedPosture> {
    let devices = news.devices.into_iter().filter_map(|device| {
        let reports = device.facts.into_iter().filter_map(report).collect();
        Some(SharedPosture::Device { identity: Id::parse(&device.identity).ok()?, reports })
    });
    let time = |at: i64| (at != 0).then_some(Timestamp(at));
    let sessions = news.sessions.into_iter().filter_map(|told| {
        let state =
            EndpointState { woken_at: time(told.woken_at), unlocked_at: time(told.unlocked_at) };
        Some(SharedPosture::Endpoint { session: Id::parse(&told.session).ok()?, state })
    });
    devices.chain(sessions).collect()
}

fn report(fact: PostureFact) -> Option<(String, Timestamp, PostureReport)> {
    let report = match fact.kind {
        DOMAIN => PostureReport::Domain(fact.domain),
        MACS => PostureReport::Mac(fact.macs),
        OS => {
            let PostureSystem { os_type, version, build } = fact.os?;
            PostureReport::Os(OsReport { os_type, version, build })
        }
        PROCESS => {
            let PostureProcess { path, is_running, hash, signers } = fact.process?;
            let report = ProcessReport { is_running, hash, signer_fingerprints: signers };
            PostureReport::Process(path, report)
        }
        _ => return None,
    };
    Some((fact.check, Timestamp(fact.since), report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posture_data_comes_as_it_was_told() {
        let report = |report| ("check".to_owned(), Timestamp(7), report);
        let texts = || vec!["one".to_owned(), "two".to_owned()];
        let os = OsReport { os_type: "Linux".into(), version: "6.1".into(), build: "2".into() };
        let process =
            ProcessReport { is_running: true, hash: "ab".into(), signer_fingerprints: texts() };
        let reports = vec![
            report(PostureReport::Domain("corp".into())),
            report(PostureReport::Mac(texts())),
            report(PostureReport::Os(os)),
            report(PostureReport::Process("/bin/sh".into(), process)),
        ];
        let state = EndpointState { woken_at: Some(Timestamp(9)), unlocked_at: None };
        let all = vec![
            SharedPosture::Device { identity: Id::new("a"), reports },
            SharedPosture::Endpoint { session: Id::new("s"), state },
        ];
        let message = news(all.clone(), true);
        assert!(message.last);
        assert_eq!(format!("{:?}", told(message)), format!("{all:?}"));
        let unknown = PostureFact { kind: 5, ..PostureFact::default() };
        let without = PostureFact { kind: OS, ..PostureFact::default() };
        let device = |identity: &str| PostureOfDevice {
            identity: identity.into(),
            facts: vec![unknown.clone(), without.clone()],
        };
        let odd = PostureNews { devices: vec![device("a"), device("")], ..PostureNews::default() };
        let [SharedPosture::Device { reports, .. }] = &told(odd)[..] else { panic!("one device") };
        assert!(reports.is_empty());
    }
}
