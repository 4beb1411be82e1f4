//! The source of codes of a second factor.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// The source of codes of a second factor.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CodeSource {
    /// Code of the second factor (TOTP), for the first login that needs one. Without it, and for later codes, the
    /// command asks at its terminal
    #[arg(long, value_name = "CODE", env = "WEFT_CODE", hide_env_values = true)]
    pub(crate) code: Option<String>,
    /// File with the secret of the second factor, base32 or an otpauth:// URL: the command makes the codes itself
    /// and asks nobody, as a service needs it. A command with several identities takes IDENTITY=FILE for each of
    /// them (laptop.json=laptop.totp), or a folder with NAME.totp for NAME.json. Whoever reads the file and the
    /// identity has both factors
    #[arg(
        long,
        value_name = "[IDENTITY=]FILE",
        env = "WEFT_TOTP_SECRET_FILE",
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) totp_secret_file: Vec<PathBuf>,
}

impl CodeSource {
    /// The source for commands without flags for it, from the environment.
    pub(crate) fn of_environment() -> Self {
        Self {
            code: std::env::var("WEFT_CODE").ok().filter(|code| !code.is_empty()),
            totp_secret_file: std::env::var_os("WEFT_TOTP_SECRET_FILE")
                .filter(|path| !path.is_empty())
                .map(Into::into)
                .into_iter()
                .collect(),
        }
    }
}
