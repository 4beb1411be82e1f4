//! Commands that explain: access, the mesh, paths, inner state.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::printing::Output;
use crate::entity::complete;
use crate::session::LoginChoice;

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

/// Arguments of `weft unproven`.
#[derive(Debug, Args)]
#[command(
    after_help = "What is listed ends when the service demands that both ends prove who they are:\n  \
                  weft update service web --authenticated-ends\n\nExamples:\n  weft unproven web\n  \
                  weft unproven web --offset 100          the next page"
)]
pub(crate) struct UnprovenArgs {
    /// Name or id of the service
    #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
    pub(crate) service: String,
    /// Show so many at most, 1 to 500 [default: 100]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: Option<u32>,
    /// Leave out so many of the first ones [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) offset: Option<u32>,
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
    /// Draw the mesh again at this interval, in seconds, 1 to 3600, until q or Ctrl-C [without a value:
    /// 2]
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
                  Experience is the cost of a terminator's circuits and failed dials. The\nterminator \
                  with the best precedence (required, default, failed) is dialed, among\nseveral \
                  with that precedence the cheapest. `weft update terminator ID --cost 20`\nor \
                  `--precedence required` changes the choice, `weft update link ID\n--static-cost 20` \
                  the path.")]
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
    /// Instance of the service that is dialed [default: any terminator without an instance]
    #[arg(long, value_name = "INSTANCE")]
    pub(crate) instance: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Values that `weft inspect` asks for, as its help explains them.
const INSPECTED: &[&str] = &[
    "circuit:",
    "config",
    "connected-peers",
    "connected-routers",
    "ctrl-dialer",
    "data-model-index",
    "ert-terminators",
    "identity-connection-statuses",
    "links",
    "metrics",
    "metrics:prometheus",
    "refused-reports",
    "router-circuits",
    "router-controllers",
    "router-data-model-index",
    "router-drops",
    "router-edge-circuits",
    "sdk-terminators",
    "stackdump",
    "terminator-costs",
];

/// Arguments of `weft inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Values of controllers:\n  \
                  config                        the configuration in effect\n  \
                  connected-peers               the controllers of several, and whether they reach each other\n  \
                  connected-routers             the connected routers, with versions and connections\n  \
                  ctrl-dialer                   the dials of routers (`ctrl.dialer`)\n  \
                  data-model-index              timeline and index of the data model\n  \
                  identity-connection-statuses  the routers that each identity is connected to\n  \
                  metrics                       measured values; metrics:prometheus shows them as text\n  \
                  refused-reports               the number of refused reports of each router\n  \
                  stackdump                     the threads of the program, with their processor time\n  \
                  terminator-costs              the dynamic cost of each terminator\n\
                  Values of routers:\n  \
                  circuit:ID                    a circuit: its ways, and the state of its ends\n  \
                  ert-terminators               terminators of the router's own tunneler\n  \
                  links                         links, and the dials of links\n  \
                  metrics                       measured values\n  \
                  router-circuits               all circuits, with their ways\n  \
                  router-controllers            the controllers, and how they answer\n  \
                  router-data-model-index       timeline and index of the router's data model\n  \
                  router-drops                  the numbers of messages that were thrown away\n  \
                  router-edge-circuits          circuits with an end at an SDK of the router\n  \
                  sdk-terminators               terminators of SDKs\n\
                  Routers of OpenZiti have more.\n\nExamples:\n  \
                  weft inspect links --of 'router-.*'\n  weft inspect connected-routers refused-reports")]
pub(crate) struct InspectArgs {
    /// Names of the values, for instance connected-routers or links
    #[arg(value_name = "VALUE", required = true, add = complete::words(INSPECTED))]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_that_are_completed_are_explained() {
        let command = InspectArgs::augment_args(clap::Command::new("inspect"));
        let help = command.get_after_help().unwrap().to_string();
        for value in INSPECTED {
            assert!(help.contains(value), "{value}");
        }
        let lines = help.lines().filter(|line| line.starts_with("  ") && !line.contains("weft "));
        for value in lines.filter_map(|line| line.split_whitespace().next()) {
            let is_known = INSPECTED.iter().any(|known| value.starts_with(known));
            assert!(is_known, "{value}");
        }
    }
}
