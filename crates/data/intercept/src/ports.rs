//! Sets of ports, as ranges.

/// First and last port.
pub(crate) type Range = (u16, u16);

/// The ports of `ranges` in as few ranges as possible, in order. A range whose last port is before its
/// first is empty.
pub(crate) fn merged(ranges: impl IntoIterator<Item = Range>) -> Vec<Range> {
    let mut ranges: Vec<Range> = ranges.into_iter().filter(|(low, high)| low <= high).collect();
    ranges.sort_unstable();
    let mut out: Vec<Range> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match out.last_mut() {
            Some(last) if u32::from(low) <= u32::from(last.1) + 1 => last.1 = last.1.max(high),
            _ => out.push((low, high)),
        }
    }
    out
}

/// The ports of `from` that are not in `without`. In both and in the result the ranges are sorted and
/// do not touch.
pub(crate) fn subtracted(from: &[Range], without: &[Range]) -> Vec<Range> {
    let mut out = Vec::with_capacity(from.len());
    let mut others = without.iter().peekable();
    for &(low, high) in from {
        let mut next = u32::from(low);
        while let Some(&&(first, last)) = others.peek() {
            if u32::from(last) < next {
                others.next();
                continue;
            }
            if first > high {
                break;
            }
            if u32::from(first) > next {
                out.push((next as u16, first - 1));
            }
            next = u32::from(last) + 1;
            if next > u32::from(high) {
                break;
            }
            others.next();
        }
        if next <= u32::from(high) {
            out.push((next as u16, high));
        }
    }
    out
}

/// The width of the narrowest range with a port.
pub(crate) fn narrowest(ranges: &[Range], port: u16) -> Option<u16> {
    let having = ranges.iter().filter(|(low, high)| (*low..=*high).contains(&port));
    having.map(|(low, high)| high - low).min()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn members(ranges: &[Range]) -> BTreeSet<u16> {
        ranges.iter().flat_map(|(low, high)| *low..=*high).collect()
    }

    fn some() -> impl Strategy<Value = Vec<Range>> {
        let low = (0_u16..60, 0_u16..60);
        let high = (65_500_u16..=65_535, 65_500_u16..=65_535);
        proptest::collection::vec(prop_oneof![low, high], 0..6)
    }

    proptest! {
        #[test]
        fn ranges_are_sets(a in some(), b in some()) {
            let (a, b) = (merged(a), merged(b));
            let difference = subtracted(&a, &b);
            let expected: BTreeSet<u16> = members(&a).difference(&members(&b)).copied().collect();
            prop_assert_eq!(members(&difference), expected);
            prop_assert_eq!(merged(difference.clone()), difference);
        }
    }

    #[test]
    fn touching_ranges_are_one() {
        assert_eq!(
            merged([(5, 9), (1, 4), (20, 10), (65_535, 65_535)]),
            [(1, 9), (65_535, 65_535)]
        );
    }
}
