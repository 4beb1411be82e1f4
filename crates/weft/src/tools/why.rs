//! `weft why IDENTITY SERVICE`: the reasons why an identity cannot use a service, and remedies.

use serde_json::Value;
use weft_client::ManagementClient;
use weft_contract::entity::DialBind;
use weft_contract::resource::identity::{IdentityDetail, PolicyAdvice};
use weft_contract::resource::posture_data::{PolicyJudgement, PostureJudgement};
use weft_contract::resource::service::ServiceDetail;
use weft_contract::resource::service_policy::ServicePolicyDetail;
use weft_contract::resource::session::ApiSessionDetail;
use weft_contract::{Api, Word as _};

use super::{kind, row};
use crate::cli::WhyArgs;
use crate::entity::{name, posture};
use crate::failure::Result;
use crate::output::{self, Format, counted, quoted};

/// Facts about the identity and the service.
struct Facts {
    advice: PolicyAdvice,
    identity: IdentityDetail,
    /// Policies that select the identity, and policies that select the service.
    of_identity: Vec<ServicePolicyDetail>,
    of_service: Vec<ServicePolicyDetail>,
    /// Number of terminators of the service.
    hosts: usize,
    /// The sessions of the identity, if the service demands proofs of its ends; `None` if they may not be read.
    proving: Option<Option<Vec<ApiSessionDetail>>>,
}

/// A condition, and whether it holds.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    holds: bool,
    /// Whether it could not be found out; `holds` is true then.
    is_unknown: bool,
    says: String,
    /// Advice, if it does not hold.
    help: Vec<String>,
}

impl Finding {
    fn new(holds: bool, says: impl Into<String>) -> Self {
        Self { holds, is_unknown: false, says: says.into(), help: Vec::new() }
    }

    fn unknown(says: impl Into<String>) -> Self {
        Self { is_unknown: true, ..Self::new(true, says) }
    }

    fn or(mut self, help: impl Into<String>) -> Self {
        if !self.holds {
            self.help.push(help.into());
        }
        self
    }
}

/// Asks, and prints the answer.
pub(crate) async fn why(args: WhyArgs) -> Result<()> {
    let client = args.session.client().await?;
    let identity = name::resolve(&client, kind("identity")?, &args.identity).await?;
    let service = name::resolve(&client, kind("service")?, &args.service).await?;
    let format = args.output.format();
    let advised = row(Api::Management, "getIdentityPolicyAdvice")?;
    if format != Format::Table {
        let advice: Value = client.call(advised, &[&identity, &service], &[], None).await?;
        output::value(format, &advice, String::new);
        return Ok(());
    }
    let facts = Facts {
        advice: client.call(advised, &[&identity, &service], &[], None).await?,
        identity: client.get(kind("identity")?, &identity).await?,
        of_identity: policies(&client, "listIdentityServicePolicies", &identity).await?,
        of_service: policies(&client, "listServiceServicePolicies", &service).await?,
        hosts: terminators(&client, &service).await?,
        proving: proving(&client, &identity, &service).await?,
    };
    print(&facts);
    Ok(())
}

async fn policies(
    client: &ManagementClient,
    operation: &'static str,
    id: &str,
) -> Result<Vec<ServicePolicyDetail>> {
    Ok(client.list_all(row(Api::Management, operation)?, &[id], None).await?)
}

async fn terminators(client: &ManagementClient, service: &str) -> Result<usize> {
    let list = row(Api::Management, "listServiceTerminators")?;
    let found: Vec<Value> = client.list_all(list, &[service], None).await?;
    Ok(found.len())
}

/// The sessions of the identity, if the service demands that both ends prove who they are.
async fn proving(
    client: &ManagementClient,
    identity: &str,
    service: &str,
) -> Result<Option<Option<Vec<ApiSessionDetail>>>> {
    let service: ServiceDetail = client.get(kind("service")?, service).await?;
    if !service.authenticated_ends {
        return Ok(None);
    }
    let list = row(Api::Management, "listAPISessions")?;
    let filter = format!("identity=\"{identity}\"");
    Ok(Some(client.list_all(list, &[], Some(&filter)).await.ok()))
}

fn print(facts: &Facts) {
    let (identity, service) = (&facts.advice.identity.name, &facts.advice.service.name);
    for (type_word, verb) in [(DialBind::Dial, "dial"), (DialBind::Bind, "host")] {
        let findings = findings(facts, type_word);
        let can = findings.iter().all(|finding| finding.holds);
        let answer = match can {
            true if findings.iter().any(|finding| finding.is_unknown) => "perhaps",
            true => "yes",
            false => "no",
        };
        output::line(format!("Can {identity} {verb} {service}? {answer}"));
        for finding in &findings {
            let mark = match finding.holds {
                _ if finding.is_unknown => "?",
                true => "✓",
                false => "✗",
            };
            output::line(format!("  {mark} {}", finding.says));
            for help in &finding.help {
                output::line(format!("      {help}"));
            }
        }
    }
}

/// The conditions for dialing or for hosting.
fn findings(facts: &Facts, wanted: DialBind) -> Vec<Finding> {
    let mut findings = vec![standing(facts), policy(facts, wanted)];
    findings.extend(device(facts, wanted));
    findings.extend(routers(facts));
    findings.extend(proofs(facts));
    if wanted == DialBind::Dial {
        let service = &facts.advice.service.name;
        findings.push(
            Finding::new(
                facts.hosts > 0,
                match facts.hosts {
                    0 => "the service has no host now: it has no terminator".to_owned(),
                    count => {
                        let terminators = counted(count, "terminator", "terminators");
                        format!("the service is hosted: it has {terminators}")
                    }
                },
            )
            .or(format!(
                "who may host it: weft list identities --of service {} --policy-type bind",
                quoted(service)
            )),
        );
    }
    findings
}

fn standing(facts: &Facts) -> Finding {
    let name = &facts.identity.name;
    if facts.identity.disabled {
        return Finding::new(false, "the identity is disabled")
            .or(format!("weft enable identity {}", quoted(name)));
    }
    if let Some(lock) = lock(&facts.identity) {
        let ways = match &facts.identity {
            it if it.authenticators.cert.is_some() => "; its certificate lets the identity log in",
            it if it.external_id.is_some() => "; an external signer lets the identity log in",
            it if it.type_id == "Router" => "; its router lets the identity log in",
            it if it.has_api_session => "; the session of the identity goes on",
            _ => "",
        };
        return Finding::new(!ways.is_empty(), format!("{lock}{ways}"))
            .or(format!("weft enable identity {}", quoted(name)));
    }
    let enrolled = facts.identity.authenticators.cert.is_some()
        || facts.identity.authenticators.updb.is_some()
        || facts.identity.external_id.is_some()
        || facts.identity.type_id == "Router";
    Finding::new(
        enrolled,
        if enrolled {
            "the identity can log in"
        } else {
            "the identity has nothing to log in with yet"
        },
    )
    .or(format!(
        "its enrollment token: weft jwt identity {} -o {}",
        quoted(name),
        quoted(&format!("{name}.jwt"))
    ))
}

/// The lock of the identity's password, in words.
fn lock(identity: &IdentityDetail) -> Option<String> {
    let until = match identity.locked_until {
        Some(until) => format!("until {until}"),
        None => "until the identity is enabled".to_owned(),
    };
    let by = match identity.locked_by.as_slice() {
        [] => String::new(),
        by => format!(" from {}", by.join(", ")),
    };
    let says = format!("the password is locked {until}, after too many wrong ones{by}");
    identity.is_locked.then_some(says)
}

fn policy(facts: &Facts, wanted: DialBind) -> Finding {
    let word = wanted.as_str();
    let of_type = |policies: &[ServicePolicyDetail]| -> Vec<(String, String)> {
        let found = policies.iter().filter(|policy| policy.r#type == wanted);
        found.map(|policy| (policy.base.id.clone(), policy.name.clone())).collect()
    };
    let (of_identity, of_service) = (of_type(&facts.of_identity), of_type(&facts.of_service));
    let both: Vec<&str> = of_identity
        .iter()
        .filter(|(id, _)| of_service.iter().any(|(other, _)| other == id))
        .map(|(_, name)| name.as_str())
        .collect();
    if !both.is_empty() {
        return Finding::new(true, format!("{word} policies that allow it: {}", both.join(", ")));
    }
    let names = |found: &[(String, String)]| match found {
        [] => "none".to_owned(),
        found => found.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", "),
    };
    let (identity, service) = (&facts.advice.identity.name, &facts.advice.service.name);
    Finding::new(false, format!("no {word} policy holds both"))
        .or(format!("{word} policies with the identity: {}", names(&of_identity)))
        .or(format!("{word} policies with the service: {}", names(&of_service)))
        .or(format!(
            "weft create service-policy {} --type {word} --identity-roles {} --service-roles {}",
            quoted(&format!("{service}-{identity}-{}", word.to_lowercase())),
            quoted(&format!("@{identity}")),
            quoted(&format!("@{service}"))
        ))
}

fn routers(facts: &Facts) -> Vec<Finding> {
    let advice = &facts.advice;
    let (identity, service) = (&advice.identity.name, &advice.service.name);
    let online = advice.common_routers.iter().filter(|router| router.is_online).count();
    let mut findings = Vec::new();
    if advice.identity_router_count == 0 {
        findings.push(Finding::new(false, "no edge router policy gives the identity a router").or(
            format!(
                "weft create edge-router-policy {} --identity-roles {} --edge-router-roles '#all'",
                quoted(&format!("{identity}-routers")),
                quoted(&format!("@{identity}"))
            ),
        ));
    }
    if advice.service_router_count == 0 {
        let says = "no service edge router policy gives the service a router";
        findings.push(Finding::new(false, says).or(format!(
            "weft create service-edge-router-policy {} --service-roles {} \
             --edge-router-roles '#all'",
            quoted(&format!("{service}-routers")),
            quoted(&format!("@{service}"))
        )));
    }
    if !findings.is_empty() {
        return findings;
    }
    let names: Vec<&str> =
        advice.common_routers.iter().map(|router| router.entity.name.as_str()).collect();
    vec![match (names.len(), online) {
        (0, _) => Finding::new(false, "there is no edge router that both may use")
            .or(format!(
                "the identity's: weft list edge-routers --of identity {}",
                quoted(identity)
            ))
            .or(format!("the service's: weft list edge-routers --of service {}", quoted(service))),
        (_, 0) => Finding::new(
            false,
            format!("none of their common edge routers is online: {}", names.join(", ")),
        ),
        (count, online) => {
            Finding::new(true, format!("common edge routers: {count}, {online} of them online"))
        }
    }]
}

/// Whether the programs of the identity can prove who they are, if the service demands it.
fn proofs(facts: &Facts) -> Option<Finding> {
    let demands = "the service demands that both ends prove who they are, and";
    let name = quoted(&facts.advice.service.name);
    let finding = match facts.proving.as_ref()? {
        None => Finding::unknown(format!("{demands} the sessions of the identity may not be read")),
        Some(sessions) => {
            let has_key =
                |it: &&ApiSessionDetail| it.login.as_ref().is_some_and(|it| it.has_end_key);
            let able = sessions.iter().filter(has_key).count();
            let says = match (able, sessions.len()) {
                (_, 0) => "the identity has no session, by which one could tell".to_owned(),
                (0, _) => "no session of the identity has a key for that".to_owned(),
                (able, all) => {
                    format!("{able} of {all} sessions of the identity have a key for that")
                }
            };
            let finding = Finding::new(able > 0, format!("{demands} {says}"));
            Finding {
                is_unknown: sessions.is_empty(),
                holds: able > 0 || sessions.is_empty(),
                ..finding
            }
        }
    };
    Some(
        finding
            .or(format!("use an SDK or tunneler of weft; who else is cut: weft unproven {name}")),
    )
}

/// Whether the device passes the posture checks of a policy that allows it, with all checks as they were judged. A
/// device passes in one session and may fail in another, which has its own second factor.
fn device(facts: &Facts, wanted: DialBind) -> Option<Finding> {
    let allowing = || {
        let of_type = facts.of_identity.iter().filter(|policy| policy.r#type == wanted);
        of_type.filter(|policy| facts.of_service.iter().any(|it| it.base.id == policy.base.id))
    };
    let Some(judgements) = &facts.advice.posture else {
        let guarded = allowing().any(|policy| !policy.posture_check_roles.is_empty());
        let says = "posture checks were not judged: a controller of weft does so for callers with identity.read and \
                    posture-check.read, a controller of OpenZiti does not";
        return guarded.then(|| Finding::unknown(says));
    };
    let judged: Vec<_> = judgements.iter().map(|it| (it, judged_for(it, wanted))).collect();
    let guarded: Vec<&str> =
        judged.iter().flat_map(|(_, policies)| policies).map(|it| it.policy_id.as_str()).collect();
    if guarded.is_empty() {
        return None;
    }
    let is_open = allowing().any(|policy| !guarded.contains(&policy.base.id.as_str()));
    let is_passing = |policies: &[&PolicyJudgement]| policies.iter().any(|it| it.is_passing);
    let passing = judged.iter().filter(|(_, policies)| is_passing(policies)).count();
    let says = match (passing, judged.len()) {
        _ if is_open => "a policy without posture checks allows it".to_owned(),
        (0, _) => "the device passes the posture checks of no policy that allows it".to_owned(),
        (_, 1) => "the device passes the posture checks of a policy that allows it".to_owned(),
        (passing, all) => format!(
            "the device passes the posture checks of a policy that allows it, in {passing} of {all} sessions"
        ),
    };
    let mut finding = Finding::new(is_open || passing > 0, says);
    for (judgement, policies) in &judged {
        finding.help.push(match facts.identity.type_id == "Router" {
            true => "a router reports nothing about its machine".to_owned(),
            false => session(judgement),
        });
        for policy in policies {
            let mark = if policy.is_passing { "✓" } else { "✗" };
            finding.help.push(format!("  {mark} policy {}", policy.policy_name));
            let checks = policy.checks.iter();
            finding.help.extend(checks.map(|check| format!("      {}", posture::judged(check))));
        }
    }
    let name = quoted(&facts.identity.name);
    if !finding.holds {
        finding
            .help
            .push(format!("what was refused: weft failed-service-requests identity {name}"));
        finding
            .help
            .push(format!("what the device has reported: weft posture-data identity {name}"));
    }
    Some(finding)
}

/// The policies of this type that were judged in a session.
fn judged_for(judgement: &PostureJudgement, wanted: DialBind) -> Vec<&PolicyJudgement> {
    judgement.policies.iter().filter(|policy| policy.policy_type == wanted).collect()
}

/// A session in words.
fn session(judgement: &PostureJudgement) -> String {
    if judgement.api_session_id.is_empty() {
        return "the identity has no session, and without one nothing is known of its device"
            .to_owned();
    }
    let mut text = format!("session {}", judgement.api_session_id);
    if let Some(sdk) = &judgement.sdk_info {
        let program = if sdk.app_id.is_empty() { &sdk.r#type } else { &sdk.app_id };
        text.push_str(&format!(" of {program}"));
    }
    if let Some(at) = judgement.last_activity_at {
        text.push_str(&format!(", last used at {at}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(advice: Value, of_identity: Value, of_service: Value, hosts: usize) -> Facts {
        let advice: PolicyAdvice = serde_json::from_value(advice).unwrap();
        let identity = json!({"name": "laptop", "authenticators": {"cert": {"id": "a"}}});
        Facts {
            advice,
            identity: serde_json::from_value(identity).unwrap(),
            of_identity: serde_json::from_value(of_identity).unwrap(),
            of_service: serde_json::from_value(of_service).unwrap(),
            hosts,
            proving: None,
        }
    }

    fn advice(routers: i64, common: Value) -> Value {
        json!({"identity": {"name": "laptop"}, "service": {"name": "web"},
            "identityRouterCount": routers, "serviceRouterCount": routers, "commonRouters": common})
    }

    #[test]
    fn what_is_missing_is_named_with_what_helps() {
        let nothing = facts(advice(0, json!([])), json!([]), json!([]), 0);
        let findings = findings(&nothing, DialBind::Dial);
        let missing: Vec<&str> = findings
            .iter()
            .filter(|finding| !finding.holds)
            .map(|finding| finding.says.as_str())
            .collect();
        assert_eq!(
            missing,
            [
                "no Dial policy holds both",
                "no edge router policy gives the identity a router",
                "no service edge router policy gives the service a router",
                "the service has no host now: it has no terminator",
            ]
        );
        assert!(findings[1].help.iter().any(|help| help.contains("--type Dial")));
    }

    #[test]
    fn a_locked_password_is_named_with_its_end_and_what_helps() {
        let facts = |identity: Value| Facts {
            identity: serde_json::from_value(identity).unwrap(),
            ..facts(advice(0, json!([])), json!([]), json!([]), 0)
        };
        let locked = facts(json!({"name": "anna", "authenticators": {"updb": {"id": "a"}},
            "isLocked": true, "lockedUntil": "2026-01-02T03:04:05.000Z",
            "lockedBy": ["192.0.2.7", "2001:db8::1"]}));
        let finding = standing(&locked);
        assert!(!finding.holds);
        assert_eq!(
            finding.says,
            "the password is locked until 2026-01-02T03:04:05.000Z, after too many wrong ones from \
             192.0.2.7, 2001:db8::1"
        );
        assert!(finding.help[0].contains("weft enable identity anna"));
        // Other ways to log in are not locked, and existing sessions go on.
        let updb = json!({"updb": {"id": "a"}});
        for (member, value) in [
            ("authenticators", json!({"updb": {"id": "a"}, "cert": {"id": "b"}})),
            ("externalId", json!("anna@example.com")),
            ("typeId", json!("Router")),
            ("hasApiSession", json!(true)),
        ] {
            let mut able = json!({"name": "anna", "isLocked": true, "authenticators": updb});
            able[member] = value;
            let finding = standing(&facts(able));
            assert!(finding.holds && finding.says.contains("locked until the identity is enabled"));
        }
    }

    #[test]
    fn a_demand_for_proofs_is_judged_by_the_sessions_of_the_identity() {
        let mut facts = facts(advice(1, json!([])), json!([]), json!([]), 1);
        assert!(proofs(&facts).is_none(), "the service demands nothing");
        let mut judge = |sessions: Option<Value>| {
            facts.proving = Some(sessions.map(|them| serde_json::from_value(them).unwrap()));
            let found = proofs(&facts).unwrap();
            (found.holds, found.is_unknown, found.help.join(" "))
        };
        assert_eq!(judge(None), (true, true, String::new()));
        assert_eq!(judge(Some(json!([]))), (true, true, String::new()));
        let with = |has_key: bool| json!({"login": {"hasEndKey": has_key}});
        let (holds, _, help) = judge(Some(json!([with(false), {}])));
        assert!(!holds && help.ends_with("weft unproven web"), "{help}");
        assert_eq!(judge(Some(json!([with(false), with(true)]))), (true, false, String::new()));
    }

    #[test]
    fn what_works_is_said_too() {
        let policy = json!([{"id": "p", "name": "staff", "type": "Dial",
            "postureCheckRoles": ["@x"], "postureCheckRolesDisplay": [{"name": "@linux", "role": "@x"}]}]);
        let common = json!([{"name": "paris", "isOnline": true}]);
        let fine = facts(advice(1, common), policy.clone(), policy, 1);
        // Without the permissions to judge posture, it is not known.
        let says = |facts: &Facts| device(facts, DialBind::Dial);
        assert!(says(&fine).is_some_and(|it| it.is_unknown && it.says.contains("were not judged")));
        let mut open = fine;
        open.advice.posture = Some(Vec::new());
        assert_eq!(says(&open), None);
        assert!(findings(&open, DialBind::Dial).iter().all(|finding| finding.holds));
        assert!(!findings(&open, DialBind::Bind).iter().all(|finding| finding.holds));
    }

    #[test]
    fn checks_are_shown_as_they_were_judged() {
        let policies =
            json!([{"id": "p", "name": "staff", "type": "Dial", "postureCheckRoles": ["@x"]}]);
        let mut facts = facts(advice(1, json!([])), policies.clone(), policies, 1);
        let mut judge = |passing: &[bool]| {
            let judged = passing.iter().enumerate().map(|(at, passing)| {
                json!({"apiSessionId": format!("s{at}"), "lastActivityAt": "2026-01-02T03:04:05.000Z",
                    "sdkInfo": {"appId": "tunnel"}, "policies": [{"policyId": "p", "policyName": "staff",
                        "policyType": "Dial", "isPassing": passing, "checks": [{
                            "postureCheckName": "windows", "postureCheckType": "OS", "isPassing": passing,
                            "actualValue": {"type": "linux"}, "expectedValue": [{"type": "Windows"}]}]}]})
            });
            facts.advice.posture =
                Some(serde_json::from_value(Value::Array(judged.collect())).unwrap());
            device(&facts, DialBind::Dial).unwrap()
        };
        let failed = judge(&[false]);
        assert!(!failed.holds);
        assert_eq!(
            failed.help[..3],
            [
                "session s0 of tunnel, last used at 2026-01-02T03:04:05.000Z",
                "  ✗ policy staff",
                "      ✗ windows (OS): the device has type=linux; wanted is type=Windows",
            ]
        );
        assert!(failed.help[3].ends_with("weft failed-service-requests identity laptop"));
        let some = judge(&[true, false]);
        assert!(some.holds && some.says.ends_with("in 1 of 2 sessions"), "{}", some.says);
        assert!(judge(&[true]).holds);
        facts.advice.posture = Some(vec![PostureJudgement {
            policies: vec![PolicyJudgement { policy_id: "p".into(), ..PolicyJudgement::default() }],
            ..PostureJudgement::default()
        }]);
        assert!(device(&facts, DialBind::Dial).unwrap().help[0].contains("no session"));
        // Another policy that allows it, and that has no checks.
        for policies in [&mut facts.of_identity, &mut facts.of_service] {
            let open = json!({"id": "o", "name": "open", "type": "Dial"});
            policies.push(serde_json::from_value(open).unwrap());
        }
        assert!(device(&facts, DialBind::Dial).unwrap().holds);
    }
}
