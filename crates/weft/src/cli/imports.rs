//! The arguments of `weft controller import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::failure::{Failure, Result};
use crate::output::Format;
use crate::session::LoginChoice;

/// Days in which a network may go back, unless others are asked for.
const WAY_BACK: u16 = 7;

/// Arguments of `weft controller import`.
#[derive(Debug, Args)]
pub(crate) struct ImportCommand {
    /// The configuration file of OpenZiti's controller; for a dry run also the file of its database
    #[arg(required_unless_present = "compare", conflicts_with = "compare")]
    file: Option<PathBuf>,
    /// Only tell what would be taken, and write nothing
    #[arg(long, conflicts_with = "compare")]
    dry_run: bool,
    /// New folder for the controller of weft; for a dry run and a comparison a format, as --format
    #[arg(long, short = 'o', value_name = "DIR", required_unless_present_any = ["dry_run", "compare", "since"])]
    output: Option<PathBuf>,
    /// Read this copy of the database, in place of the one that the file names
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Make the folder anew if it is the result of an earlier import, and keep that one beside it
    #[arg(long)]
    force: bool,
    /// Days in which the network may go back to OpenZiti: until then no certificate is renewed that lasts until then.
    /// 0: it stays [default: 7]
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["dry_run", "compare", "since"])]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=365))]
    way_back: Option<u16>,
    /// Print what OpenZiti's database does not know of the network in this folder, or in this snapshot of weft's store,
    /// and what it would revive
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "compare", "force"])]
    since: Option<PathBuf>,
    /// Accept a cluster's database that has all changes up to this index of the log
    #[arg(long, value_name = "NUMBER")]
    index: Option<u64>,
    /// Format: table, json or yaml. Members in JSON and YAML keep their names in later releases
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Settings"
    )]
    format: Format,
    #[command(flatten)]
    compare: CompareArgs,
}

/// What `weft controller import` is asked for.
pub(crate) enum ImportRequest {
    /// To take a network over, or to tell what would be taken.
    Import(ImportArgs),
    /// To compare two running controllers.
    Compare(CompareArgs, Format),
}

impl ImportCommand {
    /// What is asked for. A dry run and comparisons have no folder, so that `--output` is a format, as of other
    /// commands.
    pub(crate) fn into_request(self) -> Result<ImportRequest> {
        let Self {
            file,
            dry_run,
            output,
            database,
            force,
            way_back,
            since,
            index,
            format,
            compare,
        } = self;
        let (folder, format) = match output {
            Some(output) if dry_run || since.is_some() || file.is_none() => {
                let word = output.to_str().and_then(|word| Format::from_str(word, false).ok());
                let format = word.ok_or_else(|| {
                    Failure::usage("nothing is written: leave out --output DIR, or name a format: table, json, yaml")
                })?;
                (None, format)
            }
            folder => (folder, format),
        };
        Ok(match file {
            Some(file) => {
                let way_back = way_back.unwrap_or(WAY_BACK);
                let args =
                    ImportArgs { file, database, folder, force, way_back, since, index, format };
                ImportRequest::Import(args)
            }
            None => ImportRequest::Compare(compare, format),
        })
    }
}

/// What to import, and where to.
pub(crate) struct ImportArgs {
    /// The controller's file of the original, or its database.
    pub(crate) file: PathBuf,
    /// Another copy of the database.
    pub(crate) database: Option<PathBuf>,
    /// The folder to make; none for a dry run.
    pub(crate) folder: Option<PathBuf>,
    /// Whether a folder of another import is replaced.
    pub(crate) force: bool,
    /// Days in which the network may go back.
    pub(crate) way_back: u16,
    /// The folder or the store of weft that the database is compared with, in place of an import.
    pub(crate) since: Option<PathBuf>,
    /// The index of a cluster's log up to which the database has everything, as the operator accepts it.
    pub(crate) index: Option<u64>,
    pub(crate) format: Format,
}

/// Arguments of `weft controller import --compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Compare the running controller at this URL with weft's. There has to be a saved login at it, of which
    /// the name can be given, too; it is asked at most 20 times a second
    #[arg(long, value_name = "URL")]
    pub(crate) compare: Option<String>,
    /// Number of pairs of identity and service for which advice and terminators are compared
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, requires = "compare")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub(crate) pairs: u64,
    /// File that says how far the comparison is: another run goes on there. It is removed at the end
    /// [default: weft-compare.json]
    #[arg(long, value_name = "FILE", requires = "compare")]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}
