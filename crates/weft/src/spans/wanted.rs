//! Settings of the export in the environment.

use std::time::Duration;

use reqwest::Url;

/// Default time for the collector's answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Default address of the collector.
const COLLECTOR: &str = "http://localhost:4318";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
/// Names of samplers, and whether they take an argument.
const SAMPLERS: [(&str, bool); 6] = [
    ("always_on", false),
    ("always_off", false),
    ("traceidratio", true),
    ("parentbased_always_on", false),
    ("parentbased_always_off", false),
    ("parentbased_traceidratio", true),
];

/// Settings of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Time for the collector's answer.
    pub(super) timeout: Duration,
    /// File with the authorities of the collector, in place of the system's.
    pub(super) authorities: Option<String>,
    /// Address of the collector, without secrets.
    pub(super) shown: String,
    /// True if the environment names the service.
    pub(super) is_named: bool,
}

/// The settings that are needed before the exporter reads the rest (endpoint, headers, compression,
/// sampler). `None` if no export is wanted.
pub(super) fn read(env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Wanted>, String> {
    // A variable for traces overrides the one for all signals.
    let otlp = |what: &str| {
        let own = format!("OTEL_EXPORTER_OTLP_TRACES_{what}");
        let all = format!("OTEL_EXPORTER_OTLP_{what}");
        [own, all].into_iter().find_map(|name| env(&name).map(|value| (name, value)))
    };
    if env("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let endpoint = otlp("ENDPOINT");
    match env(EXPORTER).as_deref().map(str::trim) {
        Some("otlp") => {}
        None if endpoint.is_some() => {}
        None | Some("none") => return Ok(None),
        Some(other) => {
            return Err(format!("{EXPORTER} is `{other}`; weft knows `otlp` and `none`"));
        }
    }
    if let Some((name, protocol)) = otlp("PROTOCOL").filter(|(_, it)| it.trim() != "http/protobuf")
    {
        return Err(format!(
            "{name} is `{protocol}`; weft speaks `http/protobuf`, for which collectors usually \
             have port 4318"
        ));
    }
    check_sampler(env)?;
    let timeout = match otlp("TIMEOUT") {
        None => TIMEOUT,
        Some((name, value)) => match value.trim().parse() {
            Ok(millis @ 1..) => Duration::from_millis(millis),
            _ => return Err(format!("{name} is `{value}`, which is no number of milliseconds")),
        },
    };
    let (name, address) = endpoint.unwrap_or_else(|| (String::new(), COLLECTOR.to_owned()));
    Ok(Some(Wanted {
        timeout,
        authorities: otlp("CERTIFICATE").map(|(_, file)| file),
        shown: shown(&address)
            .ok_or_else(|| format!("{name} is not the URL of a collector, like {COLLECTOR}"))?,
        is_named: env("OTEL_SERVICE_NAME").is_some()
            || env("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|it| it.contains("service.name=")),
    }))
}

/// Checks the sampler's name: with a misspelled name the exporter would record every span.
fn check_sampler(env: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    let Some(sampler) = env(SAMPLER) else { return Ok(()) };
    let Some((_, takes_share)) = SAMPLERS.iter().find(|(name, _)| *name == sampler) else {
        let names = SAMPLERS.map(|(name, _)| name).join(", ");
        return Err(format!("{SAMPLER} is `{sampler}`; there are {names}"));
    };
    let share = env("OTEL_TRACES_SAMPLER_ARG").unwrap_or_default();
    match share.parse::<f64>() {
        Ok(0.0..=1.0) => Ok(()),
        _ if !takes_share => Ok(()),
        _ => Err(format!(
            "{SAMPLER} is `{sampler}`, and OTEL_TRACES_SAMPLER_ARG, the share of traces, is \
             `{share}`; it must be a number from 0 to 1"
        )),
    }
}

/// An address for the log, without password and query.
fn shown(address: &str) -> Option<String> {
    let url = Url::parse(address.trim()).ok()?;
    let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https"))?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{host}{port}", url.scheme()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Result<Option<Wanted>, String> {
        read(&|name| {
            let value = set.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            value.map(str::to_owned)
        })
    }

    const ON: (&str, &str) = ("OTEL_TRACES_EXPORTER", "otlp");
    const AT: (&str, &str) =
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@c.example:4318/x?k=s");

    #[test]
    fn spans_are_off_unless_they_are_asked_for() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("OTEL_SERVICE_NAME", "mine")]), Ok(None));
        assert_eq!(of(&[AT, ("OTEL_TRACES_EXPORTER", "none")]), Ok(None));
        assert_eq!(of(&[AT, ON, ("OTEL_SDK_DISABLED", "TRUE")]), Ok(None));
        let usual = of(&[ON]).unwrap().unwrap();
        assert_eq!((usual.shown.as_str(), usual.timeout), (COLLECTOR, TIMEOUT));
        assert!(!usual.is_named && usual.authorities.is_none());
        assert!(of(&[AT]).unwrap().is_some());
        assert!(
            of(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c.example/v1/traces")])
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn secrets_of_an_address_are_not_shown_and_traces_go_first() {
        let wanted = of(&[
            AT,
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "5"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "7"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=a,service.name=mine"),
        ]);
        let wanted = wanted.unwrap().unwrap();
        assert_eq!(wanted.shown, "http://c.example:4318");
        assert_eq!(wanted.timeout, Duration::from_millis(7));
        assert_eq!(wanted.authorities.as_deref(), Some("ca.pem"));
        assert!(wanted.is_named);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        let says = |set: &[(&str, &str)], words: &[&str]| {
            let problem = of(set).unwrap_err();
            words.iter().for_each(|word| assert!(problem.contains(word), "{word}: {problem}"));
        };
        says(&[("OTEL_TRACES_EXPORTER", "zipkin")], &["zipkin", "otlp", "none"]);
        says(
            &[ON, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            &["_PROTOCOL", "grpc", "http/protobuf"],
        );
        says(&[ON, ("OTEL_TRACES_SAMPLER", "sometimes")], &["sometimes", "parentbased_always_on"]);
        let ratio = ("OTEL_TRACES_SAMPLER", "traceidratio");
        says(&[ON, ratio], &["OTEL_TRACES_SAMPLER_ARG", "from 0 to 1"]);
        for share in ["2", "-1", "NaN", "much"] {
            says(&[ON, ratio, ("OTEL_TRACES_SAMPLER_ARG", share)], &[share, "from 0 to 1"]);
        }
        assert!(of(&[ON, ratio, ("OTEL_TRACES_SAMPLER_ARG", "0.25")]).unwrap().is_some());
        says(&[ON, ("OTEL_EXPORTER_OTLP_TIMEOUT", "1s")], &["_TIMEOUT", "1s", "milliseconds"]);
        for wrong in ["collector:4318", "grpc://c.example", "http://", "4318"] {
            says(
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", wrong)],
                &["OTEL_EXPORTER_OTLP_ENDPOINT", "URL"],
            );
        }
    }
}
