//! Running of a request over the API, and printing of its result.

use std::path::Path;

use serde_json::{Map, Value, json};
use weft_client::ManagementClient;
use weft_contract::body::Verb;
use weft_contract::kind::Kind;
use weft_contract::resource::answers::ANSWERS;
use weft_contract::schema::Schema;
use weft_contract::{Method, Operation, Response};

use super::listing::{Listing, Order};
use super::operations::{api_of, list_below, on_one};
use super::request::{Action, ListRequest, Request};
use super::{clear, name, schema, token};
use crate::failure::{Failure, Result};
use crate::output::progress::{bar, spinner};
use crate::output::table::{self, Column, Rows};
use crate::output::{self, Format, Stream, counted};
use crate::{ask, weak};

/// Number of entities above which the progress of a list is shown.
const LONG: i64 = 2000;

/// Runs a request.
pub(crate) async fn run(request: Request) -> Result<()> {
    let client = request.session.client().await?;
    let Request { kind, format, .. } = request;
    let entities = Entities { client: &client, kind, format };
    match request.action {
        Action::Create { body, jwt } => entities.create(body, jwt.as_deref()).await,
        Action::List(wanted) => entities.list(wanted).await,
        Action::Show { which } => entities.show(&which).await,
        Action::Update { which, body, replace } => entities.update(&which, body, replace).await,
        Action::Delete { filter: Some(filter), yes, .. } => entities.clear(filter, yes).await,
        Action::Delete { which, .. } => entities.delete(&which).await,
    }
}

/// The entities of a kind at a controller.
struct Entities<'c> {
    client: &'c ManagementClient,
    kind: &'static Kind,
    format: Format,
}

impl Entities<'_> {
    fn offered(
        &self,
        operation: Option<&'static Operation>,
        done: &str,
    ) -> Result<&'static Operation> {
        operation.ok_or_else(|| {
            Failure::usage(format!("{} cannot be {done} through the API", self.kind.plural))
        })
    }

    async fn call(
        &self,
        operation: &Operation,
        ids: &[&str],
        body: Option<&Value>,
    ) -> Result<Value> {
        Ok(self.client.call_in(api_of(operation), operation, ids, &[], body).await?)
    }

    async fn create(&self, mut body: Map<String, Value>, jwt: Option<&Path>) -> Result<()> {
        let operation = self.offered(self.kind.create(), "created")?;
        if jwt.is_some() && self.kind.name == "identity" && !body.contains_key("enrollment") {
            body.insert("enrollment".to_owned(), json!({"ott": true}));
        }
        if let Some(path) = jwt {
            token::check(path)?;
        }
        name::resolve_body(self.client, self.kind, self.kind.fields, &mut body).await?;
        warn_of_weak(&body);
        let has_data = body.contains_key("data");
        let made = self.call(operation, &[], Some(&Value::Object(body))).await?;
        let id = made.get("id").and_then(Value::as_str).unwrap_or_default();
        if has_data {
            self.remark(id).await;
        }
        if let Some(path) = jwt {
            let saved = token::save(self.client, self.kind, id, path).await;
            saved.map_err(|failure| {
                failure.during(format!("{} {id} was created", self.kind.name))
            })?;
        }
        output::value(self.format, &made, || {
            let made = format!("created {} {id}", self.kind.name);
            match jwt {
                Some(path) => format!("{made}\nenrollment token in {}", path.display()),
                None => made,
            }
        });
        Ok(())
    }

    /// Says what hosts and tunnelers do not do as a config says it.
    async fn remark(&self, id: &str) {
        let Some(detail) = self.kind.detail().filter(|_| self.kind.name == "config") else {
            return;
        };
        // The config is written, whether or not it can be read back.
        let Ok(config) = self.call(detail, &[id], None).await else { return };
        let kind = config.pointer("/configType/name").and_then(Value::as_str).unwrap_or_default();
        for remark in weft_tunnel::config::remarks(kind, &config["data"].to_string()) {
            output::note(format_args!("weft: {remark}"));
        }
    }

    async fn list(&self, wanted: ListRequest) -> Result<()> {
        let none = self.why_none(&wanted);
        let (operation, ids) = match &wanted.of {
            None => (self.offered(self.kind.list(), "listed")?, Vec::new()),
            Some((parent, which)) => {
                let operation = list_below(parent, self.kind);
                let below = format!("listed of a {}", parent.name);
                let operation = self.offered(operation, &below)?;
                (operation, vec![name::resolve(self.client, parent, which).await?])
            }
        };
        let mut query = wanted.query;
        self.resolve_query(&mut query).await?;
        let columns = self.columns(operation, &wanted.columns)?;
        let order = match wanted.sort {
            Some(order) => Order::Said(order),
            // Without a stated order the list is sorted by name, unless the filter has an order.
            None if wanted.filter.as_deref().is_some_and(says_order) => Order::AsIs,
            None if name::is_named(self.kind) => Order::By("name"),
            None if self.kind.fields.is_empty() => Order::AsIs,
            None => Order::By("id"),
        };
        let listing = Listing::new(self.client, api_of(operation), operation, ids)
            .filtered(wanted.filter)
            .ordered(order)
            .limited(wanted.limit)
            .explaining(wanted.explain)
            .asking(query);
        let printed = self.print(listing, columns, wanted.explain, &none).await;
        printed.map_err(|failure| with_symbols(failure, operation))
    }

    /// Why a list may be empty, behind the number of its entries.
    fn why_none(&self, wanted: &ListRequest) -> String {
        let filter = wanted.filter.as_deref().is_some_and(|filter| !filter.trim().is_empty());
        match (&wanted.of, filter) {
            (_, true) => ": none passes the filter".to_owned(),
            (Some((parent, which)), false) => format!(": the {} {which} has none", parent.name),
            (None, false) if self.kind.create().is_some() => {
                format!(": there are none yet, `weft create {}` makes one", self.kind.name)
            }
            (None, false) => ": there are none at the moment".to_owned(),
        }
    }

    /// The columns of a list. A member that its answers do not have is refused.
    fn columns(&self, operation: &Operation, wanted: &[String]) -> Result<Vec<Column>> {
        let answer = answer(operation);
        let is_title =
            |name: &str| self.kind.columns.iter().any(|it| it.title.eq_ignore_ascii_case(name));
        for name in wanted.iter().filter(|name| !is_title(name)) {
            let path: Vec<&str> = name.split('.').collect();
            if let Some(schema) = answer
                && !knows(schema, &path)
            {
                let problem = format!("--columns {name}: {} have no such member", self.kind.plural);
                let failure = Failure::usage(problem);
                return Err(match schema {
                    Schema::Object(object) => {
                        let members = object.all().into_iter().map(|it| it.name);
                        failure.and(format!("they have {}", members.collect::<Vec<_>>().join(", ")))
                    }
                    _ => failure,
                });
            }
        }
        Ok(Column::of(self.kind, wanted))
    }

    async fn print(
        &self,
        mut listing: Listing<'_>,
        columns: Vec<Column>,
        explain: bool,
        none: &str,
    ) -> Result<()> {
        if self.format == Format::Table {
            self.print_table(&mut listing, columns, none).await?;
        } else {
            let mut stream = Stream::new(self.format);
            while let Some(page) = listing.next().await? {
                page.iter().for_each(|entity| stream.item(entity));
            }
            stream.end();
        }
        let missing: Vec<&str> = listing.missing_controllers().collect();
        if !missing.is_empty() {
            output::say(format!(
                "not complete, since there is no answer of these controllers: {}",
                missing.join(", ")
            ));
        }
        if explain {
            let unsaid = match self.kind.name {
                "link" | "circuit" => {
                    format!("looking at all; {} are in memory, without indexes", self.kind.plural)
                }
                _ => "the controller does not say".to_owned(),
            };
            output::say(format!("found by: {}", listing.explained().unwrap_or(&unsaid)));
        }
        Ok(())
    }

    async fn print_table(
        &self,
        listing: &mut Listing<'_>,
        columns: Vec<Column>,
        none: &str,
    ) -> Result<()> {
        let mut rows = Rows::new(columns);
        let mut progress = None;
        while let Some(page) = listing.next().await? {
            page.iter().for_each(|entity| rows.push(entity));
            if let Some(total) = listing.total().filter(|total| *total > LONG) {
                let total = u64::try_from(total).unwrap_or_default();
                let bar = progress.get_or_insert_with(|| bar(total, self.kind.plural));
                bar.set_position(rows.count() as u64);
            }
        }
        if let Some(progress) = progress {
            progress.finish_and_clear();
        }
        let count = counted(rows.count(), self.kind.name, self.kind.plural);
        if rows.count() == 0 {
            output::line(count + none);
            return Ok(());
        }
        let more = "--columns chooses what is shown, --output json shows everything";
        output::rows(&rows, &format!("\n{count}"), more);
        Ok(())
    }

    /// Replaces names with ids in query parameters that refer to entities.
    async fn resolve_query(&self, query: &mut [(&'static str, String)]) -> Result<()> {
        for (parameter, value) in query {
            if *parameter == "asIdentity"
                && let Some(kind) = weft_contract::resource::kind("identity")
            {
                *value = name::resolve(self.client, kind, value).await?;
            }
        }
        Ok(())
    }

    async fn show(&self, which: &str) -> Result<()> {
        let operation = self.offered(self.kind.detail(), "shown")?;
        let id = name::resolve(self.client, self.kind, which).await?;
        let entity = self.call(operation, &[&id], None).await?;
        output::value(self.format, &entity, || match self.kind.name {
            "config-type" => schema::shown(&entity),
            _ => table::one(&entity),
        });
        Ok(())
    }

    async fn update(&self, which: &str, mut body: Map<String, Value>, replace: bool) -> Result<()> {
        let (operation, verb) = match replace {
            true => (self.offered(on_one(self.kind, Method::Put), "replaced")?, Verb::Replace),
            false => (self.offered(on_one(self.kind, Method::Patch), "updated")?, Verb::Patch),
        };
        if body.is_empty() {
            return Err(Failure::usage(format!(
                "nothing to change was given; `weft update {} --help` lists what can be",
                self.kind.name
            )));
        }
        let id = name::resolve(self.client, self.kind, which).await?;
        name::resolve_body(self.client, self.kind, self.kind.fields, &mut body).await?;
        self.complete(&id, &mut body, verb).await?;
        clear::settle(self.kind, verb, &mut body);
        warn_of_weak(&body);
        let has_data = body.contains_key("data");
        self.call(operation, &[&id], Some(&Value::Object(body))).await?;
        if has_data {
            self.remark(&id).await;
        }
        output::value(self.format, &json!({"id": id}), || {
            format!("updated {} {id}", self.kind.name)
        });
        Ok(())
    }

    /// Adds the members that the API requires besides those that change, with their present values.
    async fn complete(&self, id: &str, body: &mut Map<String, Value>, verb: Verb) -> Result<()> {
        let wanted = self.kind.fields.iter().filter(|field| field.need.covers(verb));
        let missing: Vec<&str> =
            wanted.map(|field| field.name).filter(|name| !body.contains_key(*name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let detail = self.offered(self.kind.detail(), "shown")?;
        let entity = self.call(detail, &[id], None).await?;
        for name in missing {
            if let Some(value) = entity.get(name).filter(|value| !value.is_null()) {
                body.insert(name.to_owned(), value.clone());
            }
        }
        Ok(())
    }

    async fn delete(&self, which: &[String]) -> Result<()> {
        // All names are resolved first, so that a misspelled one deletes nothing.
        let mut ids = Vec::with_capacity(which.len());
        for name in which {
            ids.push((name::resolve(self.client, self.kind, name).await?, name.clone()));
        }
        self.remove(&ids).await
    }

    /// Deletes all entities that pass a filter, after asking.
    async fn clear(&self, filter: String, yes: bool) -> Result<()> {
        const SHOWN: usize = 10;
        let operation = self.offered(self.kind.list(), "listed")?;
        let mut listing = Listing::new(self.client, api_of(operation), operation, Vec::new())
            .filtered(Some(filter));
        let looking = spinner(format!("looking for {}", self.kind.plural));
        let mut found = Vec::new();
        while let Some(page) = listing.next().await? {
            found.extend(page.iter().filter_map(|entity| {
                let id = entity.get("id")?.as_str()?.to_owned();
                let name = entity.get("name").and_then(Value::as_str).unwrap_or(&id).to_owned();
                Some((id, name))
            }));
        }
        looking.finish_and_clear();
        if found.is_empty() {
            output::line(format!("no {} pass the filter", self.kind.plural));
            return Ok(());
        }
        if !yes {
            let names: Vec<&str> =
                found.iter().take(SHOWN).map(|(_, name)| name.as_str()).collect();
            let more = match found.len() - names.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let count = counted(found.len(), self.kind.name, self.kind.plural);
            output::say(format!("{count}: {}{more}", names.join(", ")));
            let cannot = "there is no terminal for a question; delete without asking with --yes";
            if !ask::confirm("Delete them?", cannot).await? {
                return Err(Failure::new("nothing was deleted"));
            }
        }
        self.remove(&found).await
    }

    async fn remove(&self, found: &[(String, String)]) -> Result<()> {
        let operation = self.offered(on_one(self.kind, Method::Delete), "deleted")?;
        let progress = bar(found.len() as u64, format!("deleting {}", self.kind.plural));
        for (at, (id, name)) in found.iter().enumerate() {
            let done = self.call(operation, &[id], None).await;
            if let Err(failure) = done {
                progress.finish_and_clear();
                let failure = failure.during(format!("{} {name}", self.kind.name));
                return Err(match at {
                    0 => failure,
                    _ => failure.and(format!("{at} of {} were deleted before", found.len())),
                });
            }
            progress.inc(1);
            if self.format == Format::Table {
                progress.suspend(|| output::line(format!("deleted {} {name}", self.kind.name)));
            }
        }
        progress.finish_and_clear();
        if self.format != Format::Table {
            let ids: Vec<&String> = found.iter().map(|(id, _)| id).collect();
            output::value(self.format, &json!(ids), String::new);
        }
        Ok(())
    }
}

/// The schema of the entities in the answer of a list.
fn answer(operation: &Operation) -> Option<&'static Schema> {
    let Response::List(name) = operation.response else { return None };
    ANSWERS.iter().find(|(known, _)| *known == name).map(|(_, schema)| schema)
}

/// The failure of a list, with the members that were probably meant by an unknown symbol of its filter
/// or order.
fn with_symbols(failure: Failure, operation: &Operation) -> Failure {
    const MOST: usize = 3;
    let text = failure.to_string();
    let unknown = text.split_once("unknown symbol '").and_then(|(_, rest)| rest.split_once('\''));
    let (Some((unknown, _)), Some(Schema::Object(object))) = (unknown, answer(operation)) else {
        return failure;
    };
    let near = weft_config::similar(unknown, object.all().into_iter().map(|it| it.name), MOST);
    match near.is_empty() {
        true => failure,
        false => failure.and(format!("did you mean `{}`?", near.join("`, `"))),
    }
}

/// True if an answer can have the member at this path. Free-form members can have any.
fn knows(schema: &'static Schema, path: &[&str]) -> bool {
    let [first, rest @ ..] = path else { return true };
    match schema {
        Schema::Object(object) => {
            let members = object.all();
            let member = members.iter().find(|member| member.name == *first);
            member.is_some_and(|member| knows(&member.schema, rest))
        }
        Schema::Nullable(inner) => knows(inner, path),
        Schema::Number => false,
        Schema::Plain(_) | Schema::Any | Schema::List(_) | Schema::Map(_) => true,
    }
}

/// True if a filter has an order.
fn says_order(filter: &str) -> bool {
    filter.to_lowercase().contains("sort by")
}

/// Warns of a weak password in a body.
fn warn_of_weak(body: &Map<String, Value>) {
    let text = |member: &str| body.get(member).and_then(Value::as_str);
    if let Some(password) = text("password") {
        weak::warn(text("username").unwrap_or_default(), password);
    }
}

#[cfg(test)]
mod tests {
    use weft_contract::resource::KINDS;

    use super::*;

    #[test]
    fn columns_that_answers_do_not_have_are_known() {
        let (_, link) = ANSWERS.iter().find(|(name, _)| *name == "linkDetail").unwrap();
        for path in [&["id"][..], &["sourceRouter", "name"], &["connections", "0"]] {
            assert!(knows(link, path), "{path:?}");
        }
        for path in [&["bogus"][..], &["sourceRouter", "bogus"], &["ID"], &[""]] {
            assert!(!knows(link, path), "{path:?}");
        }
    }

    #[test]
    fn every_usual_column_is_a_member() {
        for kind in KINDS {
            let Some(Response::List(name)) = kind.list().map(|list| list.response) else {
                continue;
            };
            let (_, schema) = ANSWERS.iter().find(|(known, _)| *known == name).unwrap();
            for column in kind.columns {
                let path: Vec<&str> = column.pointer.split('/').skip(1).collect();
                assert!(knows(schema, &path), "{}: {}", kind.name, column.pointer);
            }
        }
    }
}
