use bytes::Bytes;
use proptest::prelude::*;

use super::*;

#[test]
fn string_list_vector() {
    // docs/protocol/channel.md 17, V9
    let mut headers = Headers::new();
    headers.set_string_list(1, &["a", "bc"]).unwrap();
    assert_eq!(headers.get(1).unwrap(), hex::decode("020000000100000061020000006263").unwrap());
    assert_eq!(headers.get_string_list(1).unwrap().unwrap(), ["a", "bc"]);
}

#[test]
fn map_vector() {
    // docs/protocol/channel.md 17, V9
    let map = PeerData::from([(5, Bytes::from_static(&[0xff]))]);
    let mut headers = Headers::new();
    headers.set_u32_map(1, &map).unwrap();
    assert_eq!(headers.get(1).unwrap(), hex::decode("010000000500000001000000ff").unwrap());
    assert_eq!(headers.get_u32_map(1).unwrap().unwrap(), map);
}

#[test]
fn empty_collections_are_empty_values() {
    let mut headers = Headers::new();
    headers.set_string_list::<&str>(1, &[]).unwrap();
    headers.set_u32_map(2, &PeerData::new()).unwrap();
    headers.set_string_map(3, &StringMap::new()).unwrap();
    assert_eq!(headers.get(1), Some(&[][..]));
    assert_eq!(headers.get_string_list(1).unwrap(), Some(vec![]));
    assert_eq!(headers.get_u32_map(2).unwrap(), Some(PeerData::new()));
    assert_eq!(headers.get_string_map(3).unwrap(), Some(StringMap::new()));
    assert_eq!(headers.get_string_map(4).unwrap(), None);
}

#[test]
fn readers_are_as_tolerant_as_peers() {
    let mut headers = Headers::new();
    headers.set(1, &[]).set(2, &[7]).set(3, &[1, 9]).set(4, &[1, 2, 3]);
    assert_eq!(headers.get_bool(1), Some(false));
    assert_eq!(headers.get_bool(2), Some(false));
    assert_eq!(headers.get_bool(3), Some(true));
    assert_eq!(headers.get_bool(9), None);
    assert_eq!(headers.get_u8(1), Some(0));
    assert_eq!(headers.get_u8(4), Some(1));
    assert_eq!(headers.get_u16(4), None);
    assert_eq!(headers.get_u32(4), None);
    assert_eq!(headers.get_u64(4), None);
}

#[test]
fn the_last_duplicate_wins_and_writing_removes_them_all() {
    let mut raw = Headers::new();
    raw.set(5, b"first");
    let mut twice = raw.as_wire().to_vec();
    raw.set(5, b"second");
    twice.extend_from_slice(raw.as_wire());
    let mut headers = Headers::from_wire(twice).unwrap();
    assert_eq!(headers.get(5), Some(&b"second"[..]));
    headers.set(5, b"third");
    assert_eq!(headers.iter().count(), 1);
}

#[test]
fn malformed_sections_are_refused() {
    for raw in [vec![0; 1], vec![0; 7], vec![1, 0, 0, 0, 1, 0, 0, 0], vec![0xff; 8]] {
        assert!(Headers::from_wire(raw).is_err());
    }
    assert!(Headers::from_wire(vec![]).is_ok());
}

#[test]
fn limits_of_lists() {
    let mut headers = Headers::new();
    assert!(headers.set_string_list(1, &vec!["x"; 129]).is_err());
    assert!(headers.set_string_list(1, &["x".repeat(8193)]).is_err());
    headers.set(2, &129u32.to_le_bytes());
    assert!(headers.get_string_list(2).is_err());
    headers.set(2, &[1, 0, 0, 0, 0x01, 0x20, 0, 0]);
    assert!(headers.get_string_list(2).is_err());
    headers.set(2, &[1, 0, 0, 0, 1, 0, 0, 0, b'x', b'?']);
    assert_eq!(headers.get_string_list(2).unwrap().unwrap(), ["x"]);
}

fn entries() -> impl Strategy<Value = Vec<(i32, Vec<u8>)>> {
    prop::collection::vec((0..6i32, prop::collection::vec(any::<u8>(), 0..12)), 0..12)
}

proptest! {
    #[test]
    fn any_bytes_never_panic(raw in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(mut headers) = Headers::from_wire(raw.clone()) {
            prop_assert_eq!(headers.as_wire(), &raw[..]);
            for (key, _) in headers.clone().iter() {
                let _ = headers.get_string_list(key);
                let _ = headers.get_u32_map(key);
                let _ = headers.get_string_map(key);
                headers.remove(key);
                prop_assert!(!headers.contains(key));
            }
            prop_assert!(headers.is_empty());
        }
    }

    #[test]
    fn behaves_like_a_map(entries in entries(), gone in prop::collection::vec(0..6i32, 0..4)) {
        let mut headers = Headers::new();
        let mut model = std::collections::BTreeMap::new();
        for (key, value) in &entries {
            headers.set(*key, value);
            model.insert(*key, value.clone());
        }
        headers.remove_all(&gone);
        model.retain(|key, _| !gone.contains(key));
        let read = Headers::from_wire(headers.as_wire().to_vec()).unwrap();
        prop_assert_eq!(read.iter().count(), model.len());
        for (key, value) in &model {
            prop_assert_eq!(read.get(*key), Some(&value[..]));
        }
    }

    #[test]
    fn collections_round_trip(
        list in prop::collection::vec(".{0,8}", 0..10),
        map in prop::collection::btree_map(any::<u32>(), prop::collection::vec(any::<u8>(), 0..9), 0..9),
    ) {
        let map: PeerData = map.into_iter().map(|(k, v)| (k, Bytes::from(v))).collect();
        let mut headers = Headers::new();
        headers.set_string_list(1, &list).unwrap().set_u32_map(2, &map).unwrap();
        prop_assert_eq!(headers.get_string_list(1).unwrap().unwrap(), list);
        prop_assert_eq!(headers.get_u32_map(2).unwrap().unwrap(), map);
    }

    #[test]
    fn any_collection_bytes_never_panic(raw in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut headers = Headers::new();
        headers.set(1, &raw);
        let _ = headers.get_string_list(1);
        let _ = headers.get_u32_map(1);
        let _ = headers.get_string_map(1);
    }
}
