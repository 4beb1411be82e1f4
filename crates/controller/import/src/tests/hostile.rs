//! Networks whose values were changed at random: each is read, with losses, or refused.

use super::network::{
    Bucket, Network, array, bucket, flag, fraction, list, long, short, text, time,
};
use super::writer::{Layout, Node, Tree, write};
use super::{import, import_bytes};

/// A generator of numbers that needs no crate: xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

const KINDS: [&str; 21] = [
    "identities",
    "authenticators",
    "enrollments",
    "mfas",
    "authPolicies",
    "cas",
    "routers",
    "externalJwtSigners",
    "revocations",
    "services",
    "terminators",
    "configTypes",
    "configs",
    "servicePolicies",
    "edgeRouterPolicies",
    "serviceEdgeRouterPolicies",
    "postureChecks",
    "controllers",
    "apiSessions",
    "apiSessionCertificates",
    "sessions",
];

const FIELDS: [&str; 34] = [
    "name",
    "type",
    "typeId",
    "method",
    "identity",
    "service",
    "router",
    "token",
    "expiresAt",
    "certPem",
    "data",
    "tags",
    "roleAttributes",
    "identityRoles",
    "serviceRoles",
    "edge",
    "transitRouter",
    "serviceConfigs",
    "externalIdClaim",
    "peerData",
    "binding",
    "semantic",
    "dialServices",
    "routers",
    "appData",
    "updbUsername",
    "secret",
    "recoveryCodes",
    "schema",
    "OS",
    "PROCESS_MULTI",
    "processes",
    "ctrlChanListeners",
    "configs",
];

fn value(random: &mut Random, depth: usize) -> Node {
    let texts = ["", "x", "a1", "updb", "cert", "ott", "OS", "PROCESS_MULTI", "#all", "@a1", "{}"];
    match random.next(if depth > 0 { 11 } else { 7 }) {
        0 => Node::Value((0..random.next(20)).map(|_| random.next(256) as u8).collect()),
        1 => flag(random.next(2) == 0),
        2 => short(random.next(1 << 40) as i32),
        3 => long(random.next(usize::MAX) as i64),
        4 => time(random.next(1 << 40) as i64),
        5 => fraction(f64::from_bits(random.next(usize::MAX) as u64)),
        6 | 7 => text(texts[random.next(texts.len())]),
        8 => list(&[texts[random.next(texts.len())], texts[random.next(texts.len())]]),
        9 => array((0..random.next(4)).map(|_| value(random, depth - 1)).collect()),
        _ => bucket(fields(random, depth - 1)),
    }
}

fn fields(random: &mut Random, depth: usize) -> Bucket {
    (0..random.next(12))
        .map(|_| (FIELDS[random.next(FIELDS.len())], value(random, depth)))
        .collect()
}

fn network(random: &mut Random) -> Network {
    let mut network = Network::new([41, 44, 48][random.next(3)]);
    for _ in 0..random.next(30) {
        let kind = KINDS[random.next(KINDS.len())];
        let id = ["a1", "x", "b2", "c3"][random.next(4)];
        network = network.with(kind, id, fields(random, 3));
    }
    network
}

#[test]
fn random_networks_are_read_with_losses() {
    let (mut taken, mut lost) = (0, 0);
    for seed in 1..400 {
        let mut random = Random(seed * 0x9E37_79B9);
        let import = import(&network(&mut random)).unwrap();
        taken += import.sections.iter().map(|section| section.taken).sum::<u64>();
        lost += import.losses.len();
    }
    assert!(taken > 100 && lost > 100, "{taken} taken, {lost} lost");
}

#[test]
fn random_bytes_of_a_network_are_read_or_refused() {
    let mut refused = 0;
    for seed in 1..300 {
        let mut random = Random(seed * 0x9E37_79B9);
        let mut bytes = network(&mut random).bytes();
        for _ in 0..20 {
            let at = 8_192 + random.next(bytes.len() - 8_192);
            bytes[at] = random.next(256) as u8;
        }
        refused += usize::from(import_bytes(&bytes).is_err());
    }
    assert!(refused > 0, "no damage was found");
}

#[test]
fn a_value_in_the_place_of_every_bucket_is_no_panic() {
    for place in ["versions", "metadata", "identities", "apiSessions", "routers"] {
        let mut network = Network::new(44).with_identity("i1", "Ada");
        network.root.insert(place.as_bytes().to_vec(), text("a value"));
        let _ = import(&network);
    }
    let root = Tree::from([(b"ziti".to_vec(), text("a value"))]);
    assert!(import_bytes(&write(&root, &Layout::default())).is_err());
}
