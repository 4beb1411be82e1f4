//! The arguments of the commands about logins at controllers, such as `weft login`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use super::codes::CodeSource;
use super::printing::Output;
use super::tunnels::SecondToken;
use crate::session::{LoginChoice, LoginFolder, saved_logins};

/// Arguments of `weft login`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft login ctrl.example:1280 --username admin\n  \
                  weft login --identity laptop.json\n  \
                  weft login prod.example:1280 --name prod\n  \
                  weft login ctrl.example:1280 -u alice --code 123456     a second factor without a question\n  \
                  weft login ctrl.example:1280 --ext-jwt token.jwt     the token of an identity provider\n  \
                  weft login ctrl.example:1280 --browser     on the controller's page, in a browser\n  \
                  weft login ctrl.example:1280 --device      the same in a browser of another machine, with a code\n\n\
                  Where the controller announces OpenID Connect, a login is refreshed by itself. It ends a day after the last\n\
                  command, or with `weft logout`. The file with its tokens (mode 0600) is as good as the login. Elsewhere a\n\
                  login ends half an hour after the last command.\n\n\
                  A login by certificate is renewed by itself when it has ended. If that needs a code of a \
                  second factor,\nthe command that needs the login asks at its terminal, or takes the code from \
                  WEFT_CODE or\nWEFT_TOTP_SECRET_FILE.")]
pub(crate) struct LoginArgs {
    /// The controller: https://host:port, or host:port [default: the one the identity file names,
    /// or https://localhost:1280]
    #[arg(value_name = "URL", env = "WEFT_CTRL_URL", hide_env = true)]
    pub(crate) url: Option<String>,
    /// User name
    #[arg(long, short = 'u', value_name = "NAME", default_value = "admin", env = "WEFT_USERNAME")]
    pub(crate) username: String,
    /// Password; asked for when absent
    #[arg(
        long,
        short = 'p',
        value_name = "PASSWORD",
        env = "WEFT_PASSWORD",
        hide_env_values = true
    )]
    pub(crate) password: Option<String>,
    /// Log in with the certificate of this identity file, as `weft enroll` writes it
    #[arg(
        long,
        short = 'i',
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["cert", "token"]
    )]
    pub(crate) identity: Option<PathBuf>,
    /// Log in with this certificate (PEM, its chain behind it)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Log in with a token of an external signer: the file that holds it, or `-` for standard input
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["identity", "cert", "token"]
    )]
    pub(crate) ext_jwt: Option<PathBuf>,
    /// Log in on the controller's page, in a browser of this machine
    #[arg(long, conflicts_with_all = ["device", "identity", "cert", "token", "ext_jwt"])]
    pub(crate) browser: bool,
    /// Log in on the controller's page in any browser, with a code that is shown here
    #[arg(long, conflicts_with_all = ["identity", "cert", "token", "ext_jwt"])]
    pub(crate) device: bool,
    #[command(flatten)]
    pub(crate) codes: CodeSource,
    /// File with the token of an external JWT signer that the controller asks for as second factor, for instance
    /// company=/run/tokens/weft; somebody else renews it
    #[arg(long, value_name = "SIGNER=FILE", env = "WEFT_SECOND_TOKEN", hide_env_values = true)]
    pub(crate) second_token: Option<SecondToken>,
    /// Use an API session that was made elsewhere, by its token
    #[arg(long, value_name = "TOKEN", env = "WEFT_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Name of this login [default: the controller's host and port]
    #[arg(long, short = 'n', value_name = "LOGIN")]
    pub(crate) name: Option<String>,
    /// CA certificates to trust (PEM file); by default they are fetched from the controller and
    /// shown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca: Option<PathBuf>,
    /// Trust the fetched certificates without asking
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) folder: LoginFolder,
}

/// Arguments of `weft logout`.
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// Name of the login [default: the current one]
    #[arg(value_name = "LOGIN", add = ArgValueCompleter::new(saved_logins))]
    pub(crate) name: Option<String>,
    /// End all logins
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) folder: LoginFolder,
}

/// Arguments of `weft logins`.
#[derive(Debug, Args)]
pub(crate) struct LoginsArgs {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) folder: LoginFolder,
}

/// Arguments of `weft use`.
#[derive(Debug, Args)]
pub(crate) struct UseArgs {
    /// Name of the login
    #[arg(value_name = "LOGIN", add = ArgValueCompleter::new(saved_logins))]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) folder: LoginFolder,
}

/// Arguments of `weft status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}
