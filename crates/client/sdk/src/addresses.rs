//! The addresses of routers in the lists of a controller, which tells none of a router that is offline.

use weft_contract::resource::service_session::SessionEdgeRouter;
use weft_wire::Address;

/// The address of a router; `None` if the controller tells no usable one, because the router is offline.
pub(crate) fn address_of(router: &SessionEdgeRouter) -> Option<Address> {
    let url = ["tls", "tcp", "wss"].iter().find_map(|known| router.address(known))?;
    let address = parse(url);
    if address.is_none() {
        tracing::debug!(router = %router.router.name, url, "a router's URL has no usable address");
    }
    address
}

/// True if one of these routers has a usable address.
pub(crate) fn are_usable(routers: &[SessionEdgeRouter]) -> bool {
    routers.iter().any(|router| address_of(router).is_some())
}

/// Parses `tls://host:port`, the form of controllers, or `tls:host:port`.
fn parse(url: &str) -> Option<Address> {
    url.replacen("://", ":", 1).trim_end_matches('/').parse().ok()
}

/// The reason why none of the routers of a service session can be used: a controller tells no usable
/// address of a router that is offline.
pub(crate) fn unusable(routers: &[SessionEdgeRouter]) -> String {
    const SHOWN: usize = 8;
    if routers.is_empty() {
        return "the controller names none; check its edge router policies".to_owned();
    }
    let names: Vec<&str> =
        routers.iter().take(SHOWN).map(|router| router.router.name.as_str()).collect();
    let more = match routers.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("none of its {} is online: {}{more}", routers.len(), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_spellings() {
        let address = parse("tls://router.example:3022").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("router.example", 3022));
        assert_eq!(parse("tls:router.example:3022"), Some(address));
        assert_eq!(parse("tls://[::1]:3022/").unwrap().host, "::1");
        assert_eq!(parse("wss://router.example:443").unwrap().scheme, weft_wire::Scheme::Wss);
        assert_eq!(parse("router"), None);
    }
}
