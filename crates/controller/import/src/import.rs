//! Reads a whole database.

use std::collections::{BTreeMap, HashSet};

use weft_bolt::{Bolt, BoltBucket, BoltContent};
use weft_model::{Entity, Kind, Revision, Snapshot, Timeline};

use crate::fields::{Fields, Stored, Taken, Untaken};
use crate::layout::{self, ROOT};
use crate::losses::{Loss, Losses};
use crate::section::Section;
use crate::sections::{Fate, SOURCES, Source};
use crate::whole::{self, Numbered};
use crate::{ImportError, Layout, Reported, sessions, signers};

/// A network, as weft takes it from a database of the original.
#[derive(Debug)]
pub struct Import {
    /// The layout of the database.
    pub layout: Layout,
    /// The place in the cluster's log up to which the database has all changes; `None` without a cluster.
    pub cluster_index: Option<u64>,
    /// Counts by kind.
    pub sections: Vec<Section>,
    /// What weft cannot keep, at most [`MAX_LOSSES`](crate::MAX_LOSSES).
    pub losses: Vec<Loss>,
    /// Number of further losses.
    pub unlisted_losses: u64,
    /// What is not taken because clients and routers report it again.
    pub reported: Vec<Reported>,
    /// API sessions with opaque tokens, and behind them the service sessions in them.
    pub sessions: Vec<Entity>,
    /// The certificates, in PEM, with whose keys its controllers have signed tokens; at most
    /// [`MAX_SIGNERS`](crate::MAX_SIGNERS). That of the controller with the database may be missing.
    pub signers: Vec<String>,
    /// The network.
    pub snapshot: Snapshot,
}

impl Import {
    /// Reads a database.
    ///
    /// # Errors
    /// If the file is damaged, if it is no database of a controller, or if its layout is not known.
    pub fn read(database: &Bolt) -> Result<Self, ImportError> {
        let layout = Layout::of(database)?;
        let root = database.bucket(&[ROOT])?.ok_or(ImportError::NoController("ziti"))?;
        let mut reader = Reader { layout, losses: Losses::default(), entities: Vec::new() };
        let mut sections = Vec::new();
        for (number, source) in SOURCES.iter().enumerate() {
            let bucket = root.bucket(source.bucket.as_bytes())?;
            sections.push(reader.section(number, source, bucket.as_ref())?);
        }
        let Reader { mut losses, mut entities, .. } = reader;
        whole::complete(&mut entities);
        whole::remove_repeated(&mut entities, &mut sections, &mut losses);
        let live = sessions::take_out(&mut entities);
        let mut loader = Snapshot::loader(Timeline::default(), Revision::default());
        for (_, entity) in entities {
            loader.put(entity)?;
        }
        let snapshot = loader.finish()?;
        whole::missing_references(&snapshot, &mut losses);
        whole::compare_rights(&root, &snapshot, &mut losses)?;
        let live = sessions::complete(live, &root, &snapshot, &mut sections, &mut losses)?;
        let (losses, unlisted_losses, reported) = losses.finish();
        count_lossy(&mut sections, &losses);
        let cluster_index = layout::cluster_index(&root)?;
        Ok(Self {
            layout,
            cluster_index,
            sections,
            losses,
            unlisted_losses,
            reported,
            sessions: live,
            signers: signers::signers(database)?,
            snapshot,
        })
    }
}

impl Import {
    /// The entities of the network, by kind and id, which is the order of a store.
    pub fn entities(&self) -> impl Iterator<Item = Entity> + '_ {
        Kind::ALL.iter().flat_map(move |kind| {
            let table = self.snapshot.table(*kind);
            let mut found: Vec<&Entity> =
                table.live().iter().filter_map(|ordinal| table.at(ordinal)).collect();
            found.sort_unstable_by(|one, other| one.id().cmp(other.id()));
            found.into_iter().cloned()
        })
    }

    /// Compares what was taken with the entities and sessions of a store: a problem for each kind of which the numbers differ.
    pub fn differences(&self, stored: &BTreeMap<Kind, u64>) -> Vec<String> {
        let mut taken = BTreeMap::<Kind, (u64, Vec<&str>)>::new();
        for section in &self.sections {
            if let Some(kind) = section.kind {
                let of = taken.entry(kind).or_default();
                of.0 += section.taken;
                of.1.push(section.name);
            }
        }
        let mut problems = Vec::new();
        for (kind, (number, names)) in &taken {
            let found = stored.get(kind).copied().unwrap_or_default();
            if found != *number {
                let names = names.join(", ");
                problems.push(format!("{names}: {number} were taken, and {found} are stored"));
            }
        }
        for (kind, found) in stored.iter().filter(|(kind, _)| !taken.contains_key(kind)) {
            problems.push(format!("{}: none was taken, and {found} are stored", kind.name()));
        }
        problems
    }
}

/// Counts the entities of each kind that are taken and lose something.
fn count_lossy(sections: &mut [Section], losses: &[Loss]) {
    for (section, source) in sections.iter_mut().zip(SOURCES) {
        let own = || losses.iter().filter(|loss| loss.kind == source.kind);
        let mut ids: HashSet<&str> = own().map(|loss| loss.id.as_str()).collect();
        own().filter(|loss| loss.field.is_empty()).for_each(|loss| {
            ids.remove(loss.id.as_str());
        });
        section.lossy = ids.len() as u64;
    }
}

/// What was read so far.
struct Reader {
    layout: Layout,
    losses: Losses,
    entities: Vec<Numbered>,
}

impl Reader {
    /// Reads the entities of a bucket.
    fn section(
        &mut self,
        number: usize,
        source: &Source,
        bucket: Option<&BoltBucket<'_>>,
    ) -> Result<Section, ImportError> {
        let mut section = Section { name: source.name, found: 0, taken: 0, lossy: 0, kind: None };
        for entry in bucket.into_iter().flat_map(BoltBucket::entries) {
            let entry = entry?;
            // Entities are buckets; a value among them belongs to none.
            let BoltContent::Bucket(entity) = entry.content else { continue };
            section.found += 1;
            let read = match &source.fate {
                Fate::Counted => continue,
                fate => Stored::read(source.kind, &entry.key, &entity).map(|stored| {
                    let mut fields = Fields { stored, losses: &mut self.losses };
                    let taken = take(&mut fields, fate, self.layout);
                    (taken, fields.stored.name)
                }),
            };
            let (taken, name) = read.unwrap_or_else(|untaken| (Err(untaken), String::new()));
            match taken {
                Ok(entity) => {
                    section.taken += 1;
                    section.kind = Some(entity.kind());
                    self.entities.push((number, entity));
                }
                Err(Untaken::Damaged(error)) => return Err(error.into()),
                Err(Untaken::Entity(reason)) => {
                    let id = String::from_utf8_lossy(&entry.key).into_owned();
                    self.losses.add(Loss { kind: source.kind, id, name, field: "", reason });
                }
            }
        }
        Ok(section)
    }
}

/// Reads one entity.
fn take(fields: &mut Fields<'_, '_>, fate: &Fate, layout: Layout) -> Taken<Entity> {
    match fate {
        Fate::Taken(read) => read(fields, layout),
        Fate::Lost(reason) => {
            fields.name()?;
            Err(Untaken::Entity((*reason).to_owned()))
        }
        Fate::Counted => Err(Untaken::Entity(String::new())),
    }
}
