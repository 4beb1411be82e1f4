//! Which place of the tree a page belongs to: a page with two places is damage.

use std::collections::BTreeMap;

/// A place that refers to a page: an element of another page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The page with the element; the meta pages count as page 0.
    pub(crate) page: u64,
    /// The element.
    pub(crate) element: usize,
}

/// The place of the root bucket's page.
pub(crate) const ROOT: Place = Place { page: 0, element: 0 };

#[derive(Debug)]
struct Claim {
    end: u64,
    place: Place,
}

/// The pages that were reached, with their overflow, each by the place that refers to it.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    by_start: BTreeMap<u64, Claim>,
}

impl Claims {
    /// Notes that a place refers to the pages from `start` up to `end`. Fails with the page of the other place if
    /// one of them belongs to that.
    pub(crate) fn claim(&mut self, start: u64, end: u64, place: Place) -> Result<(), u64> {
        // No two claims overlap, so that only the last one before the end can overlap this one.
        match self.by_start.range(..end).next_back() {
            Some((&first, claim)) if first == start && claim.end == end && claim.place == place => {
                return Ok(());
            }
            Some((_, claim)) if claim.end > start => return Err(claim.place.page),
            _ => {}
        }
        self.by_start.insert(start, Claim { end, place });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Claims, Place};

    #[test]
    fn a_page_has_one_place() {
        let mut claims = Claims::default();
        let place = |page| Place { page, element: 3 };
        assert_eq!(claims.claim(10, 13, place(2)), Ok(()));
        assert_eq!(claims.claim(10, 13, place(2)), Ok(()));
        assert_eq!(claims.claim(10, 13, place(3)), Err(2));
        assert_eq!(claims.claim(10, 11, place(2)), Err(2));
        assert_eq!(claims.claim(12, 13, place(4)), Err(2));
        assert_eq!(claims.claim(9, 11, place(4)), Err(2));
        assert_eq!(claims.claim(5, 20, place(4)), Err(2));
        assert_eq!(claims.claim(13, 14, place(4)), Ok(()));
        assert_eq!(claims.claim(9, 10, place(5)), Ok(()));
        assert_eq!(claims.claim(9, 10, Place { page: 5, element: 4 }), Err(5));
    }
}
