//! The network as a document, page by page. Sections that the caller may not read are refused. Entities of other such
//! kinds, to which entries refer, are named by their ids.

use serde_json::{Map, Value};
use weft_contract::resource::change::{MAX_PAGE, NetworkExport};
use weft_kernel::work_limiter::BUDGET;
use weft_kernel::{Call, Caller, Failure, QueryParameters, Reply, Result, gate};
use weft_model::filter::parse_param;
use weft_model::{Meter, Part};

use super::form::EntryWriter;
use super::section::{self, SECTIONS};
use crate::Controller;
use crate::domain::context::Context;

/// Units of work of an entity as an entry of a document.
pub(super) const SHOWN: u64 = 256;
/// Entities on a page if the request has no limit.
const PAGE: usize = 1000;

/// Handles the GET of the network as a document.
pub(super) async fn handler(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let wanted = Wanted::read(&call.query)?;
    for place in &wanted.sections {
        if let Some(row) = SECTIONS.get(*place).and_then(|section| section.kind().list()) {
            gate::pass(&caller, row)?;
        }
    }
    let context = controller.context(&caller).without_tickets();
    let request = controller.kernel().scans().asked_by(&caller);
    let meter = request.meter(BUDGET);
    Reply::detail(&request.work(move || page(&context, &wanted, &meter)).await?)
}

/// The part of the network that a request asks for.
struct Wanted {
    /// Sections, by their place in the table.
    sections: Vec<usize>,
    /// The entity after which the page begins: its section and name.
    after: Option<(usize, String)>,
    limit: usize,
}

impl Wanted {
    fn read(query: &QueryParameters) -> Result<Self> {
        let known = |name: &str| {
            section::place(name).ok_or_else(|| {
                let known: Vec<&str> = SECTIONS.iter().map(|it| it.kind().plural).collect();
                let reason = format!("there is no such section; there is {}", known.join(", "));
                Failure::field("sections", reason, name)
            })
        };
        let words = query.all("sections").flat_map(|text| text.split(','));
        let words = words.map(str::trim).filter(|word| !word.is_empty());
        let mut sections = words.map(known).collect::<Result<Vec<_>, _>>()?;
        if sections.is_empty() {
            sections = (0..SECTIONS.len()).collect();
        }
        sections.sort_unstable();
        sections.dedup();
        let after = match query.get("after").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => {
                let wrong = || Failure::field("after", "must be the `next` of a page", text);
                let (section, name) = text.split_once('/').ok_or_else(wrong)?;
                Some((section::place(section).ok_or_else(wrong)?, name.to_owned()))
            }
        };
        let limit = match query.get("limit") {
            None => PAGE,
            Some(text) => {
                let limit = parse_param("limit", text)?;
                usize::try_from(limit.clamp(1, MAX_PAGE)).unwrap_or(PAGE)
            }
        };
        Ok(Self { sections, after, limit })
    }
}

fn page(context: &Context, wanted: &Wanted, meter: &Meter) -> Result<NetworkExport> {
    let writer = EntryWriter::for_caller(context);
    let snapshot = context.snapshot();
    let mut network = Map::new();
    let mut count = 0;
    for place in &wanted.sections {
        let Some(section) = SECTIONS.get(*place) else { continue };
        let behind = match &wanted.after {
            Some((after, _)) if after > place => continue,
            Some((after, name)) if after == place => Some(name.as_str()),
            _ => None,
        };
        let mut entities = Vec::new();
        let found = snapshot.table(section.model()).behind_name(behind);
        for entity in found.filter(|entity| section.holds(entity)) {
            meter.take(Part::Rows, SHOWN)?;
            let members = writer.write(*place, entity);
            if !EntryWriter::is_worth_telling(entity, &members) {
                continue;
            }
            let name = entity.name().map(|name| name.to_string()).unwrap_or_default();
            entities.push(Value::Object(members));
            count += 1;
            if count == wanted.limit {
                let plural = section.kind().plural;
                network.insert(plural.to_owned(), entities.into());
                return Ok(finished(context, network, Some(format!("{plural}/{name}"))));
            }
        }
        if !entities.is_empty() {
            network.insert(section.kind().plural.to_owned(), entities.into());
        }
    }
    Ok(finished(context, network, None))
}

fn finished(context: &Context, network: Map<String, Value>, next: Option<String>) -> NetworkExport {
    let revision = i64::try_from(context.snapshot().revision().0).unwrap_or(i64::MAX);
    NetworkExport { network, next, revision }
}
