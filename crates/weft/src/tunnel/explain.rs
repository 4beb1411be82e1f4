//! Explanations of failed dials and binds, with advice.

use weft_sdk::{Endpoint, Error, Service};
use weft_tunnel::{Configs, Intercept, InterceptAddress};

use crate::failure::{Failure, Result, chain};

/// The failure of a command.
pub(super) fn failure(error: &Error) -> Failure {
    let text = chain(error);
    match error {
        Error::ServiceUnknown { .. } => Failure::not_found(text),
        Error::NotPermitted { .. } => Failure::not_logged_in(text),
        Error::Posture { .. } => Failure::refused(text)
            .and("hint: `weft why IDENTITY SERVICE` says which posture checks fail, and why"),
        Error::NotLoggedIn(cause) if cause.is_temporary() => Failure::unreachable(text),
        // The reason says what helps.
        Error::NotLoggedIn(cause) if matches!(**cause, weft_client::Error::NoToken { .. }) => {
            Failure::not_logged_in(text)
        }
        Error::NotLoggedIn(_) => Failure::not_logged_in(text)
            .and("hint: the identity may be deleted or disabled, or its certificate has expired"),
        Error::SecondFactor(problem) => Failure::of_factor(text, problem),
        Error::Controller(cause) if cause.is_temporary() => Failure::unreachable(text),
        Error::NoEdgeRouters { .. } => Failure::unreachable(text)
            .and("hint: `weft list edge-routers` says which are online; edge router policies say who may use them"),
        Error::Timeout { .. } => Failure::unreachable(text),
        Error::NoTerminators { service, .. } => Failure::refused(text).and(format!(
            "hint: something has to host it: weft host {service} ADDRESS --identity FILE, or a \
             tunneler and a host.v1 config"
        )),
        Error::Refused { .. } | Error::Encryption { .. } | Error::Unproved { .. } => Failure::refused(text),
        _ => Failure::new(text),
    }
}

/// Use of a service.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Dial,
    Bind,
}

impl Use {
    fn may(self, service: &Service) -> bool {
        match self {
            Self::Dial => service.can_dial,
            Self::Bind => service.can_bind,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Dial => "dial",
            Self::Bind => "host",
        }
    }
}

/// The failure of a dial that names no address to its host, if the host needs one.
pub(super) async fn lacks_address(
    endpoint: &Endpoint,
    name: &str,
    error: &Error,
) -> Option<Failure> {
    let refused = matches!(error, Error::Refused { .. } | Error::NoTerminators { .. });
    let asks = ["required", "not provided", "missing"];
    let text = chain(error);
    if !refused || !text.contains("dst_") || !asks.iter().any(|word| text.contains(word)) {
        return None;
    }
    let services = endpoint.services().await.unwrap_or_default();
    let service = services.iter().find(|service| service.name == name);
    Some(needs_address(name, service.and_then(first_address)))
}

fn needs_address(name: &str, example: Option<String>) -> Failure {
    let example = example.map(|at| format!(", for example --to {at}")).unwrap_or_default();
    Failure::refused(format!(
        "the host of `{name}` connects to the address that its client names, and this dial names none"
    ))
    .and(format!("hint: weft dial {name} --to HOST:PORT{example}"))
}

/// An address at which clients of a service are intercepted, as `--to` takes it.
fn first_address(service: &Service) -> Option<String> {
    let data = service.configs.get("intercept.v1")?;
    let text = serde_json::Value::Object(data.clone()).to_string();
    let configs = Configs::from([("intercept.v1".to_owned(), text)]);
    let intercept = Intercept::read(&configs).ok()??;
    let port = intercept.port_ranges.first()?.low;
    let host = intercept.addresses.iter().find_map(|address| match address {
        InterceptAddress::Name(name) => Some(name.clone()),
        InterceptAddress::Network(network) if network.is_single() => {
            Some(network.address().to_string())
        }
        _ => None,
    })?;
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// The failure that concerns one service; for an unknown name, with the names that exist.
pub(super) async fn of_service(endpoint: &Endpoint, name: &str, of: Use, error: &Error) -> Failure {
    let failure = failure(error);
    if !matches!(error, Error::ServiceUnknown { .. } | Error::NotPermitted { .. }) {
        return failure;
    }
    match endpoint.services().await {
        Ok(services) => failure.and(hint(name, of, &endpoint.identity_name(), &services)),
        Err(_) => failure,
    }
}

/// The service with this name, if the identity may use it this way.
pub(super) fn check(endpoint: &Endpoint, services: &[Service], name: &str, of: Use) -> Result<()> {
    let Some(known) = services.iter().find(|service| service.name == name) else {
        let text = format!(
            "there is no service `{name}` that this identity may use; check its service policies"
        );
        let hint = hint(name, of, &endpoint.identity_name(), services);
        return Err(Failure::not_found(text).and(hint));
    };
    if of.may(known) {
        return Ok(());
    }
    let action = if of == Use::Dial { "dial" } else { "bind" };
    let text = format!("this identity may not {action} `{name}`; check its service policies");
    Err(Failure::not_logged_in(text).and(hint(name, of, &endpoint.identity_name(), services)))
}

fn hint(name: &str, of: Use, identity: &str, services: &[Service]) -> String {
    const SHOWN: usize = 8;
    let usable = || services.iter().filter(|service| of.may(service)).map(|one| one.name.as_str());
    let word = of.word();
    if let Some(near) = weft_config::nearest(name, usable().filter(|known| *known != name)) {
        return format!("hint: did you mean `{near}`?");
    }
    let names: Vec<&str> = usable().take(SHOWN).collect();
    match (names.len(), usable().count()) {
        (0, _) => format!(
            "hint: identity `{identity}` may {word} no service at all; `weft why {identity} {name}` says why"
        ),
        (shown, all) if all > shown => {
            format!(
                "hint: identity `{identity}` may {word} {} and {} more",
                names.join(", "),
                all - shown
            )
        }
        _ => format!("hint: identity `{identity}` may {word} {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, can_dial: bool) -> Service {
        let mut service = Service::default();
        (service.name, service.can_dial) = (name.into(), can_dial);
        service
    }

    #[test]
    fn a_dial_without_an_address_is_told_how_to_name_one() {
        let config = |address: &str| {
            let text = format!(
                r#"{{"protocols":["tcp"],"addresses":["*.x.example","{address}"],"portRanges":[{{"low":22,"high":23}}]}}"#
            );
            let data = serde_json::from_str(&text).unwrap();
            let configs = [("intercept.v1".to_owned(), data)].into_iter().collect();
            let mut service = service("ssh", true);
            service.configs = configs;
            first_address(&service)
        };
        assert_eq!(config("ssh.example").as_deref(), Some("ssh.example:22"));
        assert_eq!(config("fd00::1").as_deref(), Some("[fd00::1]:22"));
        assert_eq!(config("10.0.0.0/8"), None);
        assert_eq!(first_address(&service("ssh", true)), None);
        let told = needs_address("ssh", Some("ssh.example:22".to_owned()));
        assert!(told.to_string().contains("this dial names none"), "{told}");
    }

    #[test]
    fn the_names_that_can_be_used_are_told() {
        let services = [service("web", true), service("wiki", true), service("wed", false)];
        let hint = |name, of| hint(name, of, "me", &services);
        assert_eq!(hint("wb", Use::Dial), "hint: did you mean `web`?");
        assert_eq!(hint("zzzzzz", Use::Dial), "hint: identity `me` may dial web, wiki");
        assert!(hint("web", Use::Bind).contains("may host no service at all"));
        let many: Vec<Service> = (0..20).map(|n| service(&format!("s{n}"), true)).collect();
        assert!(super::hint("zzzzzz", Use::Dial, "me", &many).ends_with("s7 and 12 more"));
    }
}
