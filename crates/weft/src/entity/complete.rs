//! Completion of names by the shell, from the controller if there is a login.
//!
//! A completion must not be in the way: it waits at most 0.9 s for each answer of the controller, and
//! offers nothing without an answer.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use serde_json::Value;
use tokio::runtime::Builder;
use weft_client::ManagementClient;
use weft_contract::kind::Kind;
use weft_contract::{Api, filter_text, resource};

use super::operations::{APIS, api_of, kind_of};
use crate::output::printable;
use crate::session::LoginChoice;

/// Longest time for one answer of the controller.
const PATIENCE: Duration = Duration::from_millis(900);
/// Most names that are offered.
const OFFERED: &str = "100";

/// Completes names of a collection, each with `prefix` in front. In a list separated by commas the
/// last item is completed.
pub(crate) fn names(collection: &'static str, prefix: &'static str) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let Some((before, word)) = split(current) else { return Vec::new() };
        let Some(begun) = word.strip_prefix(prefix) else { return Vec::new() };
        candidates(&before, &found(collection, begun), prefix)
    })
}

/// Completes roles that select from a collection: `#attribute`, `@name`, `#all`.
pub(super) fn roles(collection: &'static str) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let Some((before, word)) = split(current) else { return Vec::new() };
        if let Some(begun) = word.strip_prefix('@') {
            return candidates(&before, &found(collection, begun), "@");
        }
        let begun = word.strip_prefix('#').unwrap_or_default();
        let mut words = in_use(collection);
        words.push("all".to_owned());
        words.retain(|word| word.starts_with(begun));
        candidates(&before, &words, "#")
    })
}

/// Completes role attributes of the entities in a collection.
pub(super) fn attributes(collection: &'static str) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let Some((before, word)) = split(current) else { return Vec::new() };
        let mut words = in_use(collection);
        words.retain(|attribute| attribute.starts_with(&word));
        candidates(&before, &words, "")
    })
}

/// Completes the two words of `--of KIND NAME`: the kind, then names of all these kinds, one question
/// for each.
pub(super) fn parents(kinds: Vec<&'static Kind>) -> ArgValueCompleter {
    struct Parents(Vec<&'static Kind>);

    impl clap_complete::engine::ValueCompleter for Parents {
        fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
            self.complete_at(0, current)
        }

        fn complete_at(&self, at: usize, current: &OsStr) -> Vec<CompletionCandidate> {
            let Some(begun) = current.to_str() else { return Vec::new() };
            let names: Vec<String> = if at == 0 {
                self.0.iter().map(|kind| kind.name.to_owned()).collect()
            } else {
                self.0.iter().flat_map(|kind| found(kind.plural, begun)).collect()
            };
            let names: Vec<String> =
                names.into_iter().filter(|name| name.starts_with(begun)).collect();
            candidates("", &names, "")
        }
    }

    ArgValueCompleter::new(Parents(kinds))
}

/// Completes fixed words.
pub(crate) fn words(known: &'static [&'static str]) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let begun = current.to_str().unwrap_or_default();
        let fitting = known.iter().filter(|word| word.starts_with(begun));
        fitting.map(|word| CompletionCandidate::new(*word)).collect::<Vec<_>>()
    })
}

/// Completes ids of operations.
pub(crate) fn operations() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let begun = current.to_str().unwrap_or_default();
        let rows = APIS.iter().flat_map(|api| resource::operations(*api));
        let mut ids: Vec<String> =
            rows.map(|row| row.id.to_owned()).filter(|id| id.starts_with(begun)).collect();
        ids.sort();
        ids.dedup();
        candidates("", &ids, "")
    })
}

/// The text up to the last comma, and the text behind it.
fn split(current: &OsStr) -> Option<(String, String)> {
    let text = current.to_str()?;
    Some(match text.rsplit_once(',') {
        Some((before, word)) => (format!("{before},"), word.to_owned()),
        None => (String::new(), text.to_owned()),
    })
}

fn candidates(before: &str, words: &[String], prefix: &str) -> Vec<CompletionCandidate> {
    words.iter().map(|word| CompletionCandidate::new(format!("{before}{prefix}{word}"))).collect()
}

/// Asks the controller; empty if there is no login, or no answer within [`PATIENCE`].
fn ask(question: impl AsyncFnOnce(ManagementClient) -> Option<Vec<String>>) -> Vec<String> {
    let choice = LoginChoice::of_environment();
    let Ok((_, login)) = choice.saved() else { return Vec::new() };
    let Ok(client) = ManagementClient::resume(&login) else { return Vec::new() };
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let has_ended = login.tokens.is_some_and(|tokens| tokens.have_ended());
    let asked = async {
        let client = match has_ended {
            true => choice.client_of_tokens().await.ok().flatten()?,
            false => client,
        };
        question(client).await
    };
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await });
    runtime.shutdown_background();
    answer.ok().flatten().unwrap_or_default()
}

/// Names in a collection that begin with `begun`; ids of entities without names.
fn found(collection: &'static str, begun: &str) -> Vec<String> {
    ask(async |client| {
        let kind = kind_of(collection)?;
        let list = kind.list()?;
        let named = kind.columns.iter().any(|column| column.pointer == "/name");
        let filter = match named && !begun.is_empty() {
            true => format!("name contains {} sort by name", filter_text(begun)),
            false if named => "true sort by name".to_owned(),
            false => "true".to_owned(),
        };
        let query = [("filter", filter.as_str()), ("limit", OFFERED)];
        let page = client.page_in::<Value>(api_of(list), list, &[], &query).await.ok()?;
        let member = if named { "name" } else { "id" };
        let names = page.items.iter().filter_map(|item| item.get(member)?.as_str());
        // Names that a shell would misread are left out.
        let names = names.filter(|name| printable::line(name) == **name);
        Some(names.filter(|name| name.starts_with(begun)).map(str::to_owned).collect())
    })
}

/// Role attributes in use in a collection.
fn in_use(collection: &'static str) -> Vec<String> {
    ask(async |client| {
        let path = kind_of(collection)?.role_attributes?;
        let row = resource::operations(Api::Management).find(|row| row.path == path)?;
        let page = client.page_in::<String>(Api::Management, row, &[], &[("limit", OFFERED)]);
        Some(page.await.ok()?.items)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_item_is_completed() {
        let (before, word) = split(OsStr::new("a,b,c")).unwrap();
        assert_eq!((before.as_str(), word.as_str()), ("a,b,", "c"));
        let words = ["#x".to_owned()];
        let made = candidates("a,", &words, "");
        assert_eq!(made[0].get_value(), "a,#x");
    }
}
