//! The arguments of `weft signer`, which makes and tests external JWT signers.

use clap::{Args, Subcommand};

use super::printing::Output;
use crate::session::LoginChoice;

/// Arguments of `weft signer`.
#[derive(Debug, Args)]
pub(crate) struct SignerArgs {
    #[command(subcommand)]
    pub(crate) command: SignerCommand,
}

/// Subcommands of `weft signer`.
#[derive(Debug, Subcommand)]
pub(crate) enum SignerCommand {
    /// Make a signer from the description that an identity provider publishes
    ///
    /// Reads /.well-known/openid-configuration of the provider and its keys, from this machine, says what is
    /// missing, and makes an external JWT signer of it. `weft update signer` changes it later.
    Add(SignerAddArgs),
    /// Say check by check why a token is good for logging in, or is not
    ///
    /// The controller makes the checks that a login makes, and logs nobody in. The exit status is 5 if the token
    /// is not good.
    Test(SignerTestArgs),
}

/// Arguments of `weft signer add`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weft signer add https://keycloak.example/realms/staff --audience weft\n  \
                  weft signer add https://accounts.google.com --audience CLIENT-ID --client-id CLIENT-ID --claim /email --target-token ID\n  \
                  weft signer add https://token.actions.githubusercontent.com --name github --audience weft"
)]
pub(crate) struct SignerAddArgs {
    /// The issuer of the provider, or the URL of its description
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Name of the signer [default: the host of the issuer]
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What the provider writes into `aud` of its tokens: for ID tokens the client id, for access tokens the name of
    /// an API
    #[arg(long, value_name = "TEXT")]
    pub(crate) audience: Option<String>,
    /// The id of the programs that log in, at the provider
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Scopes that the programs ask for
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    /// The claim that names the identity (JSON pointer)
    #[arg(long, value_name = "POINTER", default_value = "/sub")]
    pub(crate) claim: String,
    /// The claim holds the id of the identity, not its external id
    #[arg(long)]
    pub(crate) by_id: bool,
    /// The token that the programs send: ACCESS or ID
    #[arg(long, value_name = "TOKEN", default_value = "ACCESS", ignore_case = true, value_parser = ["ACCESS", "ID"])]
    pub(crate) target_token: String,
    /// Say what is missing, and make nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Arguments of `weft signer test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft signer test - < token.jwt\n  \
                  kubectl create token robot --audience weft | weft signer test -")]
pub(crate) struct SignerTestArgs {
    /// The token, or `-` to read it from standard input, which keeps it out of the list of processes
    #[arg(value_name = "TOKEN", allow_hyphen_values = true)]
    pub(crate) token: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}
