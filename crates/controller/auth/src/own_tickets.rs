//! Signs tickets with the keys of this network.

use weft_model::entity::Enrollment;

use crate::handle::Auth;
use crate::tickets::Tickets;

impl Auth {
    /// The signed ticket of an enrollment.
    pub fn enrollment_jwt(&self, enrollment: &Enrollment) -> String {
        self.0.tickets.of(enrollment, &self.kernel().settings().addresses, &self.keys())
    }

    /// The ticket of the network, which anybody may use to trust it.
    pub fn network_jwt(&self) -> String {
        let address = &self.kernel().settings().addresses.api;
        self.0.tickets.of_network(address, &self.keys(), || self.kernel().ids().token().to_string())
    }

    /// The ticket with which holders of certificates of a CA enroll.
    pub fn ca_jwt(&self, ca: &str) -> String {
        Tickets::of_ca(&self.kernel().settings().addresses.api, ca, &self.keys())
    }
}
