//! The network to measure. Every entity follows from the seed and its number, so that requests can name
//! entities without a list of them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::executor::block_on;
use indicatif::ProgressBar;
use tokio::runtime::Handle;
use weft_auth::sessions::ClientDescription;
use weft_contract::resource::client::{EnvInfo, SdkInfo};
use weft_model::entity::{
    AuthPolicy, Authenticator, CertCredential, Config, EdgeRouterPolicy, Identity, PolicyType,
    Router, Service, ServiceEdgeRouterPolicy, ServicePolicy,
};
use weft_model::{
    Base, ChangeSet, Entity, Id, JsonMap, Kind, Revision, Roles, Semantic, Timestamp,
};
use weft_store::{Embedded, Store};

use super::options::Options;

/// Places, teams and applications that attributes name.
const SITES: u32 = 50;
const TEAMS: u32 = 400;
const APPS: u32 = 500;
/// Platforms with their share in percent; the first is that of half the identities.
pub(crate) const PLATFORMS: [(&str, u64); 5] =
    [("windows", 50), ("linux", 20), ("macos", 15), ("ios", 10), ("android", 5)];
/// The policy over half the identities.
pub(crate) const HALF: &str = "half-of-all";
/// Time at which the first entity was made: 2024-01-01.
const BEGINNING: i64 = 1_704_067_200_000;
/// Changes in one change set while filling.
const BATCH: usize = 5_000;
/// Notes that are put before the store is waited for.
const NOTES: u32 = 20_000;

/// The network to measure.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    seed: u64,
    pub(crate) identities: u32,
    pub(crate) services: u32,
    policies: u32,
    routers: u32,
}

/// Pseudo-random values that follow from the seed and the place of their use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, kind: u64, number: u64) -> Self {
        Self(seed ^ kind.rotate_left(48) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (self.word() % u64::from(bound.max(1))) as u32
    }

    /// A number below `bound`; small numbers are more frequent.
    fn skewed(&mut self, bound: u32) -> u32 {
        let (a, b) = (self.below(bound), self.below(bound));
        a.min(b)
    }

    fn hex(&mut self, digits: usize) -> String {
        let mut text = String::new();
        while text.len() < digits {
            text.push_str(&format!("{:016x}", self.word()));
        }
        text.truncate(digits);
        text
    }
}

fn shared(attributes: &[String]) -> Vec<Arc<str>> {
    attributes.iter().map(|it| it.as_str().into()).collect()
}

fn roles(entries: &[&str]) -> Roles {
    Roles::parse(entries).unwrap_or_default()
}

impl Network {
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            seed: options.run.seed,
            identities: options.run.at_most(options.identities, 2_000),
            services: options.run.at_most(options.services, 100),
            policies: options.run.at_most(options.policies, 100),
            routers: options.run.at_most(options.routers, 10),
        }
    }

    fn dice(&self, kind: Kind, number: u32) -> Dice {
        Dice::new(self.seed, u64::from(kind.code()), u64::from(number))
    }

    /// The id of the entity of a kind with this number.
    pub(crate) fn id(&self, kind: Kind, number: u32) -> Id {
        Id::short(self.dice(kind, number).word())
    }

    fn base(&self, kind: Kind, number: u32) -> Base {
        let at = BEGINNING + i64::from(number) * 997;
        Base::new(self.id(kind, number), Timestamp(at))
    }

    /// The name of an identity.
    pub(crate) fn identity_name(&self, number: u32) -> String {
        const NAMES: [&str; 16] = [
            "ada", "ben", "cleo", "dan", "eva", "finn", "gus", "hana", "ines", "jon", "kim", "lea",
            "max", "nora", "otto", "pia",
        ];
        let mut dice = self.dice(Kind::Identity, number);
        dice.word();
        let first = NAMES[dice.below(NAMES.len() as u32) as usize];
        format!("{first}.{number:07}@site{:02}.example", dice.below(SITES))
    }

    fn identity(&self, number: u32) -> Identity {
        let mut dice = self.dice(Kind::Identity, number);
        let (mut share, mut platform) = (dice.word() % 100, PLATFORMS[0].0);
        for (name, percent) in PLATFORMS {
            if share < percent {
                platform = name;
                break;
            }
            share -= percent;
        }
        let site = format!("site-{:02}", dice.below(SITES));
        let team = format!("team-{:03}", dice.skewed(TEAMS));
        let mut attributes = [platform.to_owned(), site, team];
        attributes.sort_unstable();
        Identity {
            base: self.base(Kind::Identity, number),
            name: self.identity_name(number).as_str().into(),
            auth_policy_id: Id::new(AuthPolicy::DEFAULT_ID),
            role_attributes: shared(&attributes),
            ..Identity::default()
        }
    }

    /// A certificate with the length of a real one; it is not parsed in this run.
    pub(crate) fn authenticator(&self, number: u32) -> Authenticator {
        let mut dice = self.dice(Kind::Authenticator, number);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        for _ in 0..15 {
            pem.push_str(&dice.hex(64));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        Authenticator {
            base: self.base(Kind::Authenticator, number),
            identity_id: self.id(Kind::Identity, number),
            updb: None,
            cert: Some(CertCredential {
                fingerprint: dice.hex(40).as_str().into(),
                cert_pem: pem,
                is_issued_by_network: true,
                public_key_print: dice.hex(40),
                ..CertCredential::default()
            }),
        }
    }

    fn told(&self, number: u32) -> ClientDescription {
        let version = self.dice(Kind::Identity, number).below(12);
        let text = str::to_owned;
        ClientDescription {
            sdk: SdkInfo {
                app_id: text("desktop-edge"),
                app_version: format!("2.{version}.1"),
                branch: text("HEAD"),
                revision: format!("{:07x}", version * 1_234_577),
                r#type: text("ziti-sdk-c"),
                version: format!("1.{version}.0"),
            },
            env: EnvInfo {
                arch: text("x86_64"),
                domain: text("corp.example"),
                hostname: format!("host-{number:07}"),
                os: text("Windows"),
                os_release: text("10.0.19045"),
                os_version: text("22H2"),
            },
        }
    }

    /// Two configs and the service.
    fn service(&self, number: u32) -> [Entity; 3] {
        let mut dice = self.dice(Kind::Service, number);
        let attributes =
            [format!("app-{:03}", dice.below(APPS)), format!("tier-{}", dice.below(3))];
        let host = format!("svc-{number:05}.apps.example");
        let hosted = format!(r#"{{"protocol":"tcp","address":"{host}","port":443}}"#);
        let ports = r#"[{"low":443,"high":443}]"#;
        let dialed =
            format!(r#"{{"protocols":["tcp"],"addresses":["{host}"],"portRanges":{ports}}}"#);
        let config = |which: u32, config_type: &str, data: &str| Config {
            base: self.base(Kind::Config, number * 2 + which),
            name: format!("svc-{number:05}.{which}").as_str().into(),
            config_type_id: Id::new(config_type),
            data: JsonMap::from_text(data).unwrap_or_default(),
        };
        // Ids of the built-in types (docs/protocol/management-api.md 8).
        let [a, b] = [config(0, "NH5p4FpGR", &hosted), config(1, "g7cIWbcGg", &dialed)];
        let mut configs = vec![a.base.id.clone(), b.base.id.clone()];
        configs.sort_unstable();
        let service = Service {
            base: self.base(Kind::Service, number),
            name: format!("svc-{number:05}").as_str().into(),
            encryption_required: true,
            role_attributes: shared(&attributes),
            configs,
            ..Service::default()
        };
        [a.into(), b.into(), service.into()]
    }

    fn router(&self, number: u32) -> Router {
        let mut attributes = vec![format!("site-{:02}", number % SITES)];
        if number.is_multiple_of(5) {
            attributes.insert(0, "public".into());
        }
        Router {
            base: self.base(Kind::Router, number),
            name: format!("router-{number:03}").as_str().into(),
            is_edge: true,
            is_verified: true,
            fingerprint: Some(self.dice(Kind::Router, number).hex(40).as_str().into()),
            role_attributes: shared(&attributes),
            ..Router::default()
        }
    }

    /// The id of one of the routers that come back all at once.
    pub(crate) fn far_router_id(&self, number: u32) -> Id {
        Id::short(Dice::new(self.seed, u64::from(Kind::Router.code()) << 32, number.into()).word())
    }

    /// The router itself, with the certificate that it shows.
    pub(crate) fn far_router(&self, number: u32, fingerprint: &str) -> Router {
        Router {
            base: Base::new(self.far_router_id(number), Timestamp(BEGINNING)),
            name: format!("far-router-{number:04}").as_str().into(),
            fingerprint: Some(fingerprint.into()),
            ..self.router(number)
        }
    }

    /// Of ten policies, five let teams dial, two let identities host, two are edge router policies
    /// and one is a service edge router policy.
    fn policy(&self, number: u32) -> Entity {
        let mut dice = self.dice(Kind::ServicePolicy, number);
        let name: Arc<str> = format!("policy-{number:05}").as_str().into();
        let site = format!("#site-{:02}", dice.below(SITES));
        let team = format!("#team-{:03}", dice.skewed(TEAMS));
        let app = format!("#app-{:03}", dice.below(APPS));
        let service = format!("@{}", self.id(Kind::Service, dice.below(self.services)));
        let host = format!("@{}", self.id(Kind::Identity, dice.below(self.identities)));
        let semantic = Semantic::AnyOf;
        match number % 10 {
            0..=4 => {
                let (name, semantic, identity_roles) = match number {
                    0 => (HALF.into(), semantic, roles(&[&format!("#{}", PLATFORMS[0].0)])),
                    _ if number.is_multiple_of(4) => {
                        (name, Semantic::AllOf, roles(&[&team, &site]))
                    }
                    _ => (name, semantic, roles(&[&team])),
                };
                ServicePolicy {
                    base: self.base(Kind::ServicePolicy, number),
                    name,
                    semantic,
                    policy_type: PolicyType::Dial,
                    identity_roles,
                    service_roles: roles(&[&app]),
                    ..ServicePolicy::default()
                }
                .into()
            }
            5 | 6 => ServicePolicy {
                base: self.base(Kind::ServicePolicy, number),
                name,
                semantic,
                policy_type: PolicyType::Bind,
                identity_roles: roles(&[&host]),
                service_roles: roles(&[&service]),
                ..ServicePolicy::default()
            }
            .into(),
            7 | 8 => EdgeRouterPolicy {
                base: self.base(Kind::EdgeRouterPolicy, number),
                name,
                semantic,
                identity_roles: if number == 7 { Roles::all() } else { roles(&[&site]) },
                edge_router_roles: roles(&[if number == 7 { "#public" } else { &site }]),
            }
            .into(),
            _ => ServiceEdgeRouterPolicy {
                base: self.base(Kind::ServiceEdgeRouterPolicy, number),
                name,
                semantic,
                service_roles: if number == 9 { Roles::all() } else { roles(&[&app]) },
                edge_router_roles: Roles::all(),
            }
            .into(),
        }
    }

    /// Everything, referenced entities first.
    fn entities(&self) -> impl Iterator<Item = Entity> + '_ {
        let routers = (0..self.routers).map(|number| self.router(number).into());
        let services = (0..self.services).flat_map(|number| self.service(number));
        let identities = (0..self.identities).flat_map(|number| {
            [Entity::from(self.identity(number)), self.authenticator(number).into()]
        });
        let policies = (0..self.policies).map(|number| self.policy(number));
        routers.chain(services).chain(identities).chain(policies)
    }

    fn size(&self) -> u64 {
        u64::from(self.routers + self.services * 3 + self.identities * 3 + self.policies)
    }
}

/// Writes the network into the file of a controller that does not run.
pub(crate) fn fill(file: &Path, network: &Network, progress: &ProgressBar) -> io::Result<()> {
    let options = weft_store::Options { log_limit: 1, ..weft_store::Options::default() };
    let store = Embedded::open(file, options).map_err(io::Error::other)?;
    let mut head = store.head().map_err(io::Error::other)?.revision;
    progress.set_length(network.size());
    progress.set_position(0);
    progress.set_message("filling");
    let begun = Instant::now();
    let mut set = ChangeSet::default();
    for entity in network.entities() {
        set.put_apart(entity);
        if set.changes.len() >= BATCH {
            progress.inc(BATCH as u64);
            head = commit(&store, head, std::mem::take(&mut set))?;
        }
    }
    commit(&store, head, set)?;
    for number in 0..network.identities {
        let (space, note) = network.told(number).note();
        let id = network.id(Kind::Identity, number);
        store.live().put_note(space, id.as_str(), Some(Bytes::from(note)));
        if number.is_multiple_of(NOTES) {
            block_on(store.live().flush()).map_err(io::Error::other)?;
            progress.inc(u64::from(NOTES));
        }
    }
    block_on(store.live().flush()).map_err(io::Error::other)?;
    progress.suspend(|| eprintln!("filled in {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(())
}

pub(crate) fn commit(store: &Embedded, head: Revision, set: ChangeSet) -> io::Result<Revision> {
    let committed = store.commit(head, vec![Arc::new(set)]);
    Handle::current().block_on(committed).map_err(io::Error::other)
}
