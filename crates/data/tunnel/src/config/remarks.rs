//! What a config that a controller accepts says, and hosts and tunnelers do not do.

use super::{CONNECT_TIMEOUT, Configs, HostConfig, Intercept, MOST_CONNECT_TIME, ProxyPort};

/// Remarks about the data of a config of this type, for the operator who writes it.
#[must_use]
pub fn remarks(kind: &str, data: &str) -> Vec<String> {
    let configs = Configs::from([(kind.to_owned(), data.to_owned())]);
    let mut out = Vec::new();
    match HostConfig::read(&configs) {
        Err(problem) => out.push(format!("{problem}; no service with this config is hosted")),
        Ok(hosts) => hosts.iter().for_each(|host| out.extend(of_host(kind, host))),
    }
    match Intercept::read(&configs) {
        Err(problem) => out.push(format!("{problem}; no service with this config is intercepted")),
        Ok(intercept) => {
            let left_out = intercept.into_iter().flat_map(|one| one.left_out);
            out.extend(left_out.map(|problem| problem.to_string()));
        }
    }
    if let Err(problem) = ProxyPort::read(&configs) {
        out.push(format!("{problem}; no port leads to a service with this config"));
    }
    out
}

fn of_host(kind: &str, host: &HostConfig) -> Vec<String> {
    let mut out: Vec<_> = host.left_out.iter().map(ToString::to_string).collect();
    if let Some(problem) = &host.checks_problem {
        out.push(format!("{problem}; no health checks are made"));
    }
    if host.connect_timeout > CONNECT_TIMEOUT {
        out.push(format!(
            "{kind}: listenOptions: {:?} for connecting to the application are cut to \
             {MOST_CONNECT_TIME:?} by tunnelers of identities, because routers wait 5s for a host, \
             and in routers to the time that the controller leaves a route (10s)",
            host.connect_timeout
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_done_as_it_is_written_is_remarked() {
        let host = |more: &str| {
            remarks("host.v1", &format!(r#"{{"protocol":"tcp","address":"a","port":1{more}}}"#))
        };
        let intercept = |more: &str| {
            let data = format!(
                r#"{{"protocols":["tcp"],"addresses":["a"],"portRanges":[{{"low":1,"high":1}}]{more}}}"#
            );
            remarks("intercept.v1", &data)
        };
        for (remarks, said) in [
            (host(""), None),
            (host(r#","allowedSourceAddresses":["10.0.0.0/8","lab.example"]"#), None),
            (host(r#","listenOptions":{"connectTimeoutSeconds":5}"#), None),
            (host(r#","listenOptions":{"connectTimeoutSeconds":30}"#), Some("cut to 4.5s")),
            (host(r#","listenOptions":{"connectTimeout":"1m"}"#), Some("60s for connecting")),
            (host(r#","listenOptions":{"connectTimeout":"5sx"}"#), Some("is hosted")),
            (host(r#","allowedSourceAddresses":["*.lab"]"#), Some("`*.lab` is left out")),
            (
                host(r#","portChecks":[{"interval":"5s","timeout":"1s","address":"a"}]"#),
                Some("no health checks are made"),
            ),
            (intercept(""), None),
            (
                intercept(r#","allowedSourceAddresses":["10.0.0.1","lab"]"#),
                Some("`lab` is left out"),
            ),
            (intercept(r#","allowedSourceAddresses":["lab"]"#), Some("is intercepted")),
            (remarks("proxy.v1", r#"{"port":0,"protocols":["tcp"]}"#), Some("no port leads")),
            (remarks("something.else", "{}"), None),
        ] {
            match said {
                None => assert_eq!(remarks, [] as [String; 0]),
                Some(said) => {
                    assert!(remarks.len() == 1 && remarks[0].contains(said), "{said}: {remarks:?}")
                }
            }
        }
    }
}
