//! A command on a kind of entity, as it was asked for.

use std::path::PathBuf;

use clap::{ArgMatches, FromArgMatches as _};
use serde_json::{Map, Value};
use weft_contract::body::Verb;
use weft_contract::kind::Kind;
use weft_contract::resource::{self, KINDS};

use super::flags::{self, text};
use super::operations::list_parameters;
use super::{clear, token};
use crate::output::Format;
use crate::session::LoginChoice;

/// A command on a kind of entity.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) kind: &'static Kind,
    /// The verb with its arguments.
    pub(crate) action: Action,
    pub(crate) format: Format,
    pub(crate) session: LoginChoice,
}

/// A verb with its arguments.
#[derive(Debug)]
pub(crate) enum Action {
    Create {
        /// Given members.
        body: Map<String, Value>,
        /// File for the enrollment token.
        jwt: Option<PathBuf>,
    },
    List(ListRequest),
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
    Delete {
        /// Names or ids.
        which: Vec<String>,
        /// Delete all entities that pass this filter.
        filter: Option<String>,
        /// Delete without asking.
        yes: bool,
    },
}

/// Arguments of a list.
#[derive(Debug, Default)]
pub(crate) struct ListRequest {
    pub(crate) filter: Option<String>,
    /// `name`, `createdAt desc`, ...
    pub(crate) sort: Option<String>,
    /// Most entries that are listed.
    pub(crate) limit: Option<usize>,
    /// Only entities that belong to another entity: its kind, and its name or id.
    pub(crate) of: Option<(&'static Kind, String)>,
    /// Print how the list was found.
    pub(crate) explain: bool,
    /// Titles of columns, or members; empty: the usual columns of the kind.
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
        let session = LoginChoice::from_arg_matches(matches).unwrap_or_default();
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
        let parameters = list_parameters(kind);
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
