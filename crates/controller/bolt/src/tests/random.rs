//! Random trees in random layouts, and random damage of them by seeds.

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::writer::{Layout, Node, Tree, checksum, write};
use super::{Stored, read_bytes, tree_of};
use crate::Bolt;

fn node() -> impl Strategy<Value = Node> {
    let value = prop::collection::vec(any::<u8>(), 0..60);
    let long = (any::<u8>(), 0..20_000_usize).prop_map(|(byte, len)| vec![byte; len]);
    let leaf = prop_oneof![8 => value, 1 => long].prop_map(Node::Value);
    leaf.prop_recursive(3, 200, 20, |inner| tree_with(inner, 20).prop_map(Node::Bucket))
}

fn tree_with(node: impl Strategy<Value = Node>, most: usize) -> impl Strategy<Value = Tree> {
    prop::collection::btree_map(prop::collection::vec(any::<u8>(), 1..12), node, 0..most)
}

fn layout() -> impl Strategy<Value = Layout> {
    let page_size = prop::sample::select(vec![4_096, 8_192, 16_384, 32_768, 65_536]);
    (page_size, 2..40_usize, 0..2_000_usize, any::<bool>(), any::<bool>()).prop_map(
        |(page_size, elements, within, has_free_list, is_newer_second)| Layout {
            page_size,
            elements,
            within,
            has_free_list,
            is_newer_second,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_trees_are_read_as_they_were_written(tree in tree_with(node(), 60), layout in layout()) {
        let read = read_bytes(&write(&tree, &layout)).unwrap();
        prop_assert!(read == tree);
    }

    #[test]
    fn every_key_is_found_by_itself(tree in tree_with(node(), 60), layout in layout()) {
        let stored = Stored::new(&write(&tree, &layout));
        let database = Bolt::open(&stored.path).unwrap();
        for (key, node) in &tree {
            match node {
                Node::Value(value) => {
                    let found = database.root().value(key).unwrap();
                    prop_assert_eq!(found.as_deref(), Some(value.as_slice()));
                }
                Node::Bucket(inner) => {
                    let bucket = database.bucket(&[key]).unwrap().unwrap();
                    prop_assert!(tree_of(&bucket, &mut 0).unwrap() == *inner);
                }
            }
            let missing = [key.as_slice(), &[0]].concat();
            prop_assert_eq!(database.root().get(&missing).unwrap().is_some(), tree.contains_key(&missing));
        }
    }
}

/// A random tree of a seed, with a few kilobytes.
fn tree_of_seed(random: &mut StdRng, depth: usize) -> Tree {
    let count = random.random_range(0..25);
    let mut tree = Tree::new();
    for _ in 0..count {
        let key = (0..random.random_range(1..9)).map(|_| random.random::<u8>()).collect();
        let node = if depth > 0 && random.random_bool(0.3) {
            Node::Bucket(tree_of_seed(random, depth - 1))
        } else {
            Node::Value(vec![1; random.random_range(0..300)])
        };
        tree.insert(key, node);
    }
    tree
}

/// Changes some bytes, mostly those of headers and elements.
fn damage(random: &mut StdRng, bytes: &mut [u8], page_size: usize) {
    for _ in 0..random.random_range(1..8) {
        let pages = bytes.len() / page_size;
        let page = random.random_range(0..pages) * page_size;
        let part = if random.random_bool(0.8) { 200 } else { page_size };
        let at = page + random.random_range(0..part);
        match random.random_range(0..4) {
            0 => bytes[at] = random.random(),
            1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes[at] = random.random_range(0..pages) as u8,
            _ => {
                let from = random.random_range(0..pages) * page_size;
                bytes.copy_within(from..from + 64, page);
            }
        }
    }
    if random.random_bool(0.7) {
        // A good checksum, so that hostile metas are followed.
        for page in [0, page_size] {
            let sum = checksum(&bytes[page + 16..page + 72]);
            bytes[page + 72..page + 80].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// `WEFT_BOLT_SEEDS`: the number of seeds; `WEFT_BOLT_FIRST`: the first one.
#[test]
fn damage_by_seeds_is_read_or_refused() {
    let number = |name, default| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let first: u64 = number("WEFT_BOLT_FIRST", 0);
    let (mut refused, mut read) = (0, 0);
    for seed in first..first + number("WEFT_BOLT_SEEDS", 500) {
        let mut random = StdRng::seed_from_u64(seed);
        let layout = Layout {
            elements: random.random_range(2..20),
            within: random.random_range(0..1_500),
            ..Layout::default()
        };
        let mut bytes = write(&tree_of_seed(&mut random, 2), &layout);
        damage(&mut random, &mut bytes, layout.page_size);
        let stored = Stored::new(&bytes);
        let mut visited = 0;
        let walked =
            Bolt::open(&stored.path).and_then(|database| tree_of(&database.root(), &mut visited));
        assert!(visited <= bytes.len() / 16, "seed {seed}: {visited} entries");
        match walked {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > read / 10 && read > 0, "{refused} refused, {read} read");
}
