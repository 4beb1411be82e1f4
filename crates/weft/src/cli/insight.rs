//! Commands that explain: access, the mesh, paths, inner state.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::printing::Output;
use crate::{entity::complete, session::LoginChoice};

/// Arguments of `weft why`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weft why laptop web")]
pub(crate) struct WhyArgs {
    /// Name or id of the identity
    #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
    pub(crate) identity: String,
    /// Name or id of the service
    #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
    pub(crate) service: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Arguments of `weft topology`.
#[derive(Debug, Args)]
#[command(
    after_help = "A path costs what its links cost, and at least 10 for each router that it enters. \
                  A link costs\nits static cost and the latencies that both ends measured, in \
                  milliseconds.\n\nRATE is what the router that dialed the link sends over it, \
                  RATE BACK what the other one sends:\nthe mean of the last minute at their last \
                  reports (metrics.reportInterval, 1m); ? is not known.\nOn a line of the drawing \
                  both are added.\n\nExamples:\n  weft topology\n  weft topology --watch 5\n  \
                  weft topology --svg mesh.svg\n  weft update link ID --static-cost 20    go around \
                  a link\n  weft update link ID --down              do not use it at all"
)]
pub(crate) struct TopologyArgs {
    /// Draw it again every so many seconds, until q or Ctrl-C [default: 2]
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u32).range(1..=3600),
        conflicts_with = "svg"
    )]
    pub(crate) watch: Option<u32>,
    /// Write the mesh as a picture (SVG) to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Arguments of `weft why-path`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft why-path laptop web\n  \
                  weft why-path laptop web --via paris\n  \
                  weft why-path paris web          what a router's own tunneler would dial\n\n\
                  A line of the answer:\n  \
                  cost 40 = 34 path + 4 terminator + 2 experience (1 circuit); precedence default\n\
                  The terminator with the best precedence (required, default, failed) is dialed, \
                  among several\nof it the cheapest; `weft update terminator ID --cost 20` or \
                  `--precedence required` changes that,\n`weft update link ID --static-cost 20` \
                  changes the path.")]
pub(crate) struct WhyPathArgs {
    /// Name or id of the identity that dials, or of a router
    #[arg(value_name = "FROM", add = complete::names("identities", ""))]
    pub(crate) from: String,
    /// Name or id of the service
    #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
    pub(crate) service: String,
    /// Explain the dial over this router only, by name or id
    #[arg(long, value_name = "ROUTER", add = complete::names("edge-routers", ""))]
    pub(crate) via: Option<String>,
    /// The instance of the service that is dialed
    #[arg(long, value_name = "INSTANCE")]
    pub(crate) instance: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Arguments of `weft inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Controllers know: config, connected-routers, data-model-index, \
                  identity-connection-statuses,\n  metrics, refused-reports, stackdump, \
                  terminator-costs.\n\
                  Routers know: circuit:ID, ert-terminators, links, router-circuits, \
                  router-controllers,\n  router-data-model-index, router-drops, sdk-terminators.\n\
                  Routers of OpenZiti know more.\n\nExample:\n  \
                  weft inspect links --of 'router-.*'")]
pub(crate) struct InspectArgs {
    /// Names of the values: config, connected-routers, router-circuits, sdk-terminators, ...
    #[arg(value_name = "VALUE", required = true)]
    pub(crate) values: Vec<String>,
    /// Ask only controllers and routers whose name or id contains a match of this regular
    /// expression; '^paris$' is paris alone
    #[arg(long, value_name = "REGEX", default_value = ".*")]
    pub(crate) of: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}
