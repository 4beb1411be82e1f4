//! The state of a flow at its outlet: the classes for which it is listed, and the number of the
//! *listing*.
//!
//! A flow is listed at most once per class. A flow that moves to another outlet begins a new listing,
//! and the former outlet's entries are void.

use weft_xgress::Class;

/// The present listing of a flow.
#[derive(Debug, Default)]
pub struct Listing {
    number: u32,
    listed: [bool; 2],
}

fn place(class: Class) -> usize {
    match class {
        Class::Ack => 0,
        Class::Payload => 1,
    }
}

impl Listing {
    /// The number of the listing.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// True if this is the number of the present listing.
    #[must_use]
    pub fn is(&self, number: u32) -> bool {
        self.number == number
    }

    /// Notes that the flow is listed for a class: true if it was not, so that the caller lists it.
    #[must_use]
    pub fn begin(&mut self, class: Class) -> bool {
        self.listed.get_mut(place(class)).is_some_and(|listed| !std::mem::replace(listed, true))
    }

    /// Notes whether the flow stays listed for a class.
    pub fn keep(&mut self, class: Class, stays: bool) {
        if let Some(listed) = self.listed.get_mut(place(class)) {
            *listed = stays;
        }
    }

    /// Begins another listing, in which the flow is listed for nothing yet.
    pub fn renew(&mut self) {
        *self = Self { number: self.number.wrapping_add(1), listed: [false; 2] };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_listed_once_per_class_and_listing() {
        let mut listing = Listing::default();
        assert!(listing.begin(Class::Ack) && listing.begin(Class::Payload));
        assert!(!listing.begin(Class::Ack) && !listing.begin(Class::Payload));
        listing.keep(Class::Ack, false);
        assert!(listing.begin(Class::Ack) && !listing.begin(Class::Payload));
        let before = listing.number();
        listing.renew();
        assert!(!listing.is(before) && listing.begin(Class::Payload));
    }
}
