//! `create`, `list`, `show`, `update` and `delete` for every kind of entity.
//!
//! The commands come from the tables of `weft-contract`: a kind's body members become flags, its
//! columns the table. References and roles are given by name and resolved to ids before anything
//! is sent; ids are taken too.

mod flags;
mod name;
mod run;
mod table;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Map, Value};
use weft_contract::{body::Verb, kind::Kind, resource::KINDS};

pub(crate) use run::run;

use crate::output::Format;

/// What to do with which kind.
#[derive(Debug)]
pub(crate) struct Request {
    /// The kind.
    pub(crate) kind: &'static Kind,
    /// What to do.
    pub(crate) action: Action,
    /// How to print.
    pub(crate) format: Format,
    /// Where saved logins lie, if not at their usual place.
    pub(crate) config_dir: Option<std::path::PathBuf>,
}

/// What is done with a kind.
#[derive(Debug)]
pub(crate) enum Action {
    /// Make one.
    Create {
        /// Members given.
        body: Map<String, Value>,
        /// Where an enrollment token goes.
        jwt: Option<std::path::PathBuf>,
    },
    /// Show many.
    List {
        /// In the filter language.
        filter: Option<String>,
        /// At most so many.
        limit: Option<usize>,
    },
    /// Show one.
    Show {
        /// Name or id.
        which: String,
    },
    /// Change members of one.
    Update {
        /// Name or id.
        which: String,
        /// Members given.
        body: Map<String, Value>,
    },
    /// Remove some.
    Delete {
        /// Names or ids.
        which: Vec<String>,
    },
}

/// One command for each thing that can be done, with one command for each kind below it.
pub(crate) fn commands() -> Vec<Command> {
    let verb =
        |name: &'static str, about: &'static str, build: fn(&'static Kind) -> Option<Command>| {
            Command::new(name)
                .about(about)
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand_value_name("KIND")
                .subcommand_help_heading("Kinds")
                .subcommands(KINDS.iter().copied().filter_map(build))
        };
    vec![
        verb("create", "Create a service, identity, policy, ...", create),
        verb("list", "List services, identities, policies, ...", list),
        verb("show", "Show one of them whole", show),
        verb("update", "Change one of them", update),
        verb("delete", "Delete some of them", delete),
    ]
}

impl Request {
    /// What the command line asks for, if it is one of these commands.
    pub(crate) fn from_matches(verb: &str, matches: &ArgMatches) -> Option<Self> {
        let (name, matches) = matches.subcommand()?;
        let kind = KINDS.iter().copied().find(|kind| kind.is_called(name))?;
        let text = |id: &str| matches.get_one::<String>(id).cloned();
        let action = match verb {
            "create" => Action::Create {
                body: flags::read(kind, Verb::Create, matches),
                jwt: matches.try_get_one::<String>(JWT).ok().flatten().map(Into::into),
            },
            "list" => Action::List {
                filter: text("filter"),
                limit: matches.get_one::<usize>("limit").copied(),
            },
            "show" => Action::Show { which: text("which")? },
            "update" => Action::Update {
                which: text("which")?,
                body: flags::read(kind, Verb::Patch, matches),
            },
            "delete" => {
                Action::Delete { which: matches.get_many::<String>("which")?.cloned().collect() }
            }
            _ => return None,
        };
        let format = if matches.get_one::<String>("output").is_some_and(|output| output == "json") {
            Format::Json
        } else {
            Format::Table
        };
        Some(Self { kind, action, format, config_dir: text("config-dir").map(Into::into) })
    }
}

/// The flag that names the file for an enrollment token.
const JWT: &str = "jwt-output-file";

fn base(name: &'static str, kind: &'static Kind) -> Command {
    Command::new(name)
        .about(capitalized(kind.about))
        .arg(
            Arg::new("output")
                .long("output")
                .value_name("FORMAT")
                .value_parser(["table", "json"])
                .default_value("table")
                .help("How to print; names in JSON do not change")
                .help_heading("Settings"),
        )
        .arg(
            Arg::new("config-dir")
                .long("config-dir")
                .value_name("DIR")
                .env("WEFT_CONFIG_DIR")
                .hide_env(true)
                .help("Folder of saved logins [default: the user's configuration folder]")
                .help_heading("Settings"),
        )
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

/// A command as people type it, for those who create one of these for the first time.
fn example(kind: &Kind) -> Option<&'static str> {
    Some(match kind.name {
        "config" => {
            "weft create config web-host --config-type host.v1 \\\n      \
             --data '{\"protocol\":\"tcp\",\"address\":\"127.0.0.1\",\"port\":8080}'"
        }
        "edge-router" => {
            "weft create edge-router paris --role-attributes public --is-tunneler-enabled \\\n      \
             -o paris.jwt\n  weft router enroll router.yml --jwt paris.jwt"
        }
        "edge-router-policy" => {
            "weft create edge-router-policy everybody \\\n      \
             --identity-roles '#all' --edge-router-roles '#public'"
        }
        "identity" => {
            "weft create identity laptop --role-attributes staff,admins -o laptop.jwt\n  \
             weft enroll laptop.jwt -o laptop.json"
        }
        "service" => "weft create service web --configs web-host --role-attributes intranet",
        "service-edge-router-policy" => {
            "weft create service-edge-router-policy everywhere \\\n      \
             --service-roles '#all' --edge-router-roles '#all'"
        }
        "service-policy" => {
            "weft create service-policy staff-dials --type Dial \\\n      \
             --identity-roles '#staff' --service-roles '@web'\n  \
             weft create service-policy router-hosts --type Bind \\\n      \
             --identity-roles '@paris' --service-roles '@web'"
        }
        _ => return None,
    })
}

fn one_of(kind: &'static Kind) -> Command {
    base(kind.name, kind).aliases(kind.aliases.iter().copied()).alias(kind.plural)
}

fn which(kind: &'static Kind) -> Arg {
    Arg::new("which")
        .value_name("NAME")
        .required(true)
        .help(format!("Name or id of the {}", kind.name))
}

fn create(kind: &'static Kind) -> Option<Command> {
    kind.create()?;
    let mut command = one_of(kind).args(flags::args(kind, Verb::Create));
    if run::enrollment_token(kind).is_some() {
        let arg = Arg::new(JWT).long(JWT).short('o').value_name("FILE");
        command = command.arg(arg.help(match kind.name {
            "identity" => {
                "Have an enrollment token made and write it to this file; `weft enroll`, or any \
                 SDK, turns it into an identity"
            }
            _ => "Write the enrollment token to this file, for `weft router enroll`",
        }));
    }
    Some(match example(kind) {
        Some(example) => command.after_help(format!("Example:\n  {example}")),
        None => command,
    })
}

fn list(kind: &'static Kind) -> Option<Command> {
    kind.list()?;
    let command = base(kind.plural, kind).aliases(kind.aliases.iter().copied()).alias(kind.name);
    Some(
        command
            .arg(Arg::new("filter").value_name("FILTER").help(
                "In the filter language, for instance: name contains \"web\" sort by name limit none",
            ))
            .arg(
                Arg::new("limit")
                    .long("limit")
                    .value_name("COUNT")
                    .value_parser(clap::value_parser!(usize))
                    .help("At most so many [default: all]"),
            ),
    )
}

fn show(kind: &'static Kind) -> Option<Command> {
    kind.detail()?;
    Some(one_of(kind).arg(which(kind)))
}

fn update(kind: &'static Kind) -> Option<Command> {
    kind.patch()?;
    Some(
        one_of(kind)
            .arg(which(kind))
            .args(flags::args(kind, Verb::Patch))
            .after_help("Only what is given changes."),
    )
}

fn delete(kind: &'static Kind) -> Option<Command> {
    kind.delete()?;
    Some(one_of(kind).arg(which(kind).num_args(1..)))
}
