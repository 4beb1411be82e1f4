//! The arguments of `weft ca`, which makes third-party CAs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::printing::Output;
use crate::session::LoginChoice;

/// Arguments of `weft ca`.
#[derive(Debug, Args)]
pub(crate) struct CaArgs {
    #[command(subcommand)]
    pub(crate) command: CaCommand,
}

/// Subcommands of `weft ca`.
#[derive(Debug, Subcommand)]
pub(crate) enum CaCommand {
    /// Let identities log in with certificates of an authority of yours
    ///
    /// Reads the certificate of the authority, makes a CA of it, and proves with its key that it is yours; the key is
    /// not sent. Without the key, the command says how to prove it where the key is. `weft update ca` changes the CA
    /// later.
    Add(CaAddArgs),
}

/// Arguments of `weft ca add`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft ca add company.pem --key company.key --claim email\n  \
                  weft ca add company.pem --enroll-with-token      identities get tokens: weft create enrollment\n  \
                  weft ca add devices.pem --key devices.key --enroll-by-itself --identity-roles devices\n  \
                  weft ca add company.pem --dry-run\n\n\
                  An identity is found by the fingerprint of the certificate that it enrolled with, or, with \
                  --claim, by\nthe external id that its certificate names: then every new certificate of that name \
                  logs it in.")]
pub(crate) struct CaAddArgs {
    /// Certificate of the authority (PEM); authorities below it may stand behind it
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Key of the authority (PEM), to prove that it is yours
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) key: Option<PathBuf>,
    /// Name of the CA [default: the common name of its certificate]
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The part of a certificate that is the external id of an identity: common-name, email or uri
    #[arg(long, value_name = "PART", value_parser = ["common-name", "email", "uri"])]
    pub(crate) claim: Option<String>,
    /// Let certificates enroll identities that have an enrollment token of this CA
    #[arg(long)]
    pub(crate) enroll_with_token: bool,
    /// Let every certificate make a new identity by itself
    #[arg(long)]
    pub(crate) enroll_by_itself: bool,
    /// Name of identities that enroll by themselves, with `[caName]`, `[commonName]`, `[requestedName]`, `[identityId]`
    #[arg(long, value_name = "FORM", requires = "enroll_by_itself")]
    pub(crate) identity_name_format: Option<String>,
    /// Role attributes of identities that enroll by themselves
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', requires = "enroll_by_itself")]
    pub(crate) identity_roles: Vec<String>,
    /// Do not let identities log in with certificates of the CA yet
    #[arg(long)]
    pub(crate) no_login: bool,
    /// Say what would be made, and make nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}
