//! Signs tickets with the keys of this network.

use weft_model::entity::Enrollment;

use crate::handle::Auth;
use crate::tickets::Tickets;

impl Auth {
    /// The signed ticket of an enrollment.
    pub fn enrollment_jwt(&self, enrollment: &Enrollment) -> String {
        let addresses = &self.kernel().settings().addresses;
        let snapshot = self.kernel().snapshot();
        let others = self.other_members(&snapshot).filter(|member| member.is_present());
        let others = others.flat_map(|member| member.ctrl_addresses.iter().cloned());
        let others = others.filter(|address| !addresses.ctrl.contains(address));
        let ctrls = addresses.ctrl.iter().cloned().chain(others).collect();
        self.0.tickets.of(enrollment, (&addresses.api, ctrls), &self.keys())
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
