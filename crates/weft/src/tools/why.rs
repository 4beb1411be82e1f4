//! `weft why IDENTITY SERVICE`: the reasons why an identity cannot use a service, and remedies.

use serde_json::Value;
use weft_client::ManagementClient;
use weft_contract::{
    Api, Word as _,
    entity::DialBind,
    resource::{
        identity::{IdentityDetail, PolicyAdvice},
        service_policy::ServicePolicyDetail,
    },
};

use super::{kind, row};
use crate::{
    cli::WhyArgs,
    entity::name,
    failure::Failure,
    output::{self, Format, counted, quoted},
};

/// Facts about the identity and the service.
struct Facts {
    advice: PolicyAdvice,
    identity: IdentityDetail,
    /// Policies that select the identity, and policies that select the service.
    of_identity: Vec<ServicePolicyDetail>,
    of_service: Vec<ServicePolicyDetail>,
    /// Number of terminators of the service.
    hosts: usize,
}

/// A condition, and whether it holds.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    holds: bool,
    says: String,
    /// Advice, if it does not hold.
    help: Vec<String>,
}

impl Finding {
    fn new(holds: bool, says: impl Into<String>) -> Self {
        Self { holds, says: says.into(), help: Vec::new() }
    }

    fn or(mut self, help: impl Into<String>) -> Self {
        if !self.holds {
            self.help.push(help.into());
        }
        self
    }
}

/// Asks, and prints the answer.
pub(crate) async fn why(args: WhyArgs) -> Result<(), Failure> {
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
    };
    print(&facts);
    Ok(())
}

async fn policies(
    client: &ManagementClient,
    operation: &'static str,
    id: &str,
) -> Result<Vec<ServicePolicyDetail>, Failure> {
    Ok(client.list_all(row(Api::Management, operation)?, &[id], None).await?)
}

async fn terminators(client: &ManagementClient, service: &str) -> Result<usize, Failure> {
    let list = row(Api::Management, "listServiceTerminators")?;
    let found: Vec<Value> = client.list_all(list, &[service], None).await?;
    Ok(found.len())
}

fn print(facts: &Facts) {
    let (identity, service) = (&facts.advice.identity.name, &facts.advice.service.name);
    for (type_word, verb) in [(DialBind::Dial, "dial"), (DialBind::Bind, "host")] {
        let findings = findings(facts, type_word);
        let can = findings.iter().all(|finding| finding.holds);
        let answer = if can { "yes" } else { "no" };
        output::line(format!("Can {identity} {verb} {service}? {answer}"));
        for finding in &findings {
            output::line(format!("  {} {}", if finding.holds { "✓" } else { "✗" }, finding.says));
            for help in &finding.help {
                output::line(format!("      {help}"));
            }
        }
    }
    for condition in conditions(facts) {
        output::line(condition);
    }
}

/// The conditions for dialing or for hosting.
fn findings(facts: &Facts, wanted: DialBind) -> Vec<Finding> {
    let mut findings = vec![standing(facts), policy(facts, wanted)];
    findings.extend(routers(facts));
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

/// Posture checks of the policies; the command cannot tell whether they pass.
fn conditions(facts: &Facts) -> Vec<String> {
    let shared = facts.of_identity.iter().filter(|policy| {
        facts.of_service.iter().any(|other| other.base.id == policy.base.id)
            && !policy.posture_check_roles.is_empty()
    });
    shared
        .map(|policy| {
            let checks: Vec<&str> =
                policy.posture_check_roles_display.iter().map(|role| role.name.as_str()).collect();
            format!(
                "  Policy {} counts only while the device passes the posture checks {}.",
                policy.name,
                checks.join(", ")
            )
        })
        .collect()
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
    fn what_works_is_said_too() {
        let policy = json!([{"id": "p", "name": "staff", "type": "Dial",
            "postureCheckRoles": ["@x"], "postureCheckRolesDisplay": [{"name": "@linux", "role": "@x"}]}]);
        let common = json!([{"name": "paris", "isOnline": true}]);
        let fine = facts(advice(1, common), policy.clone(), policy, 1);
        assert!(findings(&fine, DialBind::Dial).iter().all(|finding| finding.holds));
        assert!(!findings(&fine, DialBind::Bind).iter().all(|finding| finding.holds));
        assert!(conditions(&fine)[0].contains("@linux"));
    }
}
