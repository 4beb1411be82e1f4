use std::time::Duration;

use super::*;
use crate::entity::{MfaCheck, PostureCheckType};
use crate::{Base, ChangeSet, Roles, Semantic, Timeline};

const NOW: Timestamp = Timestamp(1_000_000);

fn base(id: &str) -> Base {
    Base::new(Id::new(id), Timestamp(0))
}

fn policy(id: &str, policy_type: PolicyType, checks: &[&str]) -> ServicePolicy {
    ServicePolicy {
        base: base(id),
        name: id.into(),
        policy_type,
        semantic: Semantic::AnyOf,
        identity_roles: Roles::parse(&["#staff"]).unwrap(),
        service_roles: Roles::parse(&["@web"]).unwrap(),
        posture_check_roles: Roles::parse(checks).unwrap(),
    }
}

fn mfa_check(id: &str, timeout_seconds: i64) -> PostureCheck {
    PostureCheck {
        base: base(id),
        name: id.into(),
        check_type: PostureCheckType::Mfa,
        role_attributes: vec!["strict".into()],
        mfa: MfaCheck { timeout_seconds, ..MfaCheck::default() },
        ..PostureCheck::default()
    }
}

fn network(policies: Vec<ServicePolicy>) -> Snapshot {
    let mut set = ChangeSet::default();
    for (id, attributes) in [("ann", vec!["staff".into()]), ("bob", vec![])] {
        let role_attributes = attributes;
        set.put(Identity {
            base: base(id),
            name: id.into(),
            role_attributes,
            disabled_at: (id == "bob").then_some(Timestamp(1)),
            ..Identity::default()
        });
    }
    set.put(Service { base: base("web"), name: "web".into(), ..Service::default() });
    let hidden = Service { base: base("hidden"), name: "hidden".into(), ..Service::default() };
    set.put(Service { is_fabric_only: true, ..hidden });
    set.put(mfa_check("short", 60)).put(mfa_check("long", 600));
    policies.into_iter().for_each(|policy| {
        set.put(policy);
    });
    Snapshot::empty(Timeline::default()).apply(&set).unwrap()
}

fn dial(network: &Snapshot, identity: &str, service: &str, posture: Posture<'_>) -> AccessDecision {
    decide(network, identity, service, PolicyType::Dial, posture, NOW)
}

#[test]
fn who_and_what_must_exist() {
    let network = network(vec![policy("p", PolicyType::Dial, &[])]);
    let denied = |identity, service| dial(&network, identity, service, Posture::Unknown).granted();
    assert_eq!(denied("eve", "web"), Err(Denial::UnknownIdentity));
    assert_eq!(denied("bob", "web"), Err(Denial::DisabledIdentity));
    assert_eq!(denied("ann", "mail"), Err(Denial::UnknownService));
    assert_eq!(denied("ann", "hidden"), Err(Denial::UnknownService));
    assert!(denied("ann", "web").is_ok());
    let bind = decide(&network, "ann", "web", PolicyType::Bind, Posture::Unknown, NOW);
    assert_eq!(bind, AccessDecision::Denied(Denial::NoPolicy(PolicyType::Bind)));
}

#[test]
fn one_policy_without_failed_checks_grants() {
    let network = network(vec![
        policy("both", PolicyType::Dial, &["#strict"]),
        policy("open", PolicyType::Dial, &[]),
        policy("host", PolicyType::Bind, &[]),
    ]);
    let AccessDecision::Granted { policies, until } =
        dial(&network, "ann", "web", Posture::Unknown)
    else {
        panic!("the open policy grants");
    };
    assert_eq!(policies, [GrantingPolicy { id: Id::new("open"), name: "open".into() }]);
    assert_eq!(until, None);
}

#[test]
fn failed_checks_are_explained() {
    let network = network(vec![
        policy("both", PolicyType::Dial, &["#strict"]),
        policy("short only", PolicyType::Dial, &["@short"]),
    ]);
    let mut data = PostureData::default();
    data.mfa_passed(Timestamp(NOW.0 - 100_000));
    let AccessDecision::Denied(denial) = dial(&network, "ann", "web", Posture::Known(&data)) else {
        panic!("the short check fails");
    };
    assert_eq!(denial.failed_checks(), [&Id::new("short")]);
    assert!(denial.to_string().contains("check short: the second factor has timed out"));
    let AccessDecision::Denied(denial) = dial(&network, "ann", "web", Posture::Unknown) else {
        panic!("there is no data");
    };
    assert_eq!(denial.failed_checks(), [&Id::new("long"), &Id::new("short")]);
    assert!(dial(&network, "ann", "web", Posture::Ignored).is_granted());
}

#[test]
fn a_grant_lasts_as_long_as_its_longest_policy() {
    let network = network(vec![
        policy("short", PolicyType::Dial, &["@short"]),
        policy("both", PolicyType::Dial, &["#strict"]),
        policy("long", PolicyType::Dial, &["@long"]),
    ]);
    let mut data = PostureData::default();
    data.mfa_passed(NOW);
    let AccessDecision::Granted { policies, until } =
        dial(&network, "ann", "web", Posture::Known(&data))
    else {
        panic!("all checks pass");
    };
    assert_eq!(policies.len(), 3);
    assert_eq!(until, Some(NOW.plus(Duration::from_secs(600))));
}
