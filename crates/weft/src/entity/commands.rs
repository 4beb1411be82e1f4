//! The commands on entities, built from the tables.

use clap::{Arg, ArgAction, Args as _, Command};
use weft_contract::Method;
use weft_contract::body::Verb;
use weft_contract::kind::Kind;
use weft_contract::resource::KINDS;

use super::operations::{list_below, list_parameters, on_one};
use super::{clear, complete, examples, flags, name, token};
use crate::output::Format;
use crate::session::LoginChoice;

/// A command for each verb, with a subcommand for each kind.
pub(crate) fn commands() -> Vec<Command> {
    let verb =
        |name: &'static str, about: &'static str, build: fn(&'static Kind) -> Option<Command>| {
            Command::new(name)
                .about(about)
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand_value_name("KIND")
                .subcommand_help_heading("Kinds")
                .after_help(examples::of_verb(name))
                .subcommands(KINDS.iter().copied().filter_map(build))
        };
    vec![
        verb("create", "Create a service, identity, policy, ...", create),
        verb("list", "List services, identities, policies, ...", list),
        verb("show", "Show all members of an entity", show),
        verb("update", "Change an entity", update),
        verb("delete", "Delete entities", delete),
    ]
}

/// A command on a kind, with the settings of every such command: login and output format.
pub(super) fn base(name: &'static str, kind: &'static Kind) -> Command {
    // `augment_args` sets the description of `LoginChoice`, which is replaced.
    LoginChoice::augment_args(Command::new(name).arg(Format::arg())).about(capitalized(kind.about))
}

/// The command without the short flag of the output format.
pub(super) fn without_short_output(command: Command) -> Command {
    command.mut_arg("output", |arg| arg.short(None))
}

/// A command named after one entity: `service`, `svc`, `services`.
pub(super) fn one_of(kind: &'static Kind) -> Command {
    let names = kind.aliases.iter().copied().chain([kind.plural]);
    base(kind.name, kind).aliases(names.filter(|name| *name != kind.name))
}

/// The argument that names the entity.
pub(super) fn which(kind: &'static Kind) -> Arg {
    let (value, called) = match name::is_named(kind) {
        true => ("NAME", "Name or id"),
        false => ("ID", "Id"),
    };
    Arg::new("which")
        .value_name(value)
        .required(true)
        .help(format!("{called} of the {}", kind.name))
        .add(complete::names(kind.plural, ""))
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

fn create(kind: &'static Kind) -> Option<Command> {
    kind.create()?;
    // The new entity may have a token, and `-o` is the file for it.
    let mut command = without_short_output(one_of(kind)).args(flags::args(kind, Verb::Create));
    if token::is_made_with(kind) {
        command = command.arg(token::arg(match kind.name {
            "identity" => {
                "Have an enrollment token made and write it to this file; `weft enroll`, or any \
                 SDK, turns it into an identity"
            }
            _ => "Write the enrollment token to this file, for `weft router enroll`",
        }));
    }
    Some(command.after_help(examples::of_create(kind)))
}

fn list(kind: &'static Kind) -> Option<Command> {
    kind.list()?;
    let names = kind.aliases.iter().copied().chain([kind.name]);
    let mut command =
        base(kind.plural, kind).aliases(names.filter(|name| *name != kind.plural)).args([
            Arg::new("filter").value_name("FILTER").help(
                "Only entities that pass this filter, for instance: name contains \"web\" and tags.site = \"x\"",
            ),
            Arg::new("sort")
                .long("sort")
                .value_name("MEMBER [desc]")
                .help("Order, for instance `createdAt desc` [default: by name]"),
            Arg::new("limit")
                .long("limit")
                .value_name("COUNT")
                .value_parser(clap::value_parser!(usize))
                .help("The most entities to list [default: all]"),
            Arg::new("explain")
                .long("explain")
                .action(ArgAction::SetTrue)
                .help("Say on standard error by which indexes the list was found"),
            Arg::new("columns")
                .long("columns")
                .value_name("A,B,...")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .help(format!(
                    "Columns of the table: {}, or any member, `member.member` for one inside",
                    titles(kind)
                )),
        ]);
    let parents: Vec<&'static Kind> =
        KINDS.iter().copied().filter(|parent| list_below(parent, kind).is_some()).collect();
    if !parents.is_empty() {
        let known: Vec<&str> = parents.iter().map(|parent| parent.name).collect();
        command = command.arg(
            Arg::new("of")
                .long("of")
                .num_args(2)
                .value_names(["KIND", "NAME"])
                .help(format!(
                    "Only entities that belong to this one; its kind is one of: {}",
                    known.join(", ")
                ))
                .add(complete::parents(parents)),
        );
    }
    for name in list_parameters(kind) {
        let (about, completer) = parameter(name);
        let arg = Arg::new(name).long(flags::kebab(name)).action(ArgAction::Append);
        let arg = arg.value_name("VALUE").help(about);
        command = command.arg(match completer {
            Some(collection) => arg.add(complete::names(collection, "")),
            None => arg,
        });
    }
    Some(command.after_help(examples::of_list(kind)))
}

/// Description of a query parameter, and the collection whose names complete it.
fn parameter(name: &str) -> (String, Option<&'static str>) {
    match name {
        "roleFilter" => (
            "Only entities with this role: #attribute or @id; may be given several times"
                .to_owned(),
            None,
        ),
        "roleSemantic" => (
            "With several roles: entities with all of them (allOf) or with one (anyOf)".to_owned(),
            None,
        ),
        "policyType" => {
            ("Only entities that policies of this type allow: dial or bind".to_owned(), None)
        }
        "configTypes" => (
            "Show the data of configs of this type; `all` for every type".to_owned(),
            Some("config-types"),
        ),
        "asIdentity" => (
            "Only entities that this identity sees, as it sees them".to_owned(),
            Some("identities"),
        ),
        other => (format!("Query parameter {other} of the API"), None),
    }
}

fn titles(kind: &Kind) -> String {
    let titles: Vec<String> =
        kind.columns.iter().map(|column| column.title.to_lowercase()).collect();
    titles.join(", ")
}

fn show(kind: &'static Kind) -> Option<Command> {
    kind.detail()?;
    Some(one_of(kind).arg(which(kind)))
}

fn update(kind: &'static Kind) -> Option<Command> {
    on_one(kind, Method::Patch)?;
    let mut command = one_of(kind)
        .arg(which(kind))
        .args(flags::args(kind, Verb::Patch))
        .args(clear::args(kind))
        .after_help(examples::of_update(kind));
    command = command.arg(
        Arg::new("replace")
            .long("replace")
            .action(ArgAction::SetTrue)
            .hide(on_one(kind, Method::Put).is_none())
            .help("Give members that no flag names their default values"),
    );
    Some(command)
}

fn delete(kind: &'static Kind) -> Option<Command> {
    on_one(kind, Method::Delete)?;
    Some(
        one_of(kind)
            .arg(which(kind).num_args(1..).required(false).required_unless_present("where"))
            .arg(
                Arg::new("where")
                    .long("where")
                    .value_name("FILTER")
                    .conflicts_with("which")
                    .help("Delete all entities that pass this filter; asks first"),
            )
            .arg(
                Arg::new("yes")
                    .long("yes")
                    .short('y')
                    .action(ArgAction::SetTrue)
                    .help("Delete without asking"),
            )
            .after_help(examples::of_delete(kind)),
    )
}
