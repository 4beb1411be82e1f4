//! The data model on disk: one gzip stream of a full state, as original routers write it
//! (docs/protocol/edge-control-plane.md 8.2).

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use weft_identity::write_private;
use weft_wire::edge_ctrl::data_model::DataState;
use weft_wire::{FrameLimits, ProtoBody as _};

use super::model::Model;

/// Largest state that is read, in bytes after decompression: as much as fits into one message.
const MAX_STATE: u64 = FrameLimits::MODEL_BODY as u64;

/// Why a model was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The file cannot be read now; its content may be good.
    #[error("it cannot be read: {0}")]
    Unread(io::Error),
    /// The file was read, and its content is no model.
    #[error("{0}")]
    Damaged(String),
}

/// Reads a model; `None` if there is no file.
pub(crate) fn load(path: &Path) -> Result<Option<Model>, LoadError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LoadError::Unread(error)),
    };
    let mut packed = Source { file, error: None };
    let mut bytes = Vec::new();
    let unpacked = GzDecoder::new(&mut packed).take(MAX_STATE + 1).read_to_end(&mut bytes);
    if let Some(error) = packed.error {
        return Err(LoadError::Unread(error));
    }
    unpacked.map_err(|error| LoadError::Damaged(error.to_string()))?;
    if bytes.len() as u64 > MAX_STATE {
        return Err(LoadError::Damaged(format!("more than {MAX_STATE} bytes unpacked")));
    }
    let state = DataState::from_body(&bytes);
    let state = state.map_err(|error| LoadError::Damaged(error.to_string()))?;
    Ok(Some(Model::from_state(state)))
}

/// A file that remembers that it could not be read.
struct Source {
    file: File,
    error: Option<io::Error>,
}

impl io::Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.file.read(out).map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::Interrupted {
                self.error = Some(error);
            }
            kind.into()
        })
    }
}

/// Renames a file that cannot be used, so that an operator can look at it. A file renamed before is
/// replaced. Returns the new path.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    let aside = PathBuf::from(name);
    std::fs::rename(path, &aside)?;
    Ok(aside)
}

/// Writes a model, whole or not at all. The file names identities and has configs, so that only the
/// router's user may read it. The model is encoded event by event: as a whole, a large one would take
/// several times its memory.
pub(crate) fn save(path: &Path, model: &Model) -> io::Result<()> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let mut length = 0;
    let mut write = |part: DataState| {
        let body = part.to_body();
        length += body.len() as u64;
        if length > MAX_STATE {
            return Err(io::Error::other(format!(
                "more than {MAX_STATE} bytes, which are the most"
            )));
        }
        packed.write_all(&body)
    };
    // The encodings of parts, one after the other, are the encoding of the whole.
    for event in model.events() {
        write(DataState { events: vec![event], ..DataState::default() })?;
    }
    write(DataState {
        events: Vec::new(),
        end_index: model.index,
        timeline_id: model.timeline.clone(),
        caches: model.caches.clone(),
    })?;
    write_private(path, &packed.finish()?).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use weft_wire::edge_ctrl::data_model::{ChangeSet, PolicyType};

    use super::*;
    use crate::access::compare::compare;
    use crate::tests::events;

    #[test]
    fn a_model_is_written_in_parts_as_one_state_and_changes_meanwhile_are_left_out() {
        let mut model = Model { timeline: "line1".into(), index: 7, ..Model::default() };
        model.caches.insert("terminators".into(), Default::default());
        let mut changes = vec![events::new_identity("alice")];
        changes.push(events::new_service("web"));
        changes.extend(events::policy("p1", PolicyType::Dial, "alice", "web"));
        model.apply(ChangeSet { changes, is_synthetic: true, ..ChangeSet::default() });
        let picture = model.clone();
        let changes = vec![events::delete(events::Model::Identity(events::identity("alice")))];
        model.apply(ChangeSet { changes, index: 8, ..ChangeSet::default() });

        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("model");
        save(&path, &picture).unwrap();
        let read = load(&path).unwrap().unwrap();
        assert_eq!((read.timeline.as_str(), read.index), ("line1", 7));
        assert_eq!(read.caches, picture.caches);
        assert!(compare(&picture, &read).diffs.is_empty());
        assert!(!compare(&model, &read).diffs.is_empty());
        let mut written = Vec::new();
        GzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut written).unwrap();
        let whole = DataState {
            events: picture.events().collect(),
            end_index: picture.index,
            timeline_id: picture.timeline.clone(),
            caches: picture.caches.clone(),
        };
        assert_eq!(written, whole.to_body());
    }
}
