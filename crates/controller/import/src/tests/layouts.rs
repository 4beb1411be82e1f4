//! Layouts are told by their numbers.

use weft_model::Id;
use weft_model::entity::{ConfigTarget, ConfigType, Router, Service};

use super::network::{Network, bucket, flag, list, long, text};
use super::{import, import_bytes};
use crate::ImportError;
use crate::tests::writer::{Layout, Tree, write};

#[test]
fn three_layouts_are_read_and_others_refused_by_number() {
    for (number, release) in [(41, "1.6"), (44, "2.0"), (48, "2.1")] {
        let read = import(&Network::new(number)).unwrap();
        assert_eq!((read.layout.number(), read.layout.release()), (number, release));
        assert!(read.cluster_index.is_none() && read.losses.is_empty());
        assert!(read.sections.iter().all(|section| section.found == 0));
    }
    for number in [-1, 0, 40, 42, 43, 45, 47, 49, i64::MAX] {
        let error = import(&Network::new(number)).unwrap_err();
        assert!(matches!(error, ImportError::Layout { found } if found == number));
        assert!(error.to_string().contains(&number.to_string()));
    }
}

#[test]
fn a_database_of_something_else_is_refused() {
    let empty = write(&Tree::new(), &Layout::default());
    assert!(matches!(import_bytes(&empty), Err(ImportError::NoController(_))));
    let mut network = Network::new(44);
    network.root.insert(b"versions".to_vec(), bucket(vec![("edge", text("44"))]));
    assert!(matches!(import(&network), Err(ImportError::NoController(_))));
}

#[test]
fn a_cluster_has_an_index() {
    let mut network = Network::new(44);
    network.root.insert(b"metadata".to_vec(), bucket(vec![("raftIndex", long(1_234))]));
    assert_eq!(import(&network).unwrap().cluster_index, Some(1_234));
}

fn service(network: &Network, id: &str) -> Service {
    let read = import(network).unwrap();
    Service::clone(read.snapshot.get::<Service>(&Id::new(id)).unwrap())
}

#[test]
fn a_service_has_a_bucket_for_the_edge_up_to_2_0_and_none_afterwards() {
    let edge = || {
        vec![
            ("roleAttributes", list(&["web", "a"])),
            ("encryptionRequired", flag(false)),
            ("configs", list(&[])),
        ]
    };
    let fabric = || vec![("name", text("s")), ("maxIdleTime", long(1_500_000_001))];
    for layout in [41, 44] {
        let mut fields = fabric();
        fields.push(("edge", bucket(edge())));
        let network = Network::new(layout).with("services", "s1", fields).with(
            "services",
            "s2",
            vec![("name", text("fabric"))],
        );
        let read = service(&network, "s1");
        assert!(!read.is_fabric_only && !read.encryption_required);
        assert_eq!((read.role_attributes.len(), read.max_idle_millis), (2, 1_501));
        let read = service(&network, "s2");
        assert!(read.is_fabric_only && read.encryption_required);
    }
    let network = Network::new(48).with("services", "s1", [fabric(), edge()].concat()).with(
        "services",
        "s2",
        vec![("name", text("fabric")), ("isFabricOnly", flag(true))],
    );
    let read = service(&network, "s1");
    assert!(!read.is_fabric_only && !read.encryption_required && read.role_attributes.len() == 2);
    assert!(service(&network, "s2").is_fabric_only);
}

#[test]
fn configs_of_routers_begin_with_2_1() {
    let router = vec![
        ("name", text("r")),
        ("configs", list(&["c1"])),
        ("edge", bucket(vec![("isVerified", flag(true))])),
    ];
    for (layout, count) in [(41, 0), (44, 0), (48, 1)] {
        let network = Network::new(layout)
            .with("routers", "r1", router.clone())
            .with("configTypes", "t1", vec![("name", text("t")), ("target", text("router"))])
            .with("configs", "c1", vec![("name", text("c")), ("type", text("t1"))]);
        let read = import(&network).unwrap();
        assert!(read.losses.is_empty(), "{:?}", read.losses);
        assert_eq!(read.snapshot.get::<Router>(&Id::new("r1")).unwrap().configs.len(), count);
        let target = read.snapshot.get::<ConfigType>(&Id::new("t1")).unwrap().target;
        let wanted = if layout == 48 { ConfigTarget::Router } else { ConfigTarget::Service };
        assert_eq!(target, wanted);
    }
}
