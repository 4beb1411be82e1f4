//! The path of a circuit: its routers in order, the links between them, and the cost.

use weft_model::Id;

/// The routers of a circuit in order, with the links between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    /// The routers: at least one.
    pub nodes: Vec<Id>,
    /// The links: one less than routers.
    pub links: Vec<String>,
    /// Its cost.
    pub cost: u32,
}

impl Path {
    /// The path that stays on one router.
    pub fn of_one(router: Id) -> Self {
        Self { nodes: vec![router], links: Vec::new(), cost: 0 }
    }

    /// The router where it begins.
    pub fn first(&self) -> Option<&Id> {
        self.nodes.first()
    }

    /// The router where it ends.
    pub fn last(&self) -> Option<&Id> {
        self.nodes.last()
    }

    /// Whether it begins or ends at a router.
    pub fn has_end(&self, router: &Id) -> bool {
        [self.first(), self.last()].contains(&Some(router))
    }

    /// Whether it goes over a router.
    pub fn has_node(&self, router: &str) -> bool {
        self.nodes.iter().any(|node| node.as_str() == router)
    }

    /// Whether it uses a link.
    pub fn has_link(&self, link: &str) -> bool {
        self.links.iter().any(|own| own == link)
    }
}
