//! Identities, and their clients' reports of SDK and machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::{Base, Link, OnDelete, Record};
use crate::choice::Choice;
use crate::row::row;
use crate::{Id, JsonMap, Kind, Sparse, Timestamp};

/// Type of an identity. `Router` identities are created with edge routers only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[repr(i32)]
pub enum IdentityType {
    /// No particular type.
    Default = 0,
    /// A person.
    User = 1,
    /// A device.
    Device = 2,
    /// A service.
    Service = 3,
    /// An edge router with a tunneler.
    Router = 4,
}

impl Choice for IdentityType {}

/// Order in which terminators are chosen: required, then default, then failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(i32)]
pub enum Precedence {
    /// Chosen when no required terminator can be dialed.
    Default = 0,
    /// Chosen first.
    Required = 1,
    /// Chosen when no other terminator can be dialed.
    Failed = 2,
}

impl Choice for Precedence {}

row! {
    /// The configs that replace a service's own for one identity: config type id to config id.
    pub struct ServiceConfigs {
        /// Config type id to config id.
        1 => pub configs: BTreeMap<Id, Id>,
    }
}

row! {
    /// A client's report of its SDK.
    pub struct SdkInfo {
        /// Id of the application.
        1 => pub app_id: String,
        /// Version of the application.
        2 => pub app_version: String,
        /// Branch of the SDK's source.
        3 => pub branch: String,
        /// Revision of the SDK's source.
        4 => pub revision: String,
        /// Name of the SDK.
        5 => pub kind: String,
        /// Version of the SDK.
        6 => pub version: String,
    }
}

impl SdkInfo {
    /// The application and the SDK, each with its version.
    pub fn described(&self) -> [String; 2] {
        [(&self.app_id, &self.app_version), (&self.kind, &self.version)]
            .map(|(name, version)| format!("{name} {version}").trim().to_owned())
    }
}

row! {
    /// A client's report of its machine.
    pub struct EnvInfo {
        /// Processor architecture.
        1 => pub arch: String,
        /// Windows domain.
        2 => pub domain: String,
        /// Host name.
        3 => pub hostname: String,
        /// Operating system.
        4 => pub os: String,
        /// Release of the operating system.
        5 => pub os_release: String,
        /// Version of the operating system.
        6 => pub os_version: String,
    }
}

row! {
    /// An identity (docs/protocol/management-api.md 7.1).
    pub struct Identity {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Type of the identity.
        3 => pub identity_type: IdentityType,
        /// Unique name in another system.
        4 => pub external_id: Option<Arc<str>>,
        /// Auth policy of the identity.
        5 => pub auth_policy_id: Id,
        /// True for an administrator, who may do everything.
        6 => pub is_admin: bool,
        /// True for the administrator created at initialisation, who cannot be deleted.
        7 => pub is_default_admin: bool,
        /// Role attributes, sorted, without repetitions; see [`crate::role::attributes`].
        8 => pub role_attributes: Vec<Arc<str>>,
        /// Precedence of the terminators that the identity hosts.
        9 => pub default_hosting_precedence: Precedence,
        /// Cost of the terminators that the identity hosts.
        10 => pub default_hosting_cost: u16,
        /// Precedence of terminators by service id; other services have the default.
        11 => pub service_hosting_precedences: Sparse<BTreeMap<Id, Precedence>>,
        /// Cost of terminators by service id; other services have the default.
        12 => pub service_hosting_costs: Sparse<BTreeMap<Id, u16>>,
        /// Data for applications.
        13 => pub app_data: JsonMap,
        /// Time since which the identity is disabled.
        14 => pub disabled_at: Option<Timestamp>,
        /// End of the time for which the identity is disabled; `None` if somebody has to enable it.
        15 => pub disabled_until: Option<Timestamp>,
        /// Configs in place of the service's own, by service id.
        16 => pub service_configs: Sparse<BTreeMap<Id, ServiceConfigs>>,
        /// Names of permissions, for an identity that is no administrator
        /// (docs/protocol/management-api.md 4).
        17 => pub permissions: Sparse<Vec<Arc<str>>>,
        /// The external signer or third-party CA by which the identity enrolled itself: only that one
        /// logs it in by its external id, unless its policy names others.
        18 => pub enrolled_by: Option<Id>,
    }
}

impl Identity {
    /// Index of the external id in [`Record::UNIQUE`].
    pub const EXTERNAL_ID: usize = 0;
    /// The tag with the most terminators of the identity, in place of the network's figure for all.
    pub const MAX_TERMINATORS_TAG: &'static str = "weftMaxTerminators";
    /// The tag with the most circuits that the identity dials, in place of the network's figure for all.
    pub const MAX_CIRCUITS_TAG: &'static str = "weftMaxCircuits";
    /// The tags that say how much the identity may have. Administrators alone set and change them.
    pub const LIMIT_TAGS: [&'static str; 2] = [Self::MAX_TERMINATORS_TAG, Self::MAX_CIRCUITS_TAG];
    /// The greatest value of such a tag, as in the controller's file.
    pub const MAX_OF_LIMIT_TAG: u64 = 1_000_000;

    /// How much the identity may have by one of the [`LIMIT_TAGS`](Self::LIMIT_TAGS). None without a whole number; a
    /// greater one than [`MAX_OF_LIMIT_TAG`](Self::MAX_OF_LIMIT_TAG), stored before there was a bound, counts as that.
    pub fn limit_by_tag(&self, tag: &str) -> Option<u64> {
        let value = self.base.tags.get(tag)?;
        let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
        Some(number.min(Self::MAX_OF_LIMIT_TAG))
    }

    /// True if the identity is disabled at `now`.
    pub fn is_disabled(&self, now: Timestamp) -> bool {
        self.disabled_at.is_some() && self.disabled_until.is_none_or(|until| until > now)
    }
}

const AUTH_POLICY: usize = 0;
const HOSTING: usize = 1;
const CONFIG_SERVICE: usize = 2;
const CONFIG: usize = 3;

impl Record for Identity {
    const UNIQUE: &'static [&'static str] = &["externalId"];
    const LINKS: &'static [Link] = &[
        Link::new("authPolicyId", Kind::AuthPolicy, OnDelete::Refuse),
        Link::new("serviceHostingCosts", Kind::Service, OnDelete::Unlink),
        Link::new("serviceConfigs", Kind::Service, OnDelete::Unlink),
        Link::new("serviceConfigs", Kind::Config, OnDelete::Refuse),
    ];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
        if let Some(id) = &self.external_id {
            each(0, id);
        }
    }

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        each(AUTH_POLICY, &self.auth_policy_id);
        self.service_hosting_costs.keys().for_each(|id| each(HOSTING, id));
        self.service_hosting_precedences.keys().for_each(|id| each(HOSTING, id));
        for (service, overrides) in &self.service_configs {
            each(CONFIG_SERVICE, service);
            overrides.configs.values().for_each(|config| each(CONFIG, config));
        }
    }

    fn unlink(&mut self, link: usize, id: &Id) {
        match link {
            HOSTING => {
                self.service_hosting_costs.remove(id);
                self.service_hosting_precedences.remove(id);
            }
            CONFIG_SERVICE => {
                self.service_configs.remove(id);
            }
            _ => {}
        }
    }

    fn attributes(&self) -> Option<&[Arc<str>]> {
        Some(&self.role_attributes)
    }

    fn attributes_mut(&mut self) -> Option<&mut Vec<Arc<str>>> {
        Some(&mut self.role_attributes)
    }
}
