//! placeholder
/// x
#[derive(Debug, thiserror::Error)]
pub enum TokenError {}
