//! Commands on one identity: its enrollment, its password, its own configs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::printing::Output;
use crate::entity::complete;
use crate::session::LoginChoice;

/// Arguments of `weft second-factor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Every controller of the file is tried, until one sets the second factor up.\n\nExamples:\n  \
                  weft second-factor --identity laptop.json\n  \
                  weft second-factor                                  of the administrator who is logged in\n  \
                  weft second-factor -i laptop.json --code 123456     completes one that was begun\n  \
                  weft second-factor -i server.json --totp-secret-file server.totp\n      \
                  the same, for a service whose secret was written to this file"
)]
pub(crate) struct SecondFactorArgs {
    /// Identity file [default: none, the second factor is that of the login, `weft status` shows whose]
    #[arg(long, short = 'i', value_name = "FILE", env = "WEFT_IDENTITY", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,
    /// Code of the app, which completes a second factor that was begun; without it the command asks at its terminal
    #[arg(long, value_name = "CODE", env = "WEFT_CODE", hide_env_values = true)]
    pub(crate) code: Option<String>,
    /// File into which the secret of a second factor that was begun was written, base32 or an otpauth:// URL: its
    /// code completes the second factor
    #[arg(
        long,
        value_name = "FILE",
        env = "WEFT_TOTP_SECRET_FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with = "code"
    )]
    pub(crate) totp_secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Arguments of `weft jwt`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft jwt identity laptop -o laptop.jwt\n  weft jwt network")]
pub(crate) struct JwtArgs {
    #[command(subcommand)]
    pub(crate) of: JwtOf,
    /// Write the token to this file instead of printing it
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath, global = true)]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite a file that exists
    #[arg(long, global = true)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Entities with an enrollment token.
#[derive(Debug, Subcommand)]
pub(crate) enum JwtOf {
    /// Token of an identity that is not enrolled yet
    Identity {
        /// Name or id of the identity
        #[arg(value_name = "NAME", add = complete::names("identities", ""))]
        which: String,
    },
    /// Token of an edge router that is not enrolled yet
    EdgeRouter {
        /// Name or id of the router
        #[arg(value_name = "NAME", add = complete::names("edge-routers", ""))]
        which: String,
    },
    /// Token of a transit router that is not enrolled yet
    TransitRouter {
        /// Name or id of the router
        #[arg(value_name = "NAME", add = complete::names("transit-routers", ""))]
        which: String,
    },
    /// Token of an enrollment
    Enrollment {
        /// Id of the enrollment
        #[arg(value_name = "ID")]
        which: String,
    },
    /// Token of a certificate authority whose identities enroll by themselves
    Ca {
        /// Name or id of the authority
        #[arg(value_name = "NAME", add = complete::names("cas", ""))]
        which: String,
    },
    /// Token of the network, by which programs find the controller and trust it
    Network,
}

/// Arguments of `weft password`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weft password                    changes the password of the login\n  \
                  weft password --identity alice   sets the password of alice, the first one or another"
)]
pub(crate) struct PasswordArgs {
    /// Name or id of the identity whose password is set [default: the identity of the login]
    #[arg(long, short = 'i', value_name = "NAME", add = complete::names("identities", ""))]
    pub(crate) identity: Option<String>,
    /// User name of the password [default: the current user name, or else the name of the identity]
    #[arg(long, short = 'u', value_name = "NAME", requires = "identity")]
    pub(crate) username: Option<String>,
    /// The current password of the login; asked for when absent
    #[arg(long, value_name = "PASSWORD", env = "WEFT_PASSWORD", hide_env_values = true)]
    pub(crate) current_password: Option<String>,
    /// The new password; asked for when absent
    #[arg(long, value_name = "PASSWORD", env = "WEFT_NEW_PASSWORD", hide_env_values = true)]
    pub(crate) new_password: Option<String>,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Arguments of `weft override`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft override set laptop web web-at-home\n  \
                  weft override list laptop")]
pub(crate) struct OverrideArgs {
    #[command(subcommand)]
    pub(crate) command: OverrideCommand,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Subcommands of `weft override`.
#[derive(Debug, Subcommand)]
pub(crate) enum OverrideCommand {
    /// List the configs that an identity sees in place of those of services
    List {
        /// Name or id of the identity
        #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
        identity: String,
    },
    /// Let an identity see this config for a service, in place of the service's own of the same type
    Set {
        /// Name or id of the identity
        #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
        identity: String,
        /// Name or id of the service
        #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
        service: String,
        /// Name or id of the config
        #[arg(value_name = "CONFIG", add = complete::names("configs", ""))]
        config: String,
    },
    /// Let an identity see the service's own config again
    Remove {
        /// Name or id of the identity
        #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
        identity: String,
        /// Name or id of the service
        #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
        service: String,
        /// Name or id of the config
        #[arg(value_name = "CONFIG", add = complete::names("configs", ""))]
        config: String,
    },
}

/// Arguments of `weft enroll`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft enroll laptop.jwt      writes laptop.json\n  \
                        weft enroll anna.jwt --cert anna.pem --key anna.key     with a certificate of one's own authority\n  \
                        weft enroll company.jwt --cert anna.pem --key anna.key  with the token of the authority\n  \
                        weft enroll bob.jwt         chooses bob's password, and writes no file\n  \
                        weft enroll network.jwt --signer company -o anna.json\n      \
                        for a person with an account at the company's provider: there is no certificate, and `weft dial`,\n      \
                        `weft host` and `weft tunnel run` show where to log in\n  \
                        weft enroll network.jwt --token-file /var/run/secrets/tokens/weft -o robot.json\n      \
                        for a program whose token somebody else renews, such as Kubernetes\n\n\
                        The token says in which way it enrolls; `weft jwt` shows tokens. With --cert the identity file \
                        names the two\nfiles: programs of weft use renewed ones that are put in their place.\n\
                        `weft jwt network -o network.jwt` writes the token of the network, which is no secret.")]
pub(crate) struct EnrollArgs {
    /// File with the enrollment token
    #[arg(value_name = "TOKENFILE")]
    pub(crate) jwt: PathBuf,
    /// Identity file to write [default: the token file with the ending .json]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite an identity file that exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Certificate of a third-party CA, its chain behind it (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Key of the certificate (PEM); it is not sent
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Name that the new identity would like to have, with the token of a CA
    #[arg(long, short = 'n', value_name = "NAME", requires = "cert")]
    pub(crate) name: Option<String>,
    /// The password to choose, with a token for one; asked for when absent
    #[arg(long, value_name = "PASSWORD", env = "WEFT_NEW_PASSWORD", hide_env_values = true)]
    pub(crate) new_password: Option<String>,
    /// With the token of the network: the external JWT signer at whose provider the person logs in, by name or id
    /// [default: the only one that names an address for logins]
    #[arg(long, value_name = "SIGNER", conflicts_with = "token_file")]
    pub(crate) signer: Option<String>,
    /// With the token of the network: the file that has the token of the identity provider, and is read at every login
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
}
