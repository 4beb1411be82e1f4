//! weft's document in the form that `ziti ops import` reads.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use weft_contract::{defaults, resource};

use super::form::{BUILT_IN, DEFAULT_POLICY, SECTIONS, roles_of};
use crate::output::quoted;

/// The strategy of services that name none.
const STRATEGY: &str = "smartrouting";

/// A network that leaves.
#[derive(Debug, Default)]
pub(in crate::change) struct LeftNetwork {
    /// The document, its sections and members in the order of OpenZiti's exports.
    pub(in crate::change) document: Map<String, Value>,
    /// What the document has no place for: entity, member and reason, one sentence each.
    pub(in crate::change) losses: Vec<String>,
    /// The number of identities that enroll anew.
    pub(in crate::change) identities: usize,
    /// The number of edge routers that enroll anew.
    pub(in crate::change) routers: usize,
}

/// Writes the sections that `has` picks, by their names in weft's documents.
pub(in crate::change) fn leave(
    mut network: Map<String, Value>,
    has: impl Fn(&str) -> bool,
) -> LeftNetwork {
    let names = Names::of(&network);
    let mut left = LeftNetwork::default();
    for (original, section) in SECTIONS.into_iter().filter(|(_, section)| has(section)) {
        let entities = match network.remove(section) {
            Some(Value::Array(entities)) => entities,
            _ => Vec::new(),
        };
        let mut kept = Vec::new();
        for entity in entities {
            let Value::Object(members) = entity else { continue };
            let mut entry = LeavingEntity::new(section, members, &mut left.losses);
            if let Some(members) = entry.convert(&names) {
                kept.push(Value::Object(members));
            }
        }
        match section {
            "identities" => left.identities = kept.iter().filter(|it| !is_of_router(it)).count(),
            "edge-routers" => left.routers = kept.len(),
            _ => {}
        }
        left.document.insert(original.to_owned(), kept.into());
    }
    left
}

fn is_of_router(identity: &Value) -> bool {
    identity["typeId"] == "Router"
}

/// The names by which entities of a document may be referred to, by section.
struct Names(BTreeMap<&'static str, BTreeSet<String>>);

impl Names {
    fn of(network: &Map<String, Value>) -> Self {
        let mut names = BTreeMap::new();
        for (_, section) in SECTIONS {
            let Some(Value::Array(entities)) = network.get(section) else { continue };
            let called = entities.iter().filter_map(|it| it["name"].as_str().map(str::to_owned));
            names.insert(section, called.collect::<BTreeSet<_>>());
        }
        if let (Some(own), Some(Value::Array(routers))) =
            (names.get_mut("identities"), network.get("edge-routers"))
        {
            let tunnelers = routers.iter().filter(|it| it["isTunnelerEnabled"] == true);
            own.extend(tunnelers.filter_map(|it| it["name"].as_str().map(str::to_owned)));
        }
        Self(names)
    }

    /// True if a document has the section and no entity of this name in it.
    fn is_missing(&self, section: &str, name: &str) -> bool {
        self.0.get(section).is_some_and(|names| !names.contains(name))
    }
}

/// An entity on its way out.
struct LeavingEntity<'l> {
    section: &'static str,
    name: String,
    members: Map<String, Value>,
    losses: &'l mut Vec<String>,
}

impl<'l> LeavingEntity<'l> {
    fn new(
        section: &'static str,
        members: Map<String, Value>,
        losses: &'l mut Vec<String>,
    ) -> Self {
        let name = members.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { section, name, members, losses }
    }

    /// The members as `ziti ops import` wants them; none if the entity stays behind.
    fn convert(&mut self, names: &Names) -> Option<Map<String, Value>> {
        let converted = match self.section {
            "auth-policies" => self.auth_policy(),
            "config-types" => self.config_type(),
            "configs" => self.refer("configType"),
            "cas" => self.authority(),
            "edge-routers" => self.edge_router(),
            "external-jwt-signers" => self.signer(),
            "identities" => self.identity(),
            "posture-checks" => self.posture_check(),
            "services" => self.service(),
            _ => self.policy(names),
        };
        converted?;
        self.default("tags", json!({}));
        let sorted: BTreeMap<String, Value> =
            std::mem::take(&mut self.members).into_iter().collect();
        Some(sorted.into_iter().collect())
    }

    fn lost(&mut self, member: &str, reason: &str) {
        let member = if member.is_empty() { String::new() } else { format!(", {member}") };
        self.losses.push(format!("{} `{}`{member}: {reason}", self.section, self.name));
    }

    /// Removes a member that the form has no place for.
    fn leave_behind(&mut self, member: &str, reason: &str) {
        if self.members.remove(member).is_some() {
            self.lost(member, reason);
        }
    }

    fn default(&mut self, member: &str, value: Value) -> Option<()> {
        self.members.entry(member).or_insert(value);
        Some(())
    }

    /// Names in references begin with `@`.
    fn refer(&mut self, member: &str) -> Option<()> {
        if let Some(value) = self.members.get_mut(member) {
            put_at(value);
        }
        Some(())
    }

    fn is(&self, member: &str) -> bool {
        self.members.get(member) == Some(&Value::Bool(true))
    }

    fn auth_policy(&mut self) -> Option<()> {
        if self.name == DEFAULT_POLICY.1 {
            self.lost("", "every network has one of its own, which an import leaves as it is");
            return None;
        }
        self.fill("auth-policy");
        for place in ["/primary/extJwt/allowedSigners", "/secondary/requireExtJwtSigner"] {
            let (first, rest) = place.trim_start_matches('/').split_once('/').unwrap_or_default();
            let inner = self.members.get_mut(first);
            if let Some(value) = inner.and_then(|it| it.pointer_mut(&format!("/{rest}"))) {
                put_at(value);
            }
        }
        Some(())
    }

    fn config_type(&mut self) -> Option<()> {
        if BUILT_IN.contains(&self.name.as_str()) {
            self.lost("", "every network has this config type, which an import leaves as it is");
            return None;
        }
        Some(())
    }

    fn authority(&mut self) -> Option<()> {
        for flag in ["isAuthEnabled", "isAutoCaEnrollmentEnabled", "isOttCaEnrollmentEnabled"] {
            self.default(flag, json!(false));
        }
        self.default("identityRoles", json!([]));
        self.lost("isVerified", "it is verified anew: `ziti edge verify ca`");
        Some(())
    }

    fn edge_router(&mut self) -> Option<()> {
        self.leave_behind("configs", "an import does not look for configs of routers by name");
        self.leave_behind("ctrlChanListeners", "OpenZiti has no such member");
        for flag in ["disabled", "isTunnelerEnabled", "noTraversal"] {
            self.default(flag, json!(false));
        }
        self.default("cost", json!(0));
        self.default("appData", json!({}));
        self.default("roleAttributes", json!([]))
    }

    fn signer(&mut self) -> Option<()> {
        let policy = self.members.remove("enrollAuthPolicy");
        let policy = policy.as_ref().and_then(Value::as_str).map(str::to_owned);
        match policy.filter(|policy| ![DEFAULT_POLICY.0, DEFAULT_POLICY.1].contains(&&**policy)) {
            None => {
                self.default("enrollAuthPolicyId", json!(DEFAULT_POLICY.0));
            }
            Some(policy) => {
                for flag in ["enrollToCertEnabled", "enrollToTokenEnabled"] {
                    self.members.remove(flag);
                }
                self.lost(
                    "enrollAuthPolicy",
                    &format!(
                        "an import takes an id here, which `{policy}` gets only then: enrollment at the \
                         signer is off in the file"
                    ),
                );
            }
        }
        self.default("enabled", json!(false))
    }

    fn identity(&mut self) -> Option<()> {
        let kind = self.members.remove("type").unwrap_or_else(|| json!("Default"));
        let is_of_router = kind == "Router";
        self.members.insert("typeId".to_owned(), kind);
        self.default("roleAttributes", json!([]));
        self.default("authPolicy", json!(DEFAULT_POLICY.1));
        if is_of_router {
            return self.identity_of_router();
        }
        let reason = "a map by ids of services, which have others after an import";
        self.leave_behind("serviceHostingCosts", reason);
        self.leave_behind("serviceHostingPrecedences", reason);
        self.leave_behind("serviceConfigs", "an import has no place for configs of one identity");
        self.default("appData", json!({}));
        self.default("defaultHostingCost", json!(0));
        self.default("defaultHostingPrecedence", json!("default"));
        self.default("isAdmin", json!(false));
        self.refer("authPolicy")
    }

    /// An import takes the role attributes of a router's identity alone, which the router makes.
    fn identity_of_router(&mut self) -> Option<()> {
        let known = ["name", "typeId", "roleAttributes", "authPolicy"];
        let others = self.members.keys().filter(|name| !known.contains(&name.as_str()));
        let mut others: Vec<String> = others.cloned().collect();
        if self.members.get("authPolicy") != Some(&json!(DEFAULT_POLICY.1)) {
            others.push("authPolicy".to_owned());
        }
        for member in others {
            self.leave_behind(
                &member,
                "an import changes only the role attributes of a router's identity",
            );
        }
        self.default("authPolicy", json!(DEFAULT_POLICY.1));
        self.default("isAdmin", json!(false));
        self.refer("authPolicy")
    }

    /// An import refuses operating systems without a list of versions, and fingerprints without a digit.
    fn posture_check(&mut self) -> Option<()> {
        let systems = self.members.get_mut("operatingSystems").and_then(Value::as_array_mut);
        for system in systems.into_iter().flatten().filter_map(Value::as_object_mut) {
            let versions = system.entry("versions").or_insert(Value::Null);
            if versions.is_null() {
                *versions = json!([]);
            }
        }
        let process = self.members.get_mut("process").and_then(Value::as_object_mut);
        if let Some(process) = process {
            process.retain(|name, value| name != "signerFingerprint" || *value != "");
        }
        self.default("roleAttributes", json!([]))
    }

    fn service(&mut self) -> Option<()> {
        self.fill("service");
        if self.is("authenticatedEnds") {
            self.lost("authenticatedEnds", "OpenZiti has no such demand: both ends stay unproven");
        }
        self.members.remove("authenticatedEnds");
        self.default("configs", json!([]));
        self.refer("configs");
        self.default("maxIdleTimeMillis", json!(0));
        self.default("terminatorStrategy", json!(STRATEGY));
        self.default("roleAttributes", json!([]))
    }

    fn policy(&mut self, names: &Names) -> Option<()> {
        for (member, value) in resource::kind(self.section).into_iter().flat_map(defaults::of) {
            self.default(member, value);
        }
        for (member, _) in roles_of(self.section) {
            self.default(member, json!([]));
        }
        if self.roles("postureCheckRoles").iter().any(|role| role.starts_with('@')) {
            let command = self.command();
            let reason = "`ziti ops import` crashes on posture checks by name: the policy is left out; after \
                          the import:";
            self.lost("postureCheckRoles", &format!("{reason} {command}"));
            return None;
        }
        for (member, section) in roles_of(self.section) {
            for role in self.roles(member) {
                let missing = role.strip_prefix('@').filter(|name| names.is_missing(section, name));
                if missing.is_some() {
                    let reason = format!(
                        "{role} is not in the file: an import ends there if it is not in the \
                                          other network"
                    );
                    self.lost(member, &reason);
                }
            }
        }
        Some(())
    }

    fn roles(&self, member: &str) -> Vec<String> {
        let roles = self.members.get(member).and_then(Value::as_array).into_iter().flatten();
        roles.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The command that makes a service policy in a network of OpenZiti.
    fn command(&self) -> String {
        let word = |member: &str| {
            let value = self.members.get(member).and_then(Value::as_str).unwrap_or_default();
            quoted(value)
        };
        let list = |member: &str| quoted(&self.roles(member).join(","));
        format!(
            "ziti edge create service-policy {} {} --semantic {} --identity-roles {} --service-roles {} \
             --posture-check-roles {}",
            quoted(&self.name),
            word("type"),
            word("semantic"),
            list("identityRoles"),
            list("serviceRoles"),
            list("postureCheckRoles"),
        )
    }

    /// Fills in the members that a new entity of the kind must have.
    fn fill(&mut self, kind: &str) {
        if let Some(kind) = resource::kind(kind) {
            defaults::fill(kind, &mut self.members);
        }
    }
}

/// Puts `@` before a name, or before each of a list.
fn put_at(value: &mut Value) {
    match value {
        Value::String(name) => name.insert(0, '@'),
        Value::Array(names) => names.iter_mut().for_each(put_at),
        _ => {}
    }
}
