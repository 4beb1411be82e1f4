//! The network of a run as it begins.

use crate::mesh::Kind;
use crate::random::Random;

/// A network: its routers, the links between them, and the services with their hosts.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// The number of controllers. Each has all routers, links and services, and the circuits that it made.
    pub controllers: usize,
    /// The routers.
    pub routers: Vec<(String, Kind)>,
    /// The links: the router that dials, and the other one. Their ids are made of both and the number of the link, such
    /// as `r1-r2-0`.
    pub links: Vec<(String, String)>,
    /// The services, and the routers of their hosts.
    pub services: Vec<(String, Vec<String>)>,
}

impl Layout {
    /// A network of routers `r1`, `r2` and so on. A link leads from each router to each later one of `links`, which
    /// are numbers of routers. The service `mail` is hosted at the last router.
    #[must_use]
    pub fn of(routers: &[Kind], links: &[(usize, usize)]) -> Self {
        let name = |number: usize| format!("r{number}");
        let named = routers.iter().enumerate().map(|(at, kind)| (name(at + 1), *kind));
        Self {
            controllers: 1,
            routers: named.collect(),
            links: links.iter().map(|(from, to)| (name(*from), name(*to))).collect(),
            services: vec![("mail".to_owned(), vec![name(routers.len())])],
        }
    }

    /// Some network of a few routers.
    pub(crate) fn any(random: &Random) -> Self {
        let count = 3 + random.below(4);
        let names: Vec<String> = (1..=count).map(|number| format!("r{number}")).collect();
        let kind = || if random.percent(30) { Kind::Original } else { Kind::Weft };
        let routers = names.iter().map(|name| (name.clone(), kind())).collect();
        let mut links = Vec::new();
        for (at, dialer) in names.iter().enumerate() {
            for (number, peer) in names[at + 1..].iter().enumerate() {
                if number == 0 || random.percent(45) {
                    let parallel = 1 + usize::from(random.percent(20));
                    links.extend(std::iter::repeat_n((dialer.clone(), peer.clone()), parallel));
                }
            }
        }
        let host = || format!("r{}", 1 + random.below(count));
        let service = |name: &str| {
            let mut hosts = vec![host(), host()];
            hosts.dedup();
            (name.to_owned(), hosts)
        };
        let services = vec![service("mail"), service("wiki")];
        let controllers = match random.below(10) {
            0..5 => 1,
            5..8 => 2,
            _ => 3,
        };
        Self { controllers, routers, links, services }
    }
}
