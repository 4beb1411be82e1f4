//! Where the model is: the database of the original becomes the file of weft's store.

use std::path::PathBuf;

use super::edit::Editor;
use super::note::KeyOutcome;
use crate::yaml::{Environment, YamlValue, expand_text};

/// The database of the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginalDatabase {
    /// `db`: the file, of one controller.
    File(PathBuf),
    /// `cluster.dataDir`: the folder of one member of a cluster.
    ClusterFolder(PathBuf),
}

/// Writes the path of weft's store to `db`, and tells where the database of the original is.
pub(super) fn replace(
    editor: &mut Editor<'_>,
    store: &str,
    environment: &dyn Environment,
) -> Option<OriginalDatabase> {
    let text = |editor: &Editor<'_>, path: &str| match &editor.find(path)?.value {
        YamlValue::Text { text, .. } => Some(PathBuf::from(expand_text(text, environment))),
        _ => None,
    };
    let folder = text(editor, "cluster.dataDir").or_else(|| text(editor, "raft.dataDir"));
    let file = text(editor, "db");
    let of_cluster = ["cluster", "raft"].into_iter().find(|key| editor.is_set(key));
    let database = match (of_cluster, folder, file) {
        (Some(_), folder, _) => folder.map(OriginalDatabase::ClusterFolder),
        (None, _, file) => file.map(OriginalDatabase::File),
    };
    if editor.find("db").is_some() {
        let reason = match of_cluster {
            Some(_) => "OpenZiti takes its cluster in place of it; now it is weft's store",
            None => "it is weft's store now; OpenZiti's database stays where it is",
        };
        editor.replace("db", YamlValue::text(store));
        editor.note("db", KeyOutcome::Changed, reason);
    } else {
        editor.insert_before(of_cluster, "db", YamlValue::text(store));
    }
    database
}
