//! What the fabric API says of the mesh, put together.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use weft_client::ManagementClient;
use weft_contract::{
    Api, Operation,
    envelope::MAX_LIMIT,
    resource::{
        self,
        fabric::{circuit::CircuitDetail, link::LinkDetail, router::RouterDetail},
    },
};

use crate::failure::Failure;

/// Circuits whose ways are looked at; of more only the number is told.
const COUNTED: i64 = 5000;

/// The mesh.
#[derive(Debug, Default)]
pub(super) struct Mesh {
    /// By name.
    pub(super) routers: Vec<Node>,
    /// By the routers that they join.
    pub(super) links: Vec<Link>,
    /// How many circuits there are.
    pub(super) circuits: i64,
    /// Whether the circuits of links and routers were counted.
    pub(super) is_counted: bool,
}

/// A router.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) is_online: bool,
    pub(super) cost: u16,
    pub(super) no_traversal: bool,
    pub(super) disabled: bool,
    /// Circuits that go over it.
    pub(super) circuits: usize,
}

/// A link, with the places of its ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) detail: LinkDetail,
    /// Circuits that go over it.
    pub(super) circuits: usize,
}

/// The links between two routers, as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) one: usize,
    pub(super) other: usize,
    /// What the cheapest costs that paths may use; none if all of them are down.
    pub(super) cost: Option<u64>,
    pub(super) links: usize,
}

impl Mesh {
    /// Asks for it.
    pub(super) async fn ask(client: &ManagementClient) -> Result<Self, Failure> {
        let links: Vec<LinkDetail> = all(client, row("listLinks")?).await?;
        let routers = match all::<RouterDetail>(client, row("listRouters")?).await {
            Ok(routers) => routers,
            // Operators who may see links and not routers see those that are linked.
            Err(error) if error.is_unauthorized() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let (circuits, ways) = ways(client).await?;
        Ok(Self::of(routers, links, circuits, ways))
    }

    /// Puts it together; without ways nothing is counted.
    pub(super) fn of(
        routers: Vec<RouterDetail>,
        links: Vec<LinkDetail>,
        circuits: i64,
        ways: Option<Vec<CircuitDetail>>,
    ) -> Self {
        let mut nodes: Vec<Node> = routers
            .into_iter()
            .map(|router| Node {
                id: router.base.id,
                name: router.name,
                is_online: router.connected,
                cost: router.cost,
                no_traversal: router.no_traversal,
                disabled: router.disabled,
                circuits: 0,
            })
            .collect();
        for end in links.iter().flat_map(|link| [&link.source_router, &link.dest_router]) {
            if !nodes.iter().any(|node| node.id == end.id) {
                let (id, name) = (end.id.clone(), end.name.clone());
                nodes.push(Node { id, name, is_online: true, ..Node::default() });
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
        Self { routers: nodes, links, circuits, is_counted }
    }

    /// Which routers are joined, by the places of both.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let mut pairs: BTreeMap<(usize, usize), Pair> = BTreeMap::new();
        for link in self.links.iter().filter(|link| link.from != link.to) {
            let (one, other) = (link.from.min(link.to), link.from.max(link.to));
            let pair =
                pairs.entry((one, other)).or_insert(Pair { one, other, cost: None, links: 0 });
            pair.links += 1;
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
                json!({"id": node.id, "name": node.name, "connected": node.is_online,
                    "cost": node.cost, "noTraversal": node.no_traversal,
                    "disabled": node.disabled, "circuits": count(node.circuits)})
            })
            .collect();
        let links: Vec<Value> = self
            .links
            .iter()
            .map(|link| {
                let mut shown = json!(link.detail);
                shown["circuits"] = json!(count(link.circuits));
                shown
            })
            .collect();
        json!({"routers": routers, "links": links, "circuits": self.circuits})
    }
}

/// How many circuits there are, and those, if they are not too many.
async fn ways(client: &ManagementClient) -> Result<(i64, Option<Vec<CircuitDetail>>), Failure> {
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

fn row(id: &str) -> Result<&'static Operation, Failure> {
    resource::operation(Api::Fabric, id)
        .ok_or_else(|| Failure::new(format!("this release of weft does not know {id}")))
}

/// All of a list of the fabric API.
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

    /// A mesh of routers and links `(from, to, cost, down)`.
    pub(in crate::topology) fn sample(names: &[&str], links: &[(&str, &str, u64, bool)]) -> Mesh {
        let router = |name: &&str| {
            serde_json::from_value(json!({"id": format!("id-{name}"), "name": name,
                "connected": *name != "away", "cost": 3, "noTraversal": *name == "closed"}))
            .unwrap()
        };
        let link = |(at, (from, to, cost, down)): (usize, &(&str, &str, u64, bool))| {
            serde_json::from_value(json!({"id": format!("l{at}"), "cost": cost, "down": down,
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
        let pair = |one, other, cost, links| Pair { one, other, cost, links };
        assert_eq!(mesh.pairs(), [pair(0, 1, Some(5), 2), pair(0, 2, None, 1)]);
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
    fn routers_that_nobody_may_see_are_known_by_their_links() {
        let mesh = Mesh::of(
            Vec::new(),
            sample(&[], &[("a", "b", 7, false)]).links.into_iter().map(|it| it.detail).collect(),
            9,
            None,
        );
        assert_eq!(mesh.routers.len(), 2);
        assert!(mesh.value()["links"][0]["circuits"].is_null());
    }
}
