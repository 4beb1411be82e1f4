//! The interfaces over which a service's clients come: `interfaces.v1`
//! (docs/protocol/tunnel.md 3.7).

pub(super) const INTERFACES_V1: &str = "interfaces.v1";

/// The interfaces at which a diverting program intercepts a service; `None` if the program chooses.
///
/// # Errors
/// When the config has a mistake.
#[cfg(target_os = "linux")]
pub(crate) fn interfaces(configs: &super::Configs) -> super::written::Result<Option<Vec<String>>> {
    #[derive(serde::Deserialize)]
    struct Written {
        interfaces: Vec<String>,
    }
    let written = super::written::written::<Written>(configs, INTERFACES_V1)?;
    Ok(written.map(|written| written.interfaces))
}
