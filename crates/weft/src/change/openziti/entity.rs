//! One entity of an export on its way in.

use serde_json::Value as Json;

use super::enter::{Entered, EntryRemark, make_whole};
use super::form::{BUILT_IN, DEFAULT_POLICY};
use crate::output::quoted;
use crate::yaml::{DocumentMember, Node, Value};

/// An entity that is converted.
struct EnteringEntity<'e> {
    section: &'static str,
    name: String,
    line: usize,
    members: Vec<DocumentMember>,
    entered: &'e mut Entered,
}

/// The members of each section: those that are kept, and those that say how things are there and are
/// no rule. Of any other member a remark is made.
fn members_of(section: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match section {
        "auth-policies" => (&["primary", "secondary"], &[]),
        "cas" => (
            &[
                "certPem",
                "externalIdClaim",
                "identityNameFormat",
                "identityRoles",
                "isAuthEnabled",
                "isAutoCaEnrollmentEnabled",
                "isOttCaEnrollmentEnabled",
            ],
            &["fingerprint", "isVerified", "verificationToken"],
        ),
        "config-types" => (&["schema", "target"], &[]),
        "configs" => (&["configType", "data"], &[]),
        "edge-router-policies" => (&["edgeRouterRoles", "identityRoles", "semantic"], &[]),
        "edge-routers" => (
            &["appData", "cost", "disabled", "isTunnelerEnabled", "noTraversal", "roleAttributes"],
            &[
                "capabilities",
                "enrollmentToken",
                "hostname",
                "interfaces",
                "unverifiedCertPem",
                "unverifiedFingerprint",
            ],
        ),
        "external-jwt-signers" => (
            &[
                "audience",
                "certPem",
                "claimsProperty",
                "clientId",
                "enabled",
                "enrollAttributeClaimsSelector",
                "enrollAuthPolicy",
                "enrollNameClaimsSelector",
                "enrollToCertEnabled",
                "enrollToTokenEnabled",
                "externalAuthUrl",
                "issuer",
                "jwksEndpoint",
                "kid",
                "scopes",
                "targetToken",
                "useExternalId",
            ],
            &["fingerprint"],
        ),
        "identities" => (
            &[
                "appData",
                "authPolicy",
                "defaultHostingCost",
                "defaultHostingPrecedence",
                "enrollment",
                "externalId",
                "isAdmin",
                "permissions",
                "roleAttributes",
                "type",
            ],
            &[
                "edgeRouterConnectionStatus",
                "interfaces",
                "isDefaultAdmin",
                "isLocked",
                "lockedAt",
                "lockedBy",
                "lockedUntil",
            ],
        ),
        "posture-checks" => (
            &[
                "domains",
                "ignoreLegacyEndpoints",
                "macAddresses",
                "operatingSystems",
                "process",
                "processes",
                "promptOnUnlock",
                "promptOnWake",
                "roleAttributes",
                "semantic",
                "timeoutSeconds",
                "typeId",
            ],
            &["version"],
        ),
        "service-edge-router-policies" => (&["edgeRouterRoles", "semantic", "serviceRoles"], &[]),
        "service-policies" => {
            (&["identityRoles", "postureCheckRoles", "semantic", "serviceRoles", "type"], &[])
        }
        "services" => (
            &[
                "configs",
                "encryptionRequired",
                "maxIdleTimeMillis",
                "roleAttributes",
                "terminatorStrategy",
            ],
            &["config", "data", "permissions", "postureQueries"],
        ),
        _ => (&[], &[]),
    }
}

/// Members that every section has.
const EVERYWHERE: [&str; 2] = ["name", "tags"];

/// An entry as weft's document has it; none if it is left out. What is no map, or has no name, stays as
/// it is: the controller says so, and where.
pub(super) fn convert(section: &'static str, entry: Node, entered: &mut Entered) -> Option<Node> {
    let name = entry.member("name").and_then(Node::text).unwrap_or_default().to_owned();
    let Node { line, value } = entry;
    let members = match value {
        Value::Map(members) if !name.is_empty() => members,
        value => return Some(Node { line, value }),
    };
    let mut entity = EnteringEntity { section, name, line, members, entered };
    entity.convert().then(|| Node { line, value: Value::Map(entity.members) })
}

impl EnteringEntity<'_> {
    /// Converts the members; false if the entity is left out.
    fn convert(&mut self) -> bool {
        self.members.retain(|member| !member.node.is_null());
        for member in &mut self.members {
            make_whole(&mut member.node);
        }
        match self.section {
            "auth-policies" => self.auth_policy(),
            "cas" => self.authority(),
            "config-types" if BUILT_IN.contains(&self.name.as_str()) => return false,
            "configs" => self.refer("configType"),
            "edge-router-policies" if self.is_of_router() => return false,
            "external-jwt-signers" => self.signer(),
            "identities" => return self.identity() && self.keep_known(),
            "posture-checks" => self.posture_check(),
            "services" => self.refer("configs"),
            _ => {}
        }
        self.keep_known()
    }

    fn remark(&mut self, line: usize, member: &str, reason: &str, is_of_new: bool) {
        self.entered.remarks.push(EntryRemark {
            line,
            section: self.section,
            names: vec![self.name.clone()],
            member: member.to_owned(),
            reason: reason.to_owned(),
            is_of_new,
        });
    }

    fn get(&self, key: &str) -> Option<&DocumentMember> {
        self.members.iter().find(|member| member.key == key)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.members.iter_mut().find(|member| member.key == key).map(|member| &mut member.node)
    }

    fn take(&mut self, key: &str) -> Option<DocumentMember> {
        let at = self.members.iter().position(|member| member.key == key)?;
        Some(self.members.remove(at))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.node.text()
    }

    /// The line of a member that is `true`.
    fn line_if(&self, key: &str) -> Option<usize> {
        let member = self.get(key)?;
        (member.node.value == Value::Scalar(Json::Bool(true))).then_some(member.line)
    }

    fn put(&mut self, key: &str, line: usize, value: Value) {
        self.members.push(DocumentMember { key: key.to_owned(), line, node: Node { line, value } });
    }

    /// References to others begin with `@` in exports.
    fn refer(&mut self, key: &str) {
        if let Some(node) = self.get_mut(key) {
            remove_at(node);
        }
    }

    fn auth_policy(&mut self) {
        for (part, path) in [
            ("primary", &["extJwt", "allowedSigners"][..]),
            ("secondary", &["requireExtJwtSigner"]),
        ] {
            let Some(node) = self.get_mut(part) else { continue };
            drop_nulls(node);
            let found = path.iter().try_fold(node, |node, step| node.member_mut(step));
            if let Some(names) = found {
                remove_at(names);
            }
        }
    }

    fn authority(&mut self) {
        if let Some(line) = self.line_if("isVerified") {
            let reason = format!(
                "it is verified anew with its key: `weft verify ca {}`",
                quoted(&self.name)
            );
            self.remark(line, "isVerified", &reason, true);
        }
    }

    /// Whether a policy is the one that a controller makes for the tunneler of a router.
    fn is_of_router(&self) -> bool {
        let only = |key: &str| match self.get(key).map(|member| &member.node.value) {
            Some(Value::List(roles)) => match roles.as_slice() {
                [role] => role.text().filter(|role| role.starts_with('@')),
                _ => None,
            },
            _ => None,
        };
        let router = only("edgeRouterRoles");
        self.name.starts_with("edge-router-")
            && self.name.ends_with("-system")
            && router.is_some()
            && router == only("identityRoles")
    }

    /// The auth policy of those who enroll is an id of the exported network, which says nothing here:
    /// nobody enrolls under another policy than was meant.
    fn signer(&mut self) {
        const FLAGS: [&str; 2] = ["enrollToCertEnabled", "enrollToTokenEnabled"];
        let Some(DocumentMember { line, node, .. }) = self.take("enrollAuthPolicyId") else {
            return;
        };
        if node.text() == Some(DEFAULT_POLICY.0) {
            // An export leaves out flags that are off.
            for flag in FLAGS {
                if self.get(flag).is_none() {
                    self.put(flag, line, Value::Scalar(false.into()));
                }
            }
            return self.put("enrollAuthPolicy", line, node.value);
        }
        for flag in FLAGS {
            self.take(flag);
        }
        let reason = "an id of the exported network, which is no policy here: enrollment at the signer is \
                      off unless it is there and on. Put `enrollAuthPolicy: NAME` in its place";
        self.remark(line, "enrollAuthPolicyId", reason, false);
    }

    /// Converts an identity; false if it is left out.
    fn identity(&mut self) -> bool {
        if self.line_if("isDefaultAdmin").is_some() {
            self.entered.admin = Some(self.name.clone());
            return false;
        }
        self.refer("authPolicy");
        let line = self.get("typeId").map_or(self.line, |member| member.line);
        let kind = self.text("typeId").unwrap_or("Default").to_owned();
        let is_of_router = kind.eq_ignore_ascii_case("router");
        self.take("typeId");
        if is_of_router {
            return self.identity_of_router(line);
        }
        self.put("type", line, Value::Scalar(kind.into()));
        if self.get("enrollment").is_none() {
            let ott = DocumentMember {
                key: "ott".to_owned(),
                line,
                node: Node { line, value: Value::Scalar(true.into()) },
            };
            self.put("enrollment", line, Value::Map(vec![ott]));
        }
        if let Some(line) = self.line_if("disabled") {
            let reason =
                format!("it is enabled here: `weft disable identity {}`", quoted(&self.name));
            self.remark(line, "disabled", &reason, true);
        }
        if let Some(line) = self.line_if("isMfaEnabled") {
            let reason =
                "the second factor is not in exports: it is set up anew, `weft second-factor`";
            self.remark(line, "isMfaEnabled", reason, true);
        }
        for key in ["disabled", "disabledUntil", "isMfaEnabled"] {
            self.take(key);
        }
        true
    }

    /// Most identities of routers are as their routers make them: such a one is left out.
    fn identity_of_router(&mut self, line: usize) -> bool {
        for key in ["disabled", "disabledUntil", "isMfaEnabled", "enrollment"] {
            self.take(key);
        }
        if self.line_if("isAdmin").is_none() {
            self.take("isAdmin");
        }
        let (_, silent) = members_of(self.section);
        let is_usual = |member: &DocumentMember| match (member.key.as_str(), &member.node.value) {
            ("name", _) => true,
            ("authPolicy", _) => member.node.text() == Some(DEFAULT_POLICY.1),
            (key, _) if silent.contains(&key) => true,
            (_, Value::List(items)) => items.is_empty(),
            (_, Value::Map(members)) => members.is_empty(),
            (_, Value::Scalar(_)) => false,
        };
        if self.members.iter().all(is_usual) {
            return false;
        }
        self.put("type", line, Value::Scalar("Router".into()));
        true
    }

    fn posture_check(&mut self) {
        if let Some(kind) = self.get_mut("typeId")
            && let Some(text) = kind.text().map(str::to_uppercase)
        {
            kind.value = Value::Scalar(text.into());
        }
        for key in ["process", "processes", "operatingSystems"] {
            let Some(node) = self.get_mut(key) else { continue };
            drop_nulls(node);
            let Value::List(systems) = &mut node.value else { continue };
            for system in systems.iter_mut().filter(|_| key == "operatingSystems") {
                let line = system.line;
                let has_versions = system.member("versions").is_some();
                if let Value::Map(members) = &mut system.value
                    && !has_versions
                {
                    let node = Node { line, value: Value::List(Vec::new()) };
                    members.push(DocumentMember { key: "versions".to_owned(), line, node });
                }
            }
        }
    }

    /// Removes members that weft's document does not have; of those that nobody knows a remark is made. The
    /// entity stays.
    fn keep_known(&mut self) -> bool {
        let (kept, silent) = members_of(self.section);
        let is_kept = |key: &str| EVERYWHERE.contains(&key) || kept.contains(&key);
        let (known, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.members).into_iter().partition(|it| is_kept(&it.key));
        self.members = known;
        for other in others.iter().filter(|it| !silent.contains(&it.key.as_str())) {
            let is_empty = match &other.node.value {
                Value::List(items) => items.is_empty(),
                Value::Map(members) => members.is_empty(),
                Value::Scalar(value) => *value == Json::Bool(false),
            };
            if is_empty {
                continue;
            }
            let reason = match (self.section, other.key.as_str()) {
                ("edge-routers", "configs")
                | ("identities", "serviceHostingCosts" | "serviceHostingPrecedences") => {
                    "ids of the exported network, which are others here"
                }
                _ => "documents of weft have no such member",
            };
            self.remark(other.line, &other.key, reason, false);
        }
        true
    }
}

/// Removes `@` before a name, or before each of a list.
fn remove_at(node: &mut Node) {
    match &mut node.value {
        Value::Scalar(Json::String(name)) => {
            if let Some(plain) = name.strip_prefix('@') {
                *name = plain.to_owned();
            }
        }
        Value::List(items) => items.iter_mut().for_each(remove_at),
        Value::Map(_) | Value::Scalar(_) => {}
    }
}

/// Removes members that are null, on every level.
fn drop_nulls(node: &mut Node) {
    match &mut node.value {
        Value::Map(members) => {
            members.retain(|member| !member.node.is_null());
            members.iter_mut().for_each(|member| drop_nulls(&mut member.node));
        }
        Value::List(items) => items.iter_mut().for_each(drop_nulls),
        Value::Scalar(_) => {}
    }
}
