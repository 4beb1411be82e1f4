//! What is said once a network is up.

use std::time::Duration;

use crate::{home::Home, pki, verify::Measured};

/// Where everything is.
pub(super) struct Facts<'a> {
    pub(super) home: &'a Home,
    /// `host:port` of controller and router.
    pub(super) controller: &'a str,
    pub(super) router: &'a str,
    /// The administrator's login name, if it is known.
    pub(super) username: Option<&'a str>,
    /// How long it took.
    pub(super) taken: Duration,
}

/// The banner.
pub(super) fn text(facts: &Facts<'_>) -> String {
    let weft = program();
    let root = facts.home.root().display();
    let user = facts.username.map(|name| format!(" --username {name}")).unwrap_or_default();
    let login = format!(
        "{weft} login https://{}{user} --ca {}",
        facts.controller,
        facts.home.pki(pki::ROOT_CERT).display()
    );
    format!(
        "\n\
         The network is up after {:.1} s.\n\
         \n\
         \x20 controller    https://{}    APIs, and the control plane for routers\n\
         \x20 edge router   tls://{}    where SDKs and tunnelers connect\n\
         \x20 configuration {}, {}\n\
         \x20 database      {}\n\
         \x20 keys          {root}/pki\n\
         \n\
         Next, in another terminal:\n\
         \x20 {login}\n\
         \x20 {weft} list edge-routers\n\
         \x20 {weft} verify traffic\n\
         \x20 {weft} create identity laptop --role-attributes staff -o laptop.jwt\n\
         \x20 {weft} enroll laptop.jwt        # laptop.json: for any SDK or tunneler\n\
         \x20 {weft} create service --help    # your first service\n\
         \n\
         Ctrl-C stops the network; the same command brings it back with everything kept.",
        facts.taken.as_secs_f32(),
        facts.controller,
        facts.router,
        facts.home.controller_file().display(),
        facts.home.router_file().display(),
        facts.home.database().display(),
    )
}

/// The self-check in one line.
pub(super) fn checked(measured: &Measured) -> String {
    let sealed = if measured.encrypted { "encrypted end to end" } else { "not encrypted" };
    format!(
        "{} each way through the overlay, checksums right, {sealed}, round trip {:.2} ms",
        crate::output::bytes(measured.bytes),
        measured.p50.as_secs_f64() * 1000.0
    )
}

/// This program as it was called, so that lines can be copied.
fn program() -> String {
    std::env::args().next().filter(|name| !name.is_empty()).unwrap_or_else(|| "weft".to_owned())
}
