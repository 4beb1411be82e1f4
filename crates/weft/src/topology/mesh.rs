//! The mesh, assembled from answers of the fabric API.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use weft_client::ManagementClient;
use weft_contract::envelope::MAX_LIMIT;
use weft_contract::resource::fabric::circuit::CircuitDetail;
use weft_contract::resource::fabric::link::LinkDetail;
use weft_contract::resource::fabric::{self};
use weft_contract::resource::{self, router};
use weft_contract::{Api, Operation};

use crate::failure::{Failure, Result};
use crate::output::units;

/// Most circuits whose paths are read; of more only the number is shown.
const COUNTED: i64 = 5000;

#[derive(Debug, Default)]
pub(super) struct Mesh {
    /// Sorted by name.
    pub(super) routers: Vec<Node>,
    /// Sorted by the routers that they join.
    pub(super) links: Vec<Link>,
    /// Number of circuits.
    pub(super) circuits: i64,
    /// True if the circuits of each link and router were counted.
    pub(super) is_counted: bool,
    /// True if the login may not list routers: only those with links are known, by name.
    pub(super) is_partial: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) name: String,
    /// `None` if the router is known from its links only.
    pub(super) known: Option<RouterStatus>,
    /// Number of circuits over the router.
    pub(super) circuits: usize,
}

/// The facts about a router that only a list of routers has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RouterStatus {
    pub(super) is_online: bool,
    pub(super) cost: u16,
    pub(super) no_traversal: bool,
    pub(super) disabled: bool,
}

impl Node {
    /// State of the router, in one word.
    pub(super) fn state(&self) -> &'static str {
        match self.known {
            None => "?",
            Some(RouterStatus { disabled: true, .. }) => "disabled",
            Some(RouterStatus { is_online: true, .. }) => "online",
            Some(_) => "not connected",
        }
    }
}

impl From<fabric::router::RouterDetail> for Node {
    fn from(router: fabric::router::RouterDetail) -> Self {
        let known = RouterStatus {
            is_online: router.connected,
            cost: router.cost,
            no_traversal: router.no_traversal,
            disabled: router.disabled,
        };
        Self { id: router.base.id, name: router.name, known: Some(known), circuits: 0 }
    }
}

impl From<router::RouterDetail> for Node {
    fn from(router: router::RouterDetail) -> Self {
        let known = RouterStatus {
            is_online: router.is_online,
            cost: router.cost,
            no_traversal: router.no_traversal,
            disabled: router.disabled,
        };
        Self { id: router.base.id, name: router.name, known: Some(known), circuits: 0 }
    }
}

/// A link, with the indexes of its routers.
#[derive(Debug, Clone, Default)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) detail: LinkDetail,
    /// Number of circuits over the link.
    pub(super) circuits: usize,
}

/// The links between two routers, as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) one: usize,
    pub(super) other: usize,
    /// Cost of the cheapest usable link; `None` if all are down.
    pub(super) cost: Option<u64>,
    pub(super) links: usize,
    /// Bytes per second over all links, in both directions together; `None` if one is unknown.
    pub(super) rate: Option<u64>,
}

impl Pair {
    /// The cost and the number of links.
    pub(super) fn cost(&self) -> String {
        let cost = self.cost.map_or_else(|| "down".to_owned(), |cost| cost.to_string());
        match self.links {
            1 => cost,
            several => format!("{cost} ×{several}"),
        }
    }

    /// The cost, the number of links, and the rate.
    pub(super) fn cost_and_rate(&self) -> String {
        format!("{} · {}", self.cost(), units::rate(self.rate))
    }
}

impl Link {
    /// Bytes per second in both directions together.
    fn rate(&self) -> Option<u64> {
        self.detail.source_rate?.checked_add(self.detail.dest_rate?)
    }
}

impl Mesh {
    /// Reads the mesh from the controller.
    pub(super) async fn ask(client: &ManagementClient) -> Result<Self> {
        let links: Vec<LinkDetail> = all(client, row("listLinks")?).await?;
        let routers = routers(client).await?;
        let (circuits, ways) = ways(client).await?;
        let is_partial = routers.is_none();
        Ok(Self { is_partial, ..Self::of(routers.unwrap_or_default(), links, circuits, ways) })
    }

    /// Assembles the mesh. Without the paths of circuits nothing is counted.
    pub(super) fn of(
        mut nodes: Vec<Node>,
        links: Vec<LinkDetail>,
        circuits: i64,
        ways: Option<Vec<CircuitDetail>>,
    ) -> Self {
        for end in links.iter().flat_map(|link| [&link.source_router, &link.dest_router]) {
            if !nodes.iter().any(|node| node.id == end.id) {
                let (id, name) = (end.id.clone(), end.name.clone());
                nodes.push(Node { id, name, ..Node::default() });
            }
        }
        nodes.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        let places: HashMap<String, usize> =
            nodes.iter().enumerate().map(|(at, node)| (node.id.clone(), at)).collect();
        let mut links: Vec<Link> = links
            .into_iter()
            .filter_map(|detail| {
                let from = *places.get(&detail.source_router.id)?;
                let to = *places.get(&detail.dest_router.id)?;
                Some(Link { from, to, detail, circuits: 0 })
            })
            .collect();
        links.sort_by(|one, other| {
            (one.from, one.to, &one.detail.id).cmp(&(other.from, other.to, &other.detail.id))
        });
        let is_counted = ways.is_some();
        let by_link: HashMap<String, usize> =
            links.iter().enumerate().map(|(at, link)| (link.detail.id.clone(), at)).collect();
        for circuit in ways.into_iter().flatten() {
            for node in circuit.path.nodes.iter().filter_map(|node| places.get(&node.id)) {
                nodes[*node].circuits += 1;
            }
            for link in circuit.path.links.iter().filter_map(|link| by_link.get(&link.id)) {
                links[*link].circuits += 1;
            }
        }
        Self { routers: nodes, links, circuits, is_counted, is_partial: false }
    }

    /// The pairs of routers that are linked, by index.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let mut pairs: BTreeMap<(usize, usize), Pair> = BTreeMap::new();
        for link in self.links.iter().filter(|link| link.from != link.to) {
            let (one, other) = (link.from.min(link.to), link.from.max(link.to));
            let none = Pair { one, other, cost: None, links: 0, rate: Some(0) };
            let pair = pairs.entry((one, other)).or_insert(none);
            pair.links += 1;
            pair.rate = pair.rate.zip(link.rate()).and_then(|(all, more)| all.checked_add(more));
            if !link.detail.down {
                let cost = link.detail.cost;
                pair.cost = Some(pair.cost.map_or(cost, |least| least.min(cost)));
            }
        }
        pairs.into_values().collect()
    }

    /// The mesh for scripts.
    pub(super) fn value(&self) -> Value {
        let count = |circuits: usize| self.is_counted.then_some(circuits);
        let routers: Vec<Value> = self
            .routers
            .iter()
            .map(|node| {
                let known = node.known;
                json!({"id": node.id, "name": node.name,
                    "connected": known.map(|it| it.is_online),
                    "cost": known.map(|it| it.cost),
                    "noTraversal": known.map(|it| it.no_traversal),
                    "disabled": known.map(|it| it.disabled),
                    "circuits": count(node.circuits)})
            })
            .collect();
        let links: Vec<Value> = self
            .links
            .iter()
            .map(|link| {
                let mut shown = json!(link.detail);
                shown["circuits"] = json!(count(link.circuits));
                // Scripts find the members of each link, whether they are known or not.
                shown["sourceRate"] = json!(link.detail.source_rate);
                shown["destRate"] = json!(link.detail.dest_rate);
                shown
            })
            .collect();
        json!({"routers": routers, "links": links, "circuits": self.circuits})
    }
}

/// The routers; `None` if the login may not list them. The fabric API lists them for administrators
/// only, the management API for logins with the permission `router.read`.
async fn routers(client: &ManagementClient) -> Result<Option<Vec<Node>>> {
    match all::<fabric::router::RouterDetail>(client, row("listRouters")?).await {
        Ok(found) => return Ok(Some(found.into_iter().map(Node::from).collect())),
        Err(error) if is_refused(&error) => {}
        Err(error) => return Err(error.into()),
    }
    match client.list::<router::RouterDetail>(&router::KIND, None).await {
        Ok(found) => Ok(Some(found.into_iter().map(Node::from).collect())),
        Err(error) if is_refused(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// True if the login lacks a permission.
fn is_refused(error: &weft_client::Error) -> bool {
    matches!(error.status(), Some(401 | 403))
}

/// The number of circuits, and the circuits if they are not too many.
async fn ways(client: &ManagementClient) -> Result<(i64, Option<Vec<CircuitDetail>>)> {
    let operation = row("listCircuits")?;
    let mut found = Vec::new();
    loop {
        let (limit, offset) = (MAX_LIMIT.to_string(), found.len().to_string());
        let query = [("limit", limit.as_str()), ("offset", offset.as_str())];
        let page = client.page_in::<CircuitDetail>(Api::Fabric, operation, &[], &query).await?;
        let total = page.pagination.map_or(0, |at| at.total_count);
        let is_last = page.items.is_empty();
        found.extend(page.items);
        if total > COUNTED {
            return Ok((total, None));
        }
        if is_last || found.len() as i64 >= total {
            return Ok((total, Some(found)));
        }
    }
}

fn row(id: &str) -> Result<&'static Operation> {
    resource::operation(Api::Fabric, id)
        .ok_or_else(|| Failure::new(format!("this release of weft does not know {id}")))
}

/// A whole list of the fabric API.
async fn all<T: serde::de::DeserializeOwned>(
    client: &ManagementClient,
    operation: &Operation,
) -> Result<Vec<T>, weft_client::Error> {
    let (mut found, limit) = (Vec::new(), MAX_LIMIT.to_string());
    loop {
        let offset = found.len().to_string();
        let query = [("limit", limit.as_str()), ("offset", offset.as_str())];
        let page = client.page_in::<T>(Api::Fabric, operation, &[], &query).await?;
        let total = page.pagination.map_or(0, |at| at.total_count);
        let is_last = page.items.is_empty();
        found.extend(page.items);
        if is_last || found.len() as i64 >= total {
            return Ok(found);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A mesh of routers and links `(from, to, cost, down)`. The rates of links from `b` are unknown.
    pub(in crate::topology) fn sample(names: &[&str], links: &[(&str, &str, u64, bool)]) -> Mesh {
        let router = |name: &&str| {
            let known = RouterStatus {
                is_online: *name != "away",
                cost: 3,
                no_traversal: *name == "closed",
                disabled: false,
            };
            let (id, name) = (format!("id-{name}"), (*name).to_owned());
            Node { id, name, known: Some(known), circuits: 0 }
        };
        let link = |(at, (from, to, cost, down)): (usize, &(&str, &str, u64, bool))| {
            let rates = (*from != "b").then_some([1536, 2048]);
            serde_json::from_value(json!({"id": format!("l{at}"), "cost": cost, "down": down,
                "sourceRate": rates.map(|it| it[0]), "destRate": rates.map(|it| it[1]),
                "staticCost": 1, "state": "Connected", "sourceLatency": 2_000_000,
                "destLatency": 3_000_000,
                "sourceRouter": {"id": format!("id-{from}"), "name": from},
                "destRouter": {"id": format!("id-{to}"), "name": to}}))
            .unwrap()
        };
        let ways = serde_json::from_value(json!([{"path": {
            "nodes": [{"id": "id-a"}, {"id": "id-b"}], "links": [{"id": "l0"}]}}]))
        .unwrap();
        let routers = names.iter().map(router).collect();
        Mesh::of(routers, links.iter().enumerate().map(link).collect(), 1, Some(ways))
    }

    #[test]
    fn links_between_two_routers_are_one_line() {
        let links = [("a", "b", 7, false), ("b", "a", 5, false), ("c", "a", 1, true)];
        let mesh = sample(&["b", "a", "c"], &links);
        let names: Vec<&str> = mesh.routers.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let pair = |one, other, cost, links, rate| Pair { one, other, cost, links, rate };
        let expected = [pair(0, 1, Some(5), 2, None), pair(0, 2, None, 1, Some(3584))];
        assert_eq!(mesh.pairs(), expected);
        assert_eq!(expected.map(|it| it.cost_and_rate()), ["5 ×2 · ?", "down · 3.5 KiB/s"]);
    }

    #[test]
    fn circuits_are_counted_where_they_go() {
        let mesh = sample(&["a", "b"], &[("a", "b", 7, false), ("a", "b", 9, false)]);
        let counts: Vec<usize> = mesh.links.iter().map(|link| link.circuits).collect();
        assert_eq!((counts, mesh.routers[1].circuits), (vec![1, 0], 1));
        let value = mesh.value();
        assert_eq!(
            (&value["links"][0]["circuits"], &value["links"][0]["cost"]),
            (&json!(1), &json!(7))
        );
    }

    #[test]
    fn of_routers_that_a_login_may_not_list_nothing_is_claimed() {
        let mesh = unlisted();
        assert_eq!(mesh.routers.len(), 2);
        assert!(mesh.routers.iter().all(|node| node.known.is_none() && node.state() == "?"));
        let value = mesh.value();
        assert!(value["links"][0]["circuits"].is_null());
        assert_eq!(value["links"][0]["sourceRate"], 1536);
        assert_eq!(value["routers"][0]["name"], "a");
        for member in ["connected", "cost", "noTraversal", "disabled"] {
            assert!(value["routers"][0][member].is_null(), "{member}: {value}");
        }
    }

    #[test]
    fn routers_are_the_same_whichever_list_tells_of_them() {
        let fabric: fabric::router::RouterDetail =
            serde_json::from_value(json!({"id": "i", "name": "n",
            "connected": true, "cost": 7, "noTraversal": true, "disabled": true}))
            .unwrap();
        let managed: router::RouterDetail = serde_json::from_value(json!({"id": "i", "name": "n",
            "isOnline": true, "cost": 7, "noTraversal": true, "disabled": true}))
        .unwrap();
        let (fabric, managed) = (Node::from(fabric), Node::from(managed));
        assert_eq!(
            (&fabric.id, &fabric.name, fabric.known),
            (&managed.id, &managed.name, managed.known)
        );
        assert_eq!(managed.known.unwrap().cost, 7);
    }

    /// A mesh for a login that may not list routers.
    pub(in crate::topology) fn unlisted() -> Mesh {
        let links = sample(&[], &[("a", "b", 7, false)]).links;
        let links = links.into_iter().map(|it| it.detail).collect();
        Mesh { is_partial: true, ..Mesh::of(Vec::new(), links, 9, None) }
    }
}
