//! Over which interfaces a service's clients come: `interfaces.v1` (docs/protocol/tunnel.md 3.7).

pub(super) const INTERFACES_V1: &str = "interfaces.v1";

/// The interfaces over which a program that diverts packets does so for a service; none if it is to
/// choose.
///
/// # Errors
/// When the config cannot be used.
#[cfg(target_os = "linux")]
pub(crate) fn interfaces(configs: &super::Configs) -> super::written::Result<Option<Vec<String>>> {
    #[derive(serde::Deserialize)]
    struct Written {
        interfaces: Vec<String>,
    }
    let written = super::written::written::<Written>(configs, INTERFACES_V1)?;
    Ok(written.map(|written| written.interfaces))
}
