//! `create`, `list`, `show`, `update` and `delete` for every kind of entity, and the actions on
//! entities.
//!
//! The commands are built from the tables of `weft-contract`: body members of a kind become flags,
//! its columns the table, its operations the verbs. A new kind in those tables needs nothing here.
//! References and roles are given by name or id, and resolved to ids before anything is sent.

pub(crate) mod action;
mod clear;
mod commands;
pub(crate) mod complete;
mod examples;
mod flags;
mod listing;
pub(crate) mod name;
mod run;
pub(crate) mod token;

use std::path::PathBuf;

use clap::{ArgMatches, FromArgMatches as _};
use serde_json::{Map, Value};
use weft_contract::{
    Api, Method, Operation,
    body::Verb,
    kind::Kind,
    resource::{self, KINDS},
};

pub(crate) use commands::commands;
pub(crate) use run::run;

use crate::{output::Format, session::Session};

/// A command on a kind of entity.
#[derive(Debug)]
pub(crate) struct Request {
    /// The kind.
    pub(crate) kind: &'static Kind,
    /// The verb with its arguments.
    pub(crate) action: Action,
    /// Output format.
    pub(crate) format: Format,
    /// The login.
    pub(crate) session: Session,
}

/// A verb with its arguments.
#[derive(Debug)]
pub(crate) enum Action {
    /// Create an entity.
    Create {
        /// Given members.
        body: Map<String, Value>,
        /// File for the enrollment token.
        jwt: Option<PathBuf>,
    },
    /// List entities.
    List(ListRequest),
    /// Show an entity.
    Show {
        /// Name or id.
        which: String,
    },
    /// Change members of an entity.
    Update {
        /// Name or id.
        which: String,
        /// Given members.
        body: Map<String, Value>,
        /// True: members that are not given get their default.
        replace: bool,
    },
    /// Delete entities.
    Delete {
        /// Names or ids.
        which: Vec<String>,
        /// Delete all that pass this filter.
        filter: Option<String>,
        /// Delete without asking.
        yes: bool,
    },
}

/// Arguments of a list.
#[derive(Debug, Default)]
pub(crate) struct ListRequest {
    /// Filter.
    pub(crate) filter: Option<String>,
    /// Order: `name`, `createdAt desc`, ...
    pub(crate) sort: Option<String>,
    /// Most entries.
    pub(crate) limit: Option<usize>,
    /// Only entities that belong to another entity: its kind, and its name or id.
    pub(crate) of: Option<(&'static Kind, String)>,
    /// Print how the list was found.
    pub(crate) explain: bool,
    /// Columns of the table.
    pub(crate) columns: Vec<String>,
    /// Other query parameters of the operation.
    pub(crate) query: Vec<(&'static str, String)>,
}

impl Request {
    /// The request of a command line, if it is one of these commands.
    pub(crate) fn from_matches(verb: &str, matches: &ArgMatches) -> Option<Self> {
        let (name, matches) = matches.subcommand()?;
        let kind = KINDS.iter().copied().find(|kind| kind.is_called(name))?;
        let action = match verb {
            "create" => Action::Create {
                body: flags::read(kind, Verb::Create, matches),
                jwt: text(matches, token::FLAG).map(Into::into),
            },
            "list" => Action::List(ListRequest::from_matches(kind, matches)),
            "show" => Action::Show { which: text(matches, "which")? },
            "update" => {
                let replace = matches.get_flag("replace");
                let verb = if replace { Verb::Replace } else { Verb::Patch };
                let mut body = flags::read(kind, verb, matches);
                clear::read(kind, matches, &mut body);
                Action::Update { which: text(matches, "which")?, body, replace }
            }
            "delete" => Action::Delete {
                which: matches.get_many::<String>("which").into_iter().flatten().cloned().collect(),
                filter: text(matches, "where"),
                yes: matches.get_flag("yes"),
            },
            _ => return None,
        };
        let format = Format::from_matches(matches);
        let session = Session::from_arg_matches(matches).unwrap_or_default();
        Some(Self { kind, action, format, session })
    }
}

impl ListRequest {
    fn from_matches(kind: &'static Kind, matches: &ArgMatches) -> Self {
        let of = matches.try_get_many::<String>("of").ok().flatten();
        let of: Vec<&String> = of.into_iter().flatten().collect();
        let of = match of.as_slice() {
            [parent, which] => resource::kind(parent).map(|parent| (parent, (*which).clone())),
            _ => None,
        };
        let columns = matches.get_many::<String>("columns").into_iter().flatten();
        let parameters = commands::list_parameters(kind);
        Self {
            filter: text(matches, "filter"),
            sort: text(matches, "sort"),
            limit: matches.get_one::<usize>("limit").copied(),
            of,
            explain: matches.get_flag("explain"),
            columns: columns.cloned().collect(),
            query: parameters
                .into_iter()
                .flat_map(|name| {
                    let values = matches.get_many::<String>(name).into_iter().flatten();
                    values.map(move |value| (name, value.clone()))
                })
                .collect(),
        }
    }
}

fn text(matches: &ArgMatches, id: &str) -> Option<String> {
    matches.try_get_one::<String>(id).ok().flatten().cloned()
}

/// The APIs whose operations the commands call, the usual one first.
pub(crate) const APIS: &[Api] = &[Api::Management, Api::Fabric, Api::Client, Api::Weft];

/// The API that an operation of a kind belongs to.
pub(crate) fn api_of(operation: &Operation) -> Api {
    let has = |api: &Api| {
        resource::operations(*api).any(|row| {
            (row.id, row.method, row.path) == (operation.id, operation.method, operation.path)
        })
    };
    APIS.iter().find(|api| has(api)).copied().unwrap_or(Api::Management)
}

/// The operation of a kind with this method on one entity. Settings of a controller are changed and
/// deleted at a path below the entity.
pub(crate) fn on_one(kind: &Kind, method: Method) -> Option<&'static Operation> {
    ["/{id}", EFFECTIVE].into_iter().find_map(|below| {
        kind.operations.iter().find(|row| {
            let path = row.path.strip_prefix('/').and_then(|path| path.strip_prefix(kind.plural));
            row.method == method && path == Some(below)
        })
    })
}

/// Path below which settings of controllers are changed.
const EFFECTIVE: &str = "/{id}/effective";

/// The operation that lists the entities belonging to an entity of another kind, at
/// `/<parents>/{id}/<children>`.
pub(crate) fn list_below(parent: &Kind, child: &Kind) -> Option<&'static Operation> {
    parent.operations.iter().find(|row| {
        row.method == Method::Get
            && matches!(row.response, weft_contract::Response::List(_))
            && row
                .path
                .strip_prefix('/')
                .and_then(|path| path.strip_prefix(parent.plural))
                .and_then(|path| path.strip_prefix("/{id}/"))
                == Some(child.plural)
    })
}
