//! Actions on an entity, besides create, read, update and delete.
//!
//! Every operation at `/<kinds>/{id}/<word>` that changes something is the command `weft <word>
//! <kind> NAME`, with its body as flags: `weft re-enroll edge-router paris`, `weft disable identity
//! laptop --duration-minutes 30`. An operation that deletes something is `weft remove <word> NAME`. So are a few that
//! only read: `weft posture-data identity laptop`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{ArgMatches, Command, FromArgMatches as _};
use serde_json::{Map, Value};
use weft_contract::kind::Kind;
use weft_contract::resource::{self, KINDS};
use weft_contract::{Field, Method, Operation, operation};

use super::flags::{self, text};
use super::operations::api_of;
use super::{commands, name, posture, token};
use crate::failure::{Failure, Result};
use crate::output::{self, Format, printable, table};
use crate::session::LoginChoice;

/// Words of operations that have commands of their own: `weft update controller-setting`,
/// `weft verify ca`.
const ELSEWHERE: &[&str] = &["effective", "verify"];
/// The command for operations that delete something.
const REMOVE: &str = "remove";
/// Actions whose bodies have defaults ([`fill_in`]).
const DISABLE: &str = "disable";
const TRACE: &str = "trace";
/// The word for the second factor of an identity, which can be removed.
const MFA: &str = "mfa";
/// Words of operations that only read: the services that an identity was refused, and the facts that it was judged by.
const REFUSALS: &str = "failed-service-requests";
const POSTURE: &str = "posture-data";
const READS: &[&str] = &[REFUSALS, POSTURE];

/// An operation on one entity.
#[derive(Clone, Copy, Debug)]
struct Row {
    kind: &'static Kind,
    operation: &'static Operation,
    word: &'static str,
    fields: &'static [Field],
}

/// An action on an entity.
#[derive(Debug)]
pub(crate) struct ActionRequest {
    row: Row,
    which: String,
    body: Map<String, Value>,
    jwt: Option<PathBuf>,
    format: Format,
    session: LoginChoice,
}

fn rows() -> impl Iterator<Item = Row> {
    KINDS.iter().copied().flat_map(|kind| {
        kind.operations.iter().filter_map(move |operation| {
            let word = operation
                .path
                .strip_prefix('/')?
                .strip_prefix(kind.plural)?
                .strip_prefix("/{id}/")?;
            let fields = match operation.request {
                operation::Request::None => &[],
                operation::Request::Json(fields) | operation::Request::OptionalJson(fields) => {
                    fields
                }
                _ => return None,
            };
            let is_one = match operation.method {
                Method::Get => READS.contains(&word),
                _ => !word.contains(['/', '{']),
            };
            (is_one && !ELSEWHERE.contains(&word)).then_some(Row { kind, operation, word, fields })
        })
    })
}

/// The command of a row, and the name of its subcommand.
fn place(row: &Row) -> (&'static str, &'static str) {
    match row.operation.method {
        Method::Delete => (REMOVE, row.word),
        _ => (row.word, row.kind.name),
    }
}

/// The commands, one for each word.
pub(crate) fn verbs() -> Vec<Command> {
    let mut words: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in rows() {
        words.entry(place(&row).0).or_default().push(row);
    }
    words
        .into_iter()
        .map(|(word, rows)| {
            Command::new(word)
                .about(about(word, &rows))
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand_value_name("KIND")
                .subcommand_help_heading("Kinds")
                .subcommands(rows.into_iter().map(command))
        })
        .collect()
}

fn about(word: &str, rows: &[Row]) -> String {
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind.name).collect();
    let kinds = kinds.join(" or ");
    match word {
        "re-enroll" => {
            "Take the certificate of a router or an authenticator back, and make a new token".into()
        }
        "refresh" => "Make an enrollment last longer, with a new token".into(),
        "enable" => "Let a disabled identity log in again".into(),
        DISABLE => "Keep an identity from logging in, until it is enabled or for a while".into(),
        TRACE => {
            "Have the controller log for a while how the circuits of an identity are made".into()
        }
        "request-extend" => "Ask the owner of a certificate to renew it at the next login".into(),
        REMOVE => "Remove a part of an entity, such as the second factor".into(),
        REFUSALS => {
            "Show which services an identity was refused since its device failed posture checks"
                .into()
        }
        POSTURE => "Show what the device of an identity has reported for posture checks".into(),
        MFA => {
            "Remove the second factor (TOTP) of an identity, which may then set up another".into()
        }
        _ => format!("Operation `{word}` on a {kinds}"),
    }
}

fn command(row: Row) -> Command {
    let name = place(&row).1;
    let command = match name == row.kind.name {
        true => commands::one_of(row.kind),
        false => commands::base(name, row.kind).about(about(name, std::slice::from_ref(&row))),
    };
    let flags = flags::action_args(row.kind, row.fields).into_iter();
    // `durationMinutes` has a default and is not required.
    let flags = flags.map(|flag| if row.word == DISABLE { flag.required(false) } else { flag });
    let mut command = command
        .long_about(about(row.word, std::slice::from_ref(&row)))
        .arg(commands::which(row.kind))
        .args(flags);
    if row.word == TRACE {
        // The descriptions of the API do not know what this command fills in.
        command = command
            .mut_arg("body/duration", |flag| {
                flag.help(
                    "The length of a trace that begins, such as `5m` or `1h30m` [default: 5m]",
                )
            })
            .mut_arg("body/enabled", |flag| {
                flag.help("Whether a trace begins; with false the running one ends [default: true]")
            });
    }
    if makes_token(&row) {
        command = commands::without_short_output(command);
        command = command.arg(token::arg("Write the new enrollment token to this file"));
    }
    command.after_help(match row.word {
        "re-enroll" if row.kind.name == "edge-router" => {
            "Example:\n  weft re-enroll edge-router paris -o paris.jwt\n  \
             weft router enroll router.yml --jwt paris.jwt"
        }
        "re-enroll" if row.kind.name == "authenticator" => {
            "An identity is enrolled anew by its authenticator. Example:\n  \
             weft list authenticators 'identity.name = \"laptop\"'\n  \
             weft re-enroll authenticator ID --expires-at 24h -o laptop.jwt\n  \
             weft enroll laptop.jwt --force    on the laptop; replaces laptop.json"
        }
        DISABLE => {
            "Without --duration-minutes the identity stays disabled until it is enabled. Example:\n  \
             weft disable identity laptop --duration-minutes 30"
        }
        TRACE => {
            "Without flags, a trace begins that lasts five minutes; its lines are in the log of the \
             controller. Examples:\n  \
             weft trace identity laptop --duration 1h\n  \
             weft trace identity laptop --enabled=false"
        }
        _ => "",
    })
}

/// True if an action makes an enrollment token.
fn makes_token(row: &Row) -> bool {
    match row.word {
        "re-enroll" => true,
        "refresh" => token::is_made_with(row.kind),
        _ => false,
    }
}

/// The entity with the token that an action has made: the enrollment that the answer names, if the action
/// has taken the entity itself away.
fn holder<'a>(
    kind: &'static Kind,
    id: &'a str,
    done: &'a Value,
) -> Result<(&'static Kind, &'a str)> {
    if token::is_made_with(kind) {
        return Ok((kind, id));
    }
    let made = done.get("id").and_then(Value::as_str);
    let made = made.ok_or_else(|| Failure::new("the controller names no enrollment"))?;
    let enrollment = resource::kind("enrollment");
    let enrollment = enrollment.ok_or_else(|| Failure::new("there is no kind `enrollment`"))?;
    Ok((enrollment, made))
}

/// Adds the defaults of a body.
fn fill_in(word: &str, body: &mut Map<String, Value>) {
    match word {
        DISABLE => {
            body.entry("durationMinutes").or_insert_with(|| 0.into());
        }
        TRACE if body.entry("enabled").or_insert_with(|| true.into()) == true => {
            body.entry("duration").or_insert_with(|| "5m".into());
        }
        _ => {}
    }
}

impl ActionRequest {
    /// The action of a command line, if it is one.
    pub(crate) fn from_matches(command: &str, matches: &ArgMatches) -> Option<Self> {
        let (name, matches) = matches.subcommand()?;
        let row = rows().find(|row| place(row) == (command, name))?;
        let mut body = flags::given(row.fields, matches);
        fill_in(row.word, &mut body);
        Some(Self {
            row,
            which: text(matches, "which")?,
            body,
            jwt: text(matches, token::FLAG).map(Into::into),
            format: Format::from_matches(matches),
            session: LoginChoice::from_arg_matches(matches).unwrap_or_default(),
        })
    }
}

/// Runs the action.
pub(crate) async fn run(request: ActionRequest) -> Result<()> {
    let ActionRequest { row, which, mut body, jwt, format, session } = request;
    let Row { kind, operation, word, fields } = row;
    if let Some(path) = &jwt {
        token::check(path)?;
    }
    let client = session.client().await?;
    let id = name::resolve(&client, kind, &which).await?;
    name::resolve_body(&client, kind, fields, &mut body).await?;
    let body = (!fields.is_empty()).then_some(Value::Object(body));
    let api = api_of(operation);
    let done: Value = client.call_in(api, operation, &[&id], &[], body.as_ref()).await?;
    if let Some(path) = &jwt {
        let (kind, id) = holder(kind, &id, &done)?;
        token::save(&client, kind, id, path).await?;
    }
    let says_nothing = done.as_object().is_none_or(Map::is_empty);
    output::value(format, &done, || {
        let mut text = match says_nothing {
            _ if READS.contains(&word) => read(word, &done),
            true => format!("{word} {} {which}: done", kind.name),
            false => table::one(&done),
        };
        if let Some(path) = &jwt {
            text.push_str(&format!("\nenrollment token in {}", path.display()));
        }
        text
    });
    Ok(())
}

/// The answer of an operation that only reads, in lines.
fn read(word: &str, answer: &Value) -> String {
    let lines = match word {
        REFUSALS => {
            let refused: Vec<_> = serde_json::from_value(answer.clone()).unwrap_or_default();
            posture::refusals(&refused)
        }
        _ => posture::reports(&serde_json::from_value(answer.clone()).unwrap_or_default()),
    };
    lines.iter().map(|line| printable::line(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn actions_are_found_in_the_tables() {
        let names: Vec<_> = rows().map(|row| place(&row)).collect();
        for wanted in [
            ("re-enroll", "edge-router"),
            ("refresh", "enrollment"),
            ("enable", "identity"),
            ("disable", "identity"),
            ("failed-service-requests", "identity"),
            ("posture-data", "identity"),
        ] {
            assert!(names.contains(&wanted), "{wanted:?} is not in {names:?}");
        }
    }

    #[test]
    fn the_token_of_a_new_enrollment_is_found() {
        let row = |wanted| rows().find(|row| place(row) == wanted).unwrap();
        let (authenticator, router) =
            (row(("re-enroll", "authenticator")), row(("re-enroll", "edge-router")));
        assert!(makes_token(&authenticator) && makes_token(&router));
        assert!(!makes_token(&row(("request-extend", "authenticator"))));
        let done = json!({"id": "new"});
        let (kind, id) = holder(authenticator.kind, "old", &done).unwrap();
        assert_eq!((kind.name, id), ("enrollment", "new"));
        let (kind, id) = holder(router.kind, "paris", &json!({}))
            .map(|(kind, id)| (kind, id.to_owned()))
            .unwrap();
        assert_eq!((kind.name, id.as_str()), ("edge-router", "paris"));
    }

    #[test]
    fn every_action_says_what_it_does() {
        for row in rows() {
            let about = about(row.word, std::slice::from_ref(&row));
            assert!(!about.starts_with("Operation"), "{}: {about}", row.word);
        }
    }

    #[test]
    fn what_goes_without_saying_is_filled_in() {
        let filled = |word, body: Value| {
            let mut body = body.as_object().unwrap().clone();
            fill_in(word, &mut body);
            Value::Object(body)
        };
        assert_eq!(filled(DISABLE, json!({})), json!({"durationMinutes": 0}));
        let given = json!({"durationMinutes": 30});
        assert_eq!(filled(DISABLE, given.clone()), given);
        assert_eq!(filled(TRACE, json!({})), json!({"enabled": true, "duration": "5m"}));
        assert_eq!(filled(TRACE, json!({"enabled": false})), json!({"enabled": false}));
        assert_eq!(filled("enable", json!({})), json!({}));
    }
}
