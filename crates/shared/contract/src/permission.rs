//! Names of permissions that can be granted to an identity (docs/protocol/management-api.md 4).
//!
//! `<subject>` allows every action on a subject, `<subject>.<action>` one of them;
//! `admin_readonly` allows every read. Being an administrator is a flag of the identity, not a
//! permission.

use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::word::Word;

/// Grants every read.
pub const ADMIN_READ_ONLY: &str = "admin_readonly";

/// The action on a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Action {
    /// To list and to show entities.
    #[default]
    Read,
    /// To create entities.
    Create,
    /// To replace and to change entities, and other actions on them.
    Update,
    /// To delete entities.
    Delete,
}

impl Word for Action {}

/// The subject of a permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Subject {
    /// Auth policies.
    #[default]
    AuthPolicy,
    /// Certificate authorities.
    Ca,
    /// Configs.
    Config,
    /// Config types.
    ConfigType,
    /// Edge router policies.
    EdgeRouterPolicy,
    /// Enrollments.
    Enrollment,
    /// External JWT signers.
    ExternalJwtSigner,
    /// Identities.
    Identity,
    /// Posture checks.
    PostureCheck,
    /// Routers of both kinds.
    Router,
    /// Services.
    Service,
    /// Service edge router policies.
    ServiceEdgeRouterPolicy,
    /// Service policies.
    ServicePolicy,
    /// Terminators.
    Terminator,
    /// Sessions, circuits, links, inspection.
    Ops,
    /// Controllers.
    Controllers,
}

impl Word for Subject {}

impl Subject {
    /// The actions that can be granted one by one on this subject.
    #[must_use]
    pub const fn actions(self) -> &'static [Action] {
        match self {
            Self::Ops => &[Action::Read, Action::Update, Action::Delete],
            Self::Controllers => &[Action::Read],
            _ => &[Action::Read, Action::Create, Action::Update, Action::Delete],
        }
    }
}

/// One permission of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Every read.
    AdminReadOnly,
    /// Every action on the subject.
    All(Subject),
    /// One action on the subject.
    One(Subject, Action),
}

impl Permission {
    /// The permission of a name; none if it cannot be granted.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if name == ADMIN_READ_ONLY {
            return Some(Self::AdminReadOnly);
        }
        let Some((subject, action)) = name.split_once('.') else {
            return Subject::parse(name).map(Self::All);
        };
        let (subject, action) = (Subject::parse(subject)?, Action::parse(action)?);
        subject.actions().contains(&action).then_some(Self::One(subject, action))
    }

    /// The permissions that can be granted, in words, for messages.
    #[must_use]
    pub fn all_in_words() -> String {
        let mut by_actions: Vec<(&[Action], Vec<&str>)> = Vec::new();
        for subject in Subject::WORDS.iter().filter_map(|word| Subject::parse(word)) {
            match by_actions.iter_mut().find(|(actions, _)| *actions == subject.actions()) {
                Some((_, subjects)) => subjects.push(subject.as_str()),
                None => by_actions.push((subject.actions(), vec![subject.as_str()])),
            }
        }
        let groups = by_actions.into_iter().map(|(actions, subjects)| {
            let actions: Vec<&str> = actions.iter().map(|action| action.as_str()).collect();
            format!("{}, alone or with .{}", subjects.join(", "), actions.join(", ."))
        });
        let groups: Vec<String> = groups.collect();
        format!("{ADMIN_READ_ONLY}; {}", groups.join("; "))
    }

    /// Whether the permission allows this action on this subject.
    #[must_use]
    pub fn allows(self, subject: Subject, action: Action) -> bool {
        match self {
            Self::AdminReadOnly => action == Action::Read,
            Self::All(own) => own == subject,
            Self::One(own, one) => own == subject && one == action,
        }
    }
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AdminReadOnly => f.write_str(ADMIN_READ_ONLY),
            Self::All(subject) => write!(f, "{subject}"),
            Self::One(subject, action) => write!(f, "{subject}.{action}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_permissions_are_told_in_words() {
        assert_eq!(
            Permission::all_in_words(),
            "admin_readonly; auth-policy, ca, config, config-type, edge-router-policy, enrollment, \
             external-jwt-signer, identity, posture-check, router, service, service-edge-router-policy, \
             service-policy, terminator, alone or with .read, .create, .update, .delete; \
             ops, alone or with .read, .update, .delete; controllers, alone or with .read"
        );
    }

    #[test]
    fn names_read_back() {
        for name in
            ["admin_readonly", "identity", "router.update", "ops.delete", "controllers.read"]
        {
            assert_eq!(Permission::parse(name).unwrap().to_string(), name);
        }
        for name in ["", "admin", "authenticator", "ops.create", "identity.fly", "identity.read.x"]
        {
            assert_eq!(Permission::parse(name), None, "{name}");
        }
    }

    #[test]
    fn grants_are_additive_and_narrow() {
        let read = Permission::parse("service.read").unwrap();
        assert!(read.allows(Subject::Service, Action::Read));
        assert!(!read.allows(Subject::Service, Action::Delete));
        assert!(!read.allows(Subject::ServicePolicy, Action::Read));
        assert!(Permission::AdminReadOnly.allows(Subject::Ops, Action::Read));
        assert!(!Permission::AdminReadOnly.allows(Subject::Ops, Action::Delete));
    }
}
