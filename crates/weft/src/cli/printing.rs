//! The flag for the format in which a command prints its result.

use clap::Args;

use crate::output::Format;

/// Output format of a command.
#[derive(Debug, Args, Clone, Copy)]
pub(crate) struct Output {
    /// Format: table, json or yaml. Members in JSON and YAML keep their names in later releases
    #[arg(
        long,
        alias = "format",
        short = 'o',
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Settings",
        global = true
    )]
    output: Format,
}

impl Output {
    pub(crate) fn format(self) -> Format {
        self.output
    }
}
