//! Writes a network as the original does: entities as buckets of values that begin with their types.

use super::writer::{Layout, Node, Tree, write};

/// The fields of an entity, or another bucket.
pub(super) type Bucket = Vec<(&'static str, Node)>;

pub(super) fn typed(kind: u8, bytes: &[u8]) -> Node {
    Node::Value([&[kind], bytes].concat())
}

pub(super) fn text(text: &str) -> Node {
    typed(5, text.as_bytes())
}

pub(super) fn flag(flag: bool) -> Node {
    typed(1, &[u8::from(flag)])
}

/// A number of 32 bits.
pub(super) fn short(number: i32) -> Node {
    typed(2, &number.to_le_bytes())
}

/// A number of 64 bits.
pub(super) fn long(number: i64) -> Node {
    typed(3, &number.to_le_bytes())
}

pub(super) fn fraction(number: f64) -> Node {
    typed(4, &number.to_le_bytes())
}

/// A time, in seconds since 1970.
pub(super) fn time(seconds: i64) -> Node {
    let seconds = (seconds + 62_135_596_800).to_be_bytes();
    typed(6, &[&[1], seconds.as_slice(), &[0; 4], &[0xFF, 0xFF]].concat())
}

pub(super) fn bucket(entries: Bucket) -> Node {
    Node::Bucket(tree(entries))
}

fn tree(entries: Bucket) -> Tree {
    entries.into_iter().map(|(key, node)| (key.as_bytes().to_vec(), node)).collect()
}

/// A list of texts, which are the keys of a bucket.
pub(super) fn list(texts: &[&str]) -> Node {
    let keys = texts.iter().map(|text| ([&[5], text.as_bytes()].concat(), Node::Value(Vec::new())));
    Node::Bucket(keys.collect())
}

/// A list of JSON.
pub(super) fn array(values: Vec<Node>) -> Node {
    let length = short(values.len() as i32);
    let by_index = values
        .into_iter()
        .enumerate()
        .map(|(index, value)| ([&[2], (index as i32).to_le_bytes().as_slice()].concat(), value));
    let mut tree: Tree = by_index.collect();
    let key = "__list__size__36484231-110c-4767-afe2-01b6e3db107a";
    tree.insert(key.as_bytes().to_vec(), length);
    Node::Bucket(tree)
}

/// A network in a database.
#[derive(Clone)]
pub(super) struct Network {
    pub(super) root: Tree,
}

impl Network {
    /// An empty network with the layout of a number.
    pub(super) fn new(layout: i64) -> Self {
        let versions = bucket(vec![("edge", long(layout))]);
        Self { root: tree(vec![("versions", versions)]) }
    }

    /// The network with a further entity, which has times.
    pub(super) fn with(mut self, kind: &str, id: &str, fields: Bucket) -> Self {
        let mut fields = tree(fields);
        fields.entry(b"createdAt".to_vec()).or_insert_with(|| time(1_000));
        fields.entry(b"updatedAt".to_vec()).or_insert_with(|| time(2_000));
        let entities = self.root.entry(kind.as_bytes().to_vec());
        let Node::Bucket(entities) = entities.or_insert_with(|| Node::Bucket(Tree::new())) else {
            panic!("{kind} is a bucket");
        };
        entities.insert(id.as_bytes().to_vec(), Node::Bucket(fields));
        self
    }

    /// The network with the auth policy that every identity needs, and an identity.
    pub(super) fn with_identity(self, id: &str, name: &str) -> Self {
        self.with("authPolicies", "default", vec![("name", text("Default"))]).with(
            "identities",
            id,
            vec![("name", text(name)), ("type", text("Default"))],
        )
    }

    /// The file.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let root = Tree::from([(b"ziti".to_vec(), Node::Bucket(self.root.clone()))]);
        write(&root, &Layout::default())
    }
}
