//! Ends under any schedule: two that are connected, and one whose peer does anything. The fuzz
//! target `end` plays the same schedules.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod pair;
mod stranger;

use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn bytes_in_are_bytes_out(
        options in any::<u8>(), steps in vec((any::<u8>(), any::<u16>()), 0..160),
    ) {
        pair::play(options, &steps);
    }

    /// The steps that change most come often, so that data is under way when they are taken.
    #[test]
    fn bytes_in_are_bytes_out_while_much_is_under_way(
        options in any::<u8>(), steps in vec((0..12_u8, any::<u16>()), 0..400),
    ) {
        pair::play(options, &steps);
    }

    #[test]
    fn no_peer_confuses_an_end(
        options in any::<u8>(), steps in vec((any::<u8>(), any::<[u8; 6]>()), 0..300),
    ) {
        stranger::play(options, &steps);
    }
}
