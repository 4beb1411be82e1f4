//! Compares indexes with entities, and references with the entities that they name.

use futures::FutureExt as _;
use weft_contract::resource::config::CONFIG_TYPE_COLLECTION;
use weft_kernel::decision::Decision;
use weft_kernel::{Failure, Result};
use weft_model::entity::{Config, ConfigTarget, ConfigType};
use weft_model::integrity::{self, Dangling};
use weft_model::{Base, Change, Id, Kind, Snapshot};

use crate::Controller;
use crate::domain::integrity::run::Report;

impl Controller {
    /// Checks the indexes. A fix builds all of them anew from the entities, because they are only
    /// in memory.
    pub(super) async fn examine_indexes(&self, fix: bool, report: &Report) -> Result<(), String> {
        let snapshot = self.kernel().snapshot();
        let looked = tokio::task::spawn_blocking(move || {
            let mut found = Vec::new();
            snapshot.verify_indexes(&mut |text| found.push(text));
            found
        });
        let found = looked.await.map_err(|error| error.to_string())?;
        if found.is_empty() {
            return Ok(());
        }
        let fixed = fix && self.rebuild_indexes().await;
        found.into_iter().for_each(|text| report.found(text, fixed));
        Ok(())
    }

    async fn rebuild_indexes(&self) -> bool {
        let rebuilt = self.kernel().writer().alone(Box::new(|published| {
            async move {
                let made = tokio::task::spawn_blocking(move || published.rebuilt()).await;
                let made = made.map_err(|error| error.to_string())?;
                made.map(Some).map_err(|error| error.to_string())
            }
            .boxed()
        }));
        match rebuilt.await {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(error, "the indexes of the model could not be rebuilt");
                false
            }
        }
    }

    /// Checks references. A fix treats an entity with a dangling reference as the deletion of the
    /// target would have done.
    pub(super) async fn examine_references(&self, fix: bool, report: &Report) {
        let dangling = self.kernel().snapshot().dangling();
        for ((kind, id), references) in integrity::referrers(&dangling) {
            let name = id.clone();
            let fixed = self.mends(fix, move |decision| mend(decision, kind, &name)).await;
            let shown = references.iter().map(|one| described(one));
            shown.for_each(|text| report.found(text, fixed));
        }
    }
}

fn described(one: &Dangling) -> String {
    match (one.kind, one.link) {
        (Kind::AuthPolicy, 1) => {
            format!("{one}: no identity can log in by it; name another signer")
        }
        _ => one.to_string(),
    }
}

fn mend(decision: &mut Decision<'_>, kind: Kind, id: &Id) -> Result<()> {
    let tip = decision.tip();
    if !tip.contains(kind, id) {
        return Ok(());
    }
    if let Some(config) = tip.get::<Config>(id).filter(|_| kind == Kind::Config) {
        return restore_type(decision, &config.config_type_id);
    }
    let changes = integrity::mend(tip, kind, id, decision.now());
    let changes = changes.ok_or_else(|| Failure::unhandled("a replacement is unknown"))?;
    for change in changes {
        match change {
            Change::Put(entity) => decision.put(entity),
            Change::Delete(kind, id) => decision.delete_if_there(kind, &id)?,
            Change::Cold { .. } => {}
        }
    }
    Ok(())
}

/// Makes a type without schema for a config whose type is missing, so that the config keeps its
/// data.
fn restore_type(decision: &mut Decision<'_>, id: &Id) -> Result<()> {
    if decision.tip().contains(Kind::ConfigType, id) {
        return Ok(());
    }
    decision.put(ConfigType {
        base: Base::new(id.clone(), decision.now()),
        name: free_name(decision.tip(), id).as_str().into(),
        target: ConfigTarget::default(),
        ..ConfigType::default()
    });
    Ok(())
}

fn free_name(tip: &Snapshot, id: &Id) -> String {
    let name = format!("restored-{id}");
    match tip.by_name::<ConfigType>(&name) {
        None => name,
        Some(_) => format!("restored-{CONFIG_TYPE_COLLECTION}-{id}"),
    }
}
