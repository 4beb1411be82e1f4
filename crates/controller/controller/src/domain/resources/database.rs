//! Snapshots and checks of the database (docs/protocol/management-api.md 7.10;
//! docs/protocol/operations.md 1.2).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_contract::envelope::Pagination;
use weft_contract::resource::database::{
    IntegrityDetail, IntegrityResult, SnapshotBody, SnapshotDetail,
};
use weft_contract::{Api, Meta, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::Timestamp;
use weft_store::BackupError;

use crate::Controller;
use crate::domain::integrity::run::Run;

/// Path of a snapshot if the request names none.
const DEFAULT_PATH: &str = "__DB_DIR__/__DB_FILE__-__DATE__-__TIME__";
/// Longest path of a snapshot, in bytes.
const MAX_PATH: usize = 4096;

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "createDatabaseSnapshot", &snapshot),
    (Api::Fabric, "createDatabaseSnapshot", &snapshot),
    (Api::Fabric, "createDatabaseSnapshotWithPath", &snapshot_at),
    (Api::Management, "checkDataIntegrity", &check),
    (Api::Fabric, "checkDataIntegrity", &check),
    (Api::Management, "fixDataIntegrity", &fix),
    (Api::Fabric, "fixDataIntegrity", &fix),
    (Api::Management, "dataIntegrityResults", &results),
    (Api::Fabric, "dataIntegrityResults", &results),
];

impl Controller {
    /// Writes a snapshot of the database while the controller goes on. Returns the path of the
    /// file.
    pub(crate) async fn write_snapshot(&self, caller: &Caller, path: &str) -> Result<PathBuf> {
        let now = self.kernel().now();
        let store = Arc::clone(&self.kernel().settings().store);
        let path = if path.is_empty() { DEFAULT_PATH } else { path };
        let revision = self.kernel().snapshot().revision().0;
        let folder = self.kernel().settings().snapshot_folder.clone();
        let folder = folder.or_else(|| Some(folder_of(store.file()?))).ok_or_else(|| {
            let reason = "name a folder for snapshots (snapshots.folder) in the configuration";
            Failure::field("path", reason, path)
        })?;
        let path = fill(path, store.file(), revision, now)?;
        let confined = tokio::task::spawn_blocking(move || confine(&path, &folder)).await;
        let path = confined.map_err(|error| Failure::unhandled(error.to_string()))??;
        let permit = self.snapshots().permit(now)?;
        caller.begin()?;
        let revision = store.backup(&path).await.map_err(|error| refused(&path, &error))?;
        permit.written(now);
        tracing::info!(path = %path.display(), %revision, "a snapshot of the database was written");
        Ok(path)
    }
}

fn refused(path: &Path, error: &BackupError) -> Failure {
    let shown = path.display().to_string();
    match error {
        error if error.is_full() => Failure::unwritable(format!("no snapshot was made: {error}")),
        BackupError::Write(error) => Failure::field("path", error.to_string(), shown),
        BackupError::Fold(error) => Failure::unwritable(format!("no snapshot was made: {error}")),
        BackupError::Read(error) => Failure::unhandled(error.to_string()),
    }
}

/// The absolute path of the folder of a database.
fn folder_of(database: &Path) -> PathBuf {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The path of a snapshot, confined to the folder for snapshots: a caller of the API is no user of
/// the machine and must not write elsewhere. A relative path is relative to that folder.
fn confine(path: &Path, folder: &Path) -> Result<PathBuf> {
    let shown = path.display().to_string();
    let path = folder.join(path);
    let wrong = |reason: String| Failure::field("path", reason, shown.clone());
    let (Some(parent), Some(_)) = (path.parent(), path.file_name()) else {
        return Err(wrong("must name a file".into()));
    };
    let real = |folder: &Path| {
        let found = std::fs::canonicalize(folder);
        found.map_err(|error| wrong(format!("{}: {error}", folder.display())))
    };
    if real(parent)?.starts_with(real(folder)?) {
        return Ok(path);
    }
    let below = folder.display();
    Err(wrong(format!("snapshots are written below {below} only (snapshots.folder)")))
}

/// A path with its placeholders replaced. Each placeholder also has a form without underscores
/// (docs/protocol/operations.md 1.2).
fn fill(path: &str, database: Option<&Path>, revision: u64, now: Timestamp) -> Result<PathBuf> {
    if path.len() > MAX_PATH || path.contains('\0') {
        let reason = format!("must be a path of at most {MAX_PATH} bytes");
        return Err(Failure::field("path", reason, ""));
    }
    let (folder, file) = match database {
        Some(database) => {
            let folder = folder_of(database);
            let folder = folder.to_string_lossy();
            let file = database.file_name().unwrap_or_default().to_string_lossy();
            (folder.into_owned(), file.into_owned())
        }
        None if ["DB_DIR", "DB_FILE"].iter().any(|word| path.contains(word)) => {
            let reason = "the database does not lie in a file; name a path without placeholders";
            return Err(Failure::field("path", reason, path));
        }
        None => (String::new(), String::new()),
    };
    let at = time::OffsetDateTime::from_unix_timestamp(now.secs())
        .map_err(|error| Failure::unhandled(error.to_string()))?;
    let date = format!("{:04}{:02}{:02}", at.year(), u8::from(at.month()), at.day());
    let clock = format!("{:02}{:02}{:02}", at.hour(), at.minute(), at.second());
    let words = [
        ("RAFT_INDEX", revision.to_string()),
        ("DB_FILE", file),
        ("DB_DIR", folder),
        ("DATE", date),
        ("TIME", clock),
    ];
    Ok(substitute(path, &words).into())
}

/// Replaces words by values, from left to right; words inside a value are not replaced.
fn substitute(text: &str, words: &[(&str, String)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    'text: while let Some(first) = rest.chars().next() {
        for (word, value) in words {
            for form in [&*format!("__{word}__"), *word] {
                if let Some(behind) = rest.strip_prefix(form) {
                    filled.push_str(value);
                    rest = behind;
                    continue 'text;
                }
            }
        }
        filled.push(first);
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    filled
}

async fn snapshot(controller: Controller, caller: Caller, _call: Call) -> Result<Reply> {
    controller.write_snapshot(&caller, "").await?;
    Reply::empty()
}

async fn snapshot_at(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: SnapshotBody = call.decode_optional(Verb::Create)?;
    let path = body.path.as_deref().unwrap_or_default();
    let path = controller.write_snapshot(&caller, path).await?;
    Reply::detail(&SnapshotDetail { path: path.display().to_string() })
}

async fn check(controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    start(&controller, false)
}

async fn fix(controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    start(&controller, true)
}

fn start(controller: &Controller, fixing: bool) -> Result<Reply> {
    controller.check_integrity(fixing)?;
    Ok(Reply::empty()?.with_status(202))
}

async fn results(controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    let run = controller.integrity().last();
    let count = i64::try_from(run.results.len()).unwrap_or(i64::MAX);
    let pagination = Pagination { limit: -1, offset: 0, total_count: count };
    let meta = Meta { pagination: Some(pagination), ..Meta::versions() };
    Reply::detail_with(&shown(run), meta)
}

fn shown(run: Run) -> IntegrityDetail {
    let results = run
        .results
        .into_iter()
        .map(|found| IntegrityResult { description: found.description, fixed: found.fixed });
    IntegrityDetail {
        end_time: run.ended.map(convert::time),
        error: run.error,
        fixing_errors: run.fixing,
        in_progress: run.in_progress,
        results: run.started.is_some().then(|| results.collect()),
        start_time: run.started.map(convert::time),
        too_many_errors: run.too_many,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_767_323_045_000);

    fn filled(path: &str) -> String {
        let database = Path::new("/var/lib/weft/ctrl.db");
        fill(path, Some(database), 42, NOW).unwrap().display().to_string()
    }

    #[test]
    fn placeholders_are_filled_once() {
        assert_eq!(filled(DEFAULT_PATH), "/var/lib/weft/ctrl.db-20260102-030405");
        assert_eq!(filled("/b/DATE/TIME/RAFT_INDEX"), "/b/20260102/030405/42");
        assert_eq!(filled("DB_DIR/x__DB_FILE__"), "/var/lib/weft/xctrl.db");
        assert_eq!(filled("/plain/päth"), "/plain/päth");
        let odd = fill("DB_FILE", Some(Path::new("DATE.db")), 1, NOW).unwrap();
        assert_eq!(odd, Path::new("DATE.db"), "what was put in is not filled again");
    }

    #[test]
    fn a_snapshot_lies_below_its_folder_and_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("snapshots");
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        std::fs::create_dir(place.path().join("snapshots-not")).unwrap();
        for fine in ["a.db", "deep/a.db", "deep/../a.db"] {
            assert_eq!(confine(Path::new(fine), &folder).unwrap(), folder.join(fine), "{fine}");
        }
        let whole = folder.join("a.db");
        assert_eq!(confine(&whole, &folder).unwrap(), whole);
        #[cfg(unix)]
        std::os::unix::fs::symlink(place.path(), folder.join("out")).unwrap();
        let beside = place.path().join("snapshots-not/a.db").display().to_string();
        for wrong in
            ["../a.db", "deep/../../a.db", "/etc/a.db", "out/a.db", "none/a.db", "..", "", &beside]
        {
            let refused = confine(Path::new(wrong), &folder).unwrap_err();
            assert_eq!(refused.field_name(), Some("path"), "{wrong}");
        }
    }

    #[test]
    fn paths_that_cannot_be_are_refused() {
        for path in ["a\0b", &"x".repeat(5000)] {
            assert_eq!(fill(path, None, 1, NOW).unwrap_err().field_name(), Some("path"));
        }
        assert!(fill(DEFAULT_PATH, None, 1, NOW).is_err());
        assert!(fill("/tmp/x", None, 1, NOW).is_ok());
    }
}
