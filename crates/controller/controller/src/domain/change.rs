//! A whole network as a document, and changes to it that are decided as one: weft's own API.
//!
//! ```text
//! document --document--> entries --plan--> one change set --report--> what changes, who gains
//!                                   |                                  and loses access
//!                                   `-- on a snapshot, entity by entity, with the rules of each
//!                                       resource; the next entity sees the ones before it
//! ```
//!
//! A *plan* is decided on the published snapshot and thrown away. *Apply* hands the same change set
//! to the writer. If the tip is still the snapshot of the plan, the writer takes the change set as
//! it is; if not, a new plan is made, and the last of them may be decided again on the tip, with the same
//! prepared values, if that takes little of the writer's time. A document is applied as a whole or not at all,
//! and after the time limit of the request nothing is given to the writer any more.
//!
//! - `document`: reads a document into entries, and reports every mistake with its place;
//! - `section`: the trait by which a kind of entity takes part in documents, and the table of the
//!   kinds that do;
//! - `form`: an entity as an entry: names in place of ids, defaults left out; `reader`: an entry as a body;
//! - `plan`: decides, with the entries of `prepared`; `net`: the changes that result; `report`: says which
//!   members change and who gains or loses access; `export`: writes the network as a document.

mod document;
mod export;
mod form;
mod mistakes;
mod moved;
mod net;
mod plan;
mod prepared;
mod problems;
mod reader;
mod report;
mod section;

use std::sync::Arc;
use std::time::{Duration, Instant};

use document::Document;
use plan::Planned;
use prepared::Prepared;
use report::Report;
use tokio::runtime::Handle;
use weft_contract::json::count_values;
use weft_contract::resource::change::{ChangeBody, ChangePlan, MAX_TIME, MAX_VALUES};
use weft_contract::{Api, ErrorCode, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::work_limiter::WorkLimiter;
use weft_kernel::{Call, Caller, Failure, Reply, Result, Wait};
use weft_model::{Meter, Snapshot};

use crate::Controller;
use crate::domain::change::moved::moved;

/// The operations of documents.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Weft, "exportNetwork", &export::handler),
    (Api::Weft, "planChange", &plan_change),
    (Api::Weft, "applyChange", &apply_change),
];

/// Plans that may be made at the same time: each may keep a processor busy for seconds.
const PLANS: usize = 2;
/// Times that one apply makes its plan, because the network changed meanwhile.
const TRIES: u32 = 8;
/// Units of work of one plan: some 40 s of a processor, in which each entry of the largest document is decided a few
/// times.
const BUDGET: u64 = 1 << 31;
/// Longest time that making a plan may have taken that the writer then decides again: meanwhile no other change
/// is decided.
const AGAIN: Duration = Duration::from_millis(200);

/// The limiter of work on plans. Callers take turns, however many documents each of them sends; a request
/// waits for a permit until its own deadline.
pub(crate) fn limiter() -> WorkLimiter {
    WorkLimiter::new(PLANS, MAX_TIME)
}

async fn plan_change(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    check_permissions(&caller)?;
    let until = Instant::now() + MAX_TIME;
    let (limiter, asking) = (controller.plans().clone(), caller.clone());
    let plan = on_its_own(&limiter, &asking, async move {
        let body = read(&call)?;
        let document = Document::read(&body)?;
        let caller = heard_again(&controller, &caller)?;
        let made = make(&controller, &caller, &document, until).await?;
        expect(&body, &made.report)?;
        Ok(made.report.plan)
    })
    .await?;
    Reply::detail(&plan)
}

async fn apply_change(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    check_permissions(&caller)?;
    let until = Instant::now() + MAX_TIME;
    let (limiter, asking) = (controller.plans().clone(), caller.clone());
    let work = async move {
        let body = read(&call)?;
        apply(&controller, &caller, &body, until, &call.wait).await
    };
    let applied = on_its_own(&limiter, &asking, work).await?;
    Reply::detail(&applied)
}

/// Reads the body of a request. Its values are counted first, because a short text may have very many.
fn read(call: &Call) -> Result<ChangeBody> {
    let values = count_values(&call.body);
    if values > MAX_VALUES {
        let reason = format!(
            "{values} values, at most {MAX_VALUES} are taken: send the network in several documents"
        );
        return Err(Failure::field("network", reason, ""));
    }
    call.decode(Verb::Create)
}

/// Refuses a caller without any permission before its document is read. Permissions for the single
/// entities are checked later, entry by entry.
fn check_permissions(caller: &Caller) -> Result<()> {
    if caller.is_admin() || caller.login().is_some_and(|login| !login.permissions.is_empty()) {
        return Ok(());
    }
    Err(Failure::unauthorized("changing the network needs permissions"))
}

/// The caller as it is now: documents take long to arrive, and wait for their turn. A caller that has lost its
/// session or every permission meanwhile is refused.
fn heard_again(controller: &Controller, caller: &Caller) -> Result<Caller> {
    let now = controller.auth().resolve_again(caller);
    check_permissions(&now).map(|()| now)
}

/// True if both callers may do the same.
fn has_rights_of(one: &Caller, other: &Caller) -> bool {
    let rights = |caller: &Caller| {
        caller.login().map(|login| (login.is_admin, login.complete, login.permissions.clone()))
    };
    rights(one) == rights(other)
}

/// Runs long work on a thread of its own when it is the caller's turn, so that requests of others
/// are not held up.
async fn on_its_own<T: Send + 'static>(
    limiter: &WorkLimiter,
    caller: &Caller,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let runtime = Handle::current();
    limiter.work(caller, move || runtime.block_on(work)).await
}

/// A plan, and the report about it.
struct Made {
    before: Arc<Snapshot>,
    planned: Planned,
    prepared: Prepared,
    report: Report,
    /// How long it took to make the plan.
    took: Duration,
}

/// Makes a plan on the published snapshot.
async fn make(
    controller: &Controller,
    caller: &Caller,
    document: &Document,
    until: Instant,
) -> Result<Made> {
    let (before, begun) = (controller.kernel().snapshot(), Instant::now());
    let meter = controller.plans().asked_by(caller).until(until).meter(BUDGET);
    let (planned, prepared) = plan::make(controller, caller, document, &before, &meter).await?;
    let took = begun.elapsed();
    let report = Report::of(controller, caller, document, &before, &planned, &meter)?;
    Ok(Made { before, planned, prepared, report, took })
}

/// Refuses a plan whose fingerprint is not the one that the request expects.
fn expect(body: &ChangeBody, report: &Report) -> Result<()> {
    let plan = &report.plan;
    let conflict = |field: &str, reason: String, value: String| {
        Err(Failure::coded_field(ErrorCode::PlanHasChanged, field, reason, value))
    };
    match body.expect_revision {
        Some(expected) if expected != plan.revision => {
            let reason = format!("the network is at revision {} now", plan.revision);
            return conflict("expectRevision", reason, expected.to_string());
        }
        _ => {}
    }
    match &body.expect_plan {
        Some(expected) if *expected != plan.plan => {
            let reason = format!("the document would make other changes now: plan {}", plan.plan);
            conflict("expectPlan", reason, expected.clone())
        }
        _ => Ok(()),
    }
}

/// Makes a plan and has it decided by the writer.
async fn apply(
    controller: &Controller,
    caller: &Caller,
    body: &ChangeBody,
    until: Instant,
    wait: &Wait,
) -> Result<ChangePlan> {
    let document = Document::read(body)?;
    let mut caller = heard_again(controller, caller)?;
    for attempt in 1..=TRIES {
        let made = make(controller, &caller, &document, until).await?;
        // The rights of the caller are those of the snapshot that the plan was made on, or the plan is made
        // again: the writer only takes it while the network is at that snapshot.
        let now = heard_again(controller, &caller)?;
        if !has_rights_of(&now, &caller) {
            caller = now;
            continue;
        }
        if made.planned.is_empty() {
            // The network is as the document wants it: a repeated apply succeeds. The writer knows whether it still is.
            match submit(controller, &caller, &document, made, false).await? {
                Some(applied) => return Ok(applied),
                None => continue,
            }
        }
        expect(body, &made.report)?;
        if Instant::now() >= until || !wait.begin() {
            // The caller's deadline is over, and the caller was told so: the plan is not applied.
            return Err(Failure::timed_out());
        }
        let again = attempt == TRIES && may_be_decided_again(body, made.took);
        match submit(controller, &caller, &document, made, again).await? {
            Some(applied) => return Ok(applied),
            None => wait.take_back(),
        }
        tokio::task::yield_now().await;
    }
    heard_again(controller, &caller)?;
    let text = format!(
        "nothing is changed: the network changed {TRIES} times while the plan was made; send the document \
         again, or in smaller parts"
    );
    Err(Failure::because(ErrorCode::ServerTooManyRequests, text))
}

/// Whether the writer may decide a plan again on the tip, which keeps it busy. A caller that expects a
/// fingerprint gets that plan or a refusal.
fn may_be_decided_again(body: &ChangeBody, took: Duration) -> bool {
    body.expect_plan.is_none() && body.expect_revision.is_none() && took < AGAIN
}

/// Gives a plan to the writer; none if the network changed since the plan was made.
async fn submit(
    controller: &Controller,
    caller: &Caller,
    document: &Document,
    made: Made,
    may_decide_again: bool,
) -> Result<Option<ChangePlan>> {
    let Made { before, planned, prepared, report, .. } = made;
    let base = before.revision();
    let decided = Arc::new(parking_lot::Mutex::new(None));
    let result = {
        let (caller, document, planned_at) = (caller.clone(), document.clone(), planned.planned_at);
        let (changes, decided) = (planned.changes.clone(), Arc::clone(&decided));
        let asked = controller.clone();
        controller
            .kernel()
            .submit(move |tip| {
                if !has_rights_of(&asked.auth().resolve_on(tip, &caller), &caller) {
                    return Err(moved());
                }
                if tip.revision() == base {
                    return Ok(changes.clone());
                }
                if !may_decide_again {
                    return Err(moved());
                }
                let again = plan::again(&caller, &document, tip, &prepared, planned_at)?;
                let changes = again.changes.clone();
                *decided.lock() = Some((Arc::new(tip.clone()), again));
                Ok(changes)
            })
            .await
    };
    let done = match result {
        Ok(done) => done,
        Err(failure) if failure == moved() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let report = match decided.lock().take() {
        // The change is made: its report is not refused.
        Some((tip, again)) => {
            Report::of(controller, caller, document, &tip, &again, &Meter::default())?
        }
        None => report,
    };
    let revision = i64::try_from(done.revision.0).unwrap_or(i64::MAX);
    Ok(Some(ChangePlan { applied: true, revision, ..report.plan }))
}

#[cfg(test)]
mod tests;
