//! Networks as documents, and single calls of the API.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use weft_contract::resource::change::SECTIONS;

use super::printing::Output;
use crate::entity::complete;
use crate::session::LoginChoice;

/// Arguments of `weft export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft export -o network.yaml\n  \
                  weft export --kinds services,configs,service-policies\n\n\
                  The file has no passwords, certificates, enrollments or terminators.\n\n\
                  Into a network of OpenZiti, in which everybody enrolls anew:\n  \
                  weft export --format openziti -o network.yaml\n  \
                  ziti ops import network.yaml --input-format yaml\n\
                  What that form has no place for is named on standard error.")]
pub(crate) struct ExportArgs {
    /// Only these kinds [default: all that files can hold]
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', add = complete::words(SECTIONS))]
    pub(crate) kinds: Vec<String>,
    /// Write to this file [default: standard output]. A file that exists is replaced only if it is an
    /// export (one in JSON for OpenZiti cannot be told from others, and stays)
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
    /// Whose document it is: one for `weft apply`, or one for `ziti ops import`
    #[arg(long = "format", value_name = "FORM", value_enum, default_value = "weft")]
    pub(crate) form: DocumentForm,
    /// Format of the document
    #[arg(
        long = "output",
        value_name = "FORMAT",
        value_enum,
        default_value = "yaml",
        help_heading = "Settings"
    )]
    pub(crate) format: DocumentFormat,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Forms of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentForm {
    /// Documents of weft, which `weft diff` and `weft apply` read
    Weft,
    /// Documents of OpenZiti, which `ziti ops import` reads (and `weft apply`, too)
    Openziti,
}

/// Formats of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// YAML, with comments
    Yaml,
    /// JSON
    Json,
}

/// Arguments of `weft diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weft diff network.yaml\n  weft diff network/ --prune --exit-code\n\n\
                  Who gains or loses access follows from the service policies; posture checks do not count."
)]
pub(crate) struct DiffArgs {
    /// Files, folders of them, or `-` for standard input; all of them are one document
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<String>,
    /// Count entities as deleted that the files do not name, in the sections that the files have
    #[arg(long)]
    pub(crate) prune: bool,
    /// End with status 8 if there are differences
    #[arg(long)]
    pub(crate) exit_code: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Arguments of `weft apply`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft apply network.yaml\n  \
                  weft apply network.yaml --yes --tokens ./tokens\n  \
                  weft apply network.yaml --yes --expect \"$(weft diff network.yaml --output json | jq -r .plan)\"\n\n\
                  A member that the file leaves out of an entity gets its default. Entities that the \
                  file does not name stay,\nunless --prune is given.\n\n\
                  Files of `ziti ops export` are taken, too (JSON and YAML):\n  \
                  weft apply export.json --tokens ./tokens\n\
                  They lack the posture checks of policies, passwords, certificates and enrollments: everybody \
                  enrolls anew.\nWhat else is not kept is named on standard error.")]
pub(crate) struct ApplyArgs {
    /// Files, folders of them, or `-` for standard input; all of them are one document
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<String>,
    /// Delete entities that the files do not name, in the sections that the files have
    #[arg(long)]
    pub(crate) prune: bool,
    /// Apply the changes without asking
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Only say what would change, as `weft diff` does
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Apply the changes only if they are still this plan, as `weft diff` prints it, or if the network
    /// still has this revision
    #[arg(long, value_name = "PLAN|REVISION")]
    pub(crate) expect: Option<String>,
    /// Write the enrollment tokens of new identities and routers to this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) tokens: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Arguments of `weft call`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft call listSummary\n  \
                  weft call listServices --query 'filter=name contains \"web\"'\n  \
                  weft call detailSpecBody edge-management")]
pub(crate) struct CallArgs {
    /// Id of the operation, as the API descriptions have it
    #[arg(value_name = "OPERATION", add = complete::operations())]
    pub(crate) operation: String,
    /// Ids for the places in the path of the operation, in order
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// The API, if several have an operation with this id
    #[arg(long, value_name = "API", value_parser = ["management", "client", "fabric", "weft"])]
    pub(crate) api: Option<String>,
    /// A query parameter; may be given several times
    #[arg(long, short = 'q', value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) query: Vec<(String, String)>,
    /// Body of the request, or @FILE to read it from a file
    #[arg(long, short = 'd', value_name = "BODY|@FILE", value_parser = bytes)]
    pub(crate) data: Option<Bytes>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// The body of a call.
#[derive(Debug, Clone)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is wanted")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn bytes(text: &str) -> Result<Bytes, String> {
    match text.strip_prefix('@') {
        Some(path) => {
            let read = crate::input::read(Path::new(path));
            read.map(Bytes).map_err(|error| format!("{path}: {error}"))
        }
        None => Ok(Bytes(text.as_bytes().to_vec())),
    }
}
