//! Rights that are taken away under traffic: what flows on them ends, whatever carries it at its ends, and
//! what flows on other rights goes on.

mod flow;
mod ground;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use self::flow::{BEAT, Flow};
use self::ground::Ground;

/// How long a flow may go on without its right. Without any right to end them, flows go on for ever.
const DEADLINE: Duration = Duration::from_secs(30);
/// What dials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Dials {
    Sdk,
    /// An SDK without flow control of its own.
    OldSdk,
    /// A port of the router's tunneler.
    Port,
    UdpPort,
    /// A listener of the router for programs.
    Listener,
    UdpListener,
}

/// What hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hosts {
    Sdk,
    /// The router's own identity.
    Router,
    /// An address that a terminator of an administrator names: nobody's right to host.
    Address,
}

const FLOWS: [(Dials, Hosts); 9] = [
    (Dials::Sdk, Hosts::Sdk),
    (Dials::OldSdk, Hosts::Router),
    (Dials::Sdk, Hosts::Address),
    (Dials::Port, Hosts::Sdk),
    (Dials::Port, Hosts::Router),
    (Dials::UdpPort, Hosts::Router),
    (Dials::Listener, Hosts::Router),
    (Dials::Listener, Hosts::Address),
    (Dials::UdpListener, Hosts::Router),
];

/// What is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Right {
    DialPolicy,
    BindPolicy,
    /// The services leave the policies.
    Attribute,
    /// A posture check that nobody passes comes into a policy.
    DialPosture,
    BindPosture,
    EdgeRouterPolicies,
    ServiceEdgeRouterPolicy,
    DialerDisabled,
    DialerDeleted,
    HostDisabled,
    HostDeleted,
    Service,
    /// The identity of the router that dials; it is the same for all flows.
    OwnDialerDisabled,
    OwnHostDisabled,
    RouterDisabled,
}

const RIGHTS: [Right; 15] = [
    Right::DialPolicy,
    Right::BindPolicy,
    Right::Attribute,
    Right::DialPosture,
    Right::BindPosture,
    Right::EdgeRouterPolicies,
    Right::ServiceEdgeRouterPolicy,
    Right::DialerDisabled,
    Right::DialerDeleted,
    Right::HostDisabled,
    Right::HostDeleted,
    Right::Service,
    Right::OwnDialerDisabled,
    Right::OwnHostDisabled,
    Right::RouterDisabled,
];

impl Right {
    /// Whether each flow has one of its own.
    fn is_own(self) -> bool {
        !matches!(self, Self::OwnDialerDisabled | Self::OwnHostDisabled | Self::RouterDisabled)
    }

    /// The name of the identities whose flows it holds: those of a right about identities or their routers
    /// have no other flows.
    fn people(self) -> String {
        match self {
            Self::EdgeRouterPolicies
            | Self::DialerDisabled
            | Self::DialerDeleted
            | Self::HostDisabled
            | Self::HostDeleted => format!("{self:?}"),
            _ => "Everybody".to_owned(),
        }
    }

    /// Whether a flow is held by it.
    fn holds(self, dials: Dials, hosts: Hosts) -> bool {
        let of_sdk = matches!(dials, Dials::Sdk | Dials::OldSdk);
        match self {
            Self::DialPolicy
            | Self::Attribute
            | Self::DialPosture
            | Self::ServiceEdgeRouterPolicy
            | Self::Service
            | Self::RouterDisabled => true,
            Self::BindPolicy | Self::BindPosture => hosts != Hosts::Address,
            Self::EdgeRouterPolicies => of_sdk || hosts == Hosts::Sdk,
            Self::DialerDisabled | Self::DialerDeleted => of_sdk,
            Self::HostDisabled | Self::HostDeleted => hosts == Hosts::Sdk,
            Self::OwnDialerDisabled => !of_sdk,
            Self::OwnHostDisabled => hosts == Hosts::Router,
        }
    }
}

fn name(right: Right, (dials, hosts): (Dials, Hosts)) -> String {
    format!("{right:?}-{dials:?}-{hosts:?}")
}

/// Waits until flows have ended, and the others have gone on since. Returns those that did otherwise.
async fn settled(flows: &[Flow], over: impl Fn(&Flow) -> bool) -> Vec<String> {
    let begun = Instant::now();
    let before: Vec<u64> = flows.iter().map(|it| it.answered.load(Ordering::Relaxed)).collect();
    loop {
        let otherwise = flows.iter().zip(&before).filter(|(flow, before)| match over(flow) {
            true => !flow.has_ended(),
            false => flow.answered.load(Ordering::Relaxed) < **before + 10,
        });
        let wrong: Vec<String> = otherwise
            .map(|(flow, _)| {
                let did = if over(flow) { "goes on" } else { "has ended" };
                format!("{} {did}", name(flow.of, (flow.dials, flow.hosts)))
            })
            .collect();
        if wrong.is_empty() || begun.elapsed() > DEADLINE {
            return wrong;
        }
        tokio::time::sleep(BEAT).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_flows_on_a_right_ends_with_it_whatever_carries_it() {
    let mut ground = Box::pin(Ground::new()).await;
    let mut flows = Vec::new();
    // One set of flows has no right of its own.
    for right in RIGHTS.into_iter().filter(|it| it.is_own() || *it == Right::RouterDisabled) {
        ground.prepare(right).await;
        for flow in FLOWS {
            flows.push(ground.open(right, flow).await);
        }
    }
    let mut taken: Vec<Right> = Vec::new();
    for right in RIGHTS {
        ground.take_away(right).await;
        taken.push(right);
        let wrong = settled(&flows, |flow| {
            let lost = |right: &Right| {
                (flow.of == *right || !right.is_own()) && right.holds(flow.dials, flow.hosts)
            };
            taken.iter().any(lost)
        });
        let wrong = wrong.await;
        assert!(wrong.is_empty(), "{right:?} was taken away: {wrong:#?}");
        if right == Right::ServiceEdgeRouterPolicy {
            // Routers do not know of such a policy. What hosts serves again when there is one.
            ground.serve(right).await;
            for flow in FLOWS {
                drop(ground.open(right, flow).await);
            }
            ground.take_away(right).await;
        }
    }
}
