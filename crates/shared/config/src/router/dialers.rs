//! Dialers of applications: `dialers` (docs/protocol/config.md 5.5).

use crate::section::Section;
use crate::suggest;
use crate::xgress_options::XgressOptions;

/// A dialer of applications.
#[derive(Debug, Clone, PartialEq)]
pub struct XgressDialer {
    /// The binding.
    pub binding: DialerBinding,
    /// Flow control of its circuits.
    pub options: XgressOptions,
}

/// The bindings of dialers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DialerBinding {
    /// TCP, TLS or UDP by the address of the terminator.
    Transport,
    /// UDP.
    TransportUdp,
    /// SDKs that host at this router.
    Edge,
    /// Like `transport`, for services of edge identities.
    EdgeTransport,
    /// The tunneler of this router.
    Tunnel,
}

impl DialerBinding {
    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Reads `dialers`; of several with one binding the last counts. An unknown binding is no mistake,
/// because no terminator names it (the original accepts any).
pub(super) fn read(root: &Section<'_>) -> Vec<XgressDialer> {
    let mut out: Vec<XgressDialer> = Vec::new();
    for item in root.list("dialers") {
        let Some(section) = item.section() else { continue };
        let binding = section.required_text("binding", "[dialer] must provide [binding]");
        section.describe("binding", "word", "", DIALER_WORDS.join(", "));
        let options = XgressOptions::read_dialer(&section.section("options"));
        let Some(binding) = dialer_binding(&section, &binding) else { continue };
        out.retain(|dialer| dialer.binding != binding);
        out.push(XgressDialer { binding, options });
    }
    out
}

/// The bindings that `dialers` may name.
const DIALER_WORDS: [&str; 7] =
    ["transport", "transport_udp", "edge", "edge_transport", "tunnel", "proxy", "proxy_udp"];

const DIALERS: [(&str, DialerBinding); 5] = [
    ("transport", DialerBinding::Transport),
    ("transport_udp", DialerBinding::TransportUdp),
    ("edge", DialerBinding::Edge),
    ("edge_transport", DialerBinding::EdgeTransport),
    ("tunnel", DialerBinding::Tunnel),
];

fn dialer_binding(section: &Section<'_>, name: &str) -> Option<DialerBinding> {
    if let Some((_, binding)) = DIALERS.iter().find(|(known, _)| *known == name) {
        return Some(*binding);
    }
    let text = match name {
        "" => return None,
        "udp" => {
            let text = "`udp` is the former name of `transport_udp` and taken as that";
            section.warn("binding", text);
            return Some(DialerBinding::TransportUdp);
        }
        "proxy" | "proxy_udp" => format!("`{name}` dials nothing, it only listens"),
        other => match suggest::nearest(other, DIALERS.iter().map(|(known, _)| *known)) {
            Some(near) => {
                format!("there is no dialer `{other}`, it is ignored; did you mean `{near}`?")
            }
            None => format!("there is no dialer `{other}`, it is ignored"),
        },
    };
    section.warn("binding", text);
    None
}
