//! Makes the folder of a controller of weft from the files of the original's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use weft_auth::keyring::note_of_earlier_signer;
use weft_bolt::{Bolt, BoltError};
use weft_config::ControllerConfig;
use weft_identity::{Certificate, Identity, IdentitySection};
use weft_import::{Import, LogRest};
use weft_model::entity::Identity as NetworkIdentity;
use weft_model::{Entity, Kind};
use weft_store::{Embedded, Options, Space, Store as _};

use super::database::read;
use super::folder::{Before, Building, Place};
use super::original::{Original, OriginalFile, digest_of};
use super::report::{self, Report};
use super::trust::{self, Trusted};
use super::{Judgement, file, judge};
use crate::cli::ImportArgs;
use crate::compose::keys::{self, Material};
use crate::failure::{Failure, Result};
use crate::output::{self, Format};

/// What belongs to one import.
struct Source<'a> {
    original: &'a Original,
    file: &'a OriginalFile,
    keys: Vec<Trusted>,
    import: Import,
    /// The configuration, with keys and certificates in it.
    config: ControllerConfig,
    /// Days in which the network may go back.
    way_back: u16,
}

/// Makes the folder, all of it or nothing.
pub(super) async fn make(original: &Original, folder: &Path, args: &ImportArgs) -> Result<()> {
    let Some(file) = &original.file else {
        return Err(Failure::usage(format!(
            "{} is a database: name the controller's file, whose keys and certificates are needed, and the copy of the \
             database with --database",
            original.database.display()
        )));
    };
    let place = Place::new(folder)?;
    let keys = trust::read(file)?;
    // The database stays locked until everything is done.
    let (_locked, import) = read(&original.database)?;
    let source = source_of(original, file, &keys)?;
    match (place.before(&source)?, args.force) {
        (Before::Same, false) => {
            say_same(&place, args.format);
            return Ok(());
        }
        (Before::Other, false) => {
            return Err(Failure::usage(format!(
                "{} is the result of another import, so that a controller that runs with it has the network of that time: \
                 --force makes it anew, and keeps what is there beside it",
                place.root().display()
            )));
        }
        _ => {}
    }
    let Judgement { mut problems, notes, config } = judge(file, &keys)?;
    problems.extend(behind(&import, &original.database, args.index));
    let database = original.database.as_path();
    let report =
        Report { database, import: &import, keys: Some(&keys), notes: &notes, problems: &problems };
    let (mut values, text) = (report::values(&report), report::text(&report));
    let Some(config) = config.filter(|_| problems.is_empty()) else {
        output::value(args.format, &values, || text + "\n\nnothing was written");
        return Err(Failure::refused(format!("nothing was written: {}", problems.join("; "))));
    };
    // What is lost is told before anything is written.
    if args.format == Format::Table {
        output::value(args.format, &Value::Null, || text);
    }
    let made = Source { original, file, keys, import, config, way_back: args.way_back };
    let (replaced, stored) = made.write(place.begin()?, &source).await?;
    let place = Place::new(folder)?;
    if let Some(values) = values.as_object_mut() {
        let file = place.file().display().to_string();
        let replaced = replaced.as_ref().map(|path| path.display().to_string());
        let written = json!({ "file": file, "stored": stored, "replaced": replaced });
        values.insert("written".to_owned(), written);
    }
    output::value(args.format, &values, || {
        let mut text = made.summary(&place, &stored);
        if let Some(replaced) = &replaced {
            text.push_str(&format!("\nwhat was there is now {}", replaced.display()));
        }
        text
    });
    Ok(())
}

fn say_same(place: &Place, format: Format) {
    let file = place.file().display().to_string();
    let values = json!({ "written": null, "file": file });
    output::value(format, &values, || {
        format!(
            "{} is this import already: nothing was written. --force makes it anew, and keeps what is there beside it",
            place.root().display()
        )
    });
}

/// The digest of everything that is imported.
fn source_of(original: &Original, file: &OriginalFile, keys: &[Trusted]) -> Result<String> {
    let mut digest = Sha256::new();
    digest.update(digest_of(&original.database)?);
    let mut part = |text: &[u8]| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    };
    part(file.text.as_bytes());
    for (path, content) in trust::contents(keys) {
        part(path.as_bytes());
        part(content);
    }
    Ok(hex::encode(digest.finalize()))
}

/// The time at which so many days are over, to the minute; none for no days.
fn until(days: u16) -> Result<Option<String>> {
    if days == 0 {
        return Ok(None);
    }
    let end = OffsetDateTime::now_utc() + Duration::days(i64::from(days));
    let to_the_minute =
        end.replace_second(0).and_then(|end| end.replace_nanosecond(0)).unwrap_or(end);
    let written = to_the_minute.format(&Rfc3339);
    written.map(Some).map_err(|error| Failure::caused_by(&error))
}

/// The log of a cluster, beside its database.
const LOG: &str = "raft.db";

/// A problem with the log of a cluster, which may have changes that the database has not.
pub(super) fn behind(import: &Import, database: &Path, accepted: Option<u64>) -> Option<String> {
    let index = import.cluster_index?;
    if accepted == Some(index) {
        return None;
    }
    let path = database.with_file_name(LOG);
    let log = path.display();
    let read = || Bolt::open(&path).and_then(|log| LogRest::read(&log, index));
    let (why, without) = if !path.exists() {
        (
            format!("there is no {LOG} beside it, which would tell whether this is all"),
            String::new(),
        )
    } else {
        match read() {
            Ok(rest) if rest.changes == 0 => return None,
            Ok(LogRest { changes, last }) => (
                format!(
                    "{log} has {changes} changes behind that, up to index {last}: start OpenZiti's controller once, and \
                     stop it"
                ),
                format!(", without these {changes} changes"),
            ),
            Err(BoltError::InUse(_)) => (
                format!(
                    "whether this is all is in {log}, which nobody can read while the controller runs that has it"
                ),
                String::new(),
            ),
            Err(error) => (crate::failure::chain(&error), String::new()),
        }
    };
    let wrong = accepted.map(|wrong| format!(", and {wrong} is another index")).unwrap_or_default();
    Some(format!(
        "{}: the database of a cluster's member, which has all changes up to index {index} of the cluster's log; {why}. \
         Import the member with the highest index; --index {index} accepts the database as it is{without}{wrong}",
        database.display()
    ))
}

impl Source<'_> {
    /// Writes everything. Returns the new name of the folder that was there, and the numbers of stored entities.
    async fn write(
        &self,
        building: Building,
        source: &str,
    ) -> Result<(Option<std::path::PathBuf>, BTreeMap<String, u64>)> {
        trust::write(&self.keys, &building.trust())?;
        let path = building.database();
        let sessions = self.import.sessions.iter().cloned();
        let signers = self.signers()?.into_values();
        weft_store::create(&path, self.import.entities(), sessions, signers)
            .map_err(|error| Failure::caused_by(&error))?;
        let counted = count(&path).await?;
        let differences = self.import.differences(&counted);
        if !differences.is_empty() {
            let problem = differences.join("; ");
            return Err(Failure::new(format!("nothing was written: {problem}")));
        }
        building.write_file(&self.text(building.place(), self.way_back)?)?;
        let about = json!({
            "database": self.original.database.display().to_string(),
            "file": self.file.path.display().to_string(),
            "layout": self.import.layout.number(),
            "clusterIndex": self.import.cluster_index,
        });
        let stored = self.import.sections.iter().filter_map(|section| {
            let kind = section.kind?;
            Some((section.name.to_owned(), counted.get(&kind).copied().unwrap_or_default()))
        });
        let stored = stored.collect();
        Ok((building.finish(source, about)?, stored))
    }

    /// The notes of the certificates with whose keys the controllers of the original have signed tokens.
    fn signers(&self) -> Result<BTreeMap<String, (Space, String, Bytes)>> {
        let own = Identity::load(&self.config.identity.clone().with_controller_defaults())?;
        let own = own.signing().map(|chain| chain.leaf().clone());
        // Of the others the database may have what no program reads: their tokens count as little then.
        let read = |pem: &String| Certificate::from_pem(pem.as_bytes()).ok()?.into_iter().next();
        let all = own.into_iter().chain(self.import.signers.iter().filter_map(read));
        let notes = all.filter_map(|leaf| {
            Some((leaf.fingerprint().to_owned(), note_of_earlier_signer(&leaf)?))
        });
        Ok(notes.collect())
    }

    /// The controller's file.
    fn text(&self, place: &Place, way_back: u16) -> Result<String> {
        let database = place.database().display().to_string();
        let places = |path: &str| trust::place_in(&self.keys, place.root(), path);
        let mut text = file::converted(self.file, &database, &places)?.text;
        if self.config.trust_domain.is_none() {
            text.push_str(&format!(
                "\n# Name of the network in certificates. Do not change it: certificates carry it.\ntrustDomain: {}\n",
                Value::from(self.network_name()?)
            ));
        }
        if let Some(until) = until(way_back)? {
            text.push_str(&format!(
                "\n# Until then the network may go back to OpenZiti, and no certificate is renewed that lasts until then. Without\n\
                 # this key the network stays.\nwayBackUntil: {until}\n"
            ));
        }
        Ok(text)
    }

    /// The name that the network has had by its certificates.
    fn network_name(&self) -> Result<String> {
        let load = |section: &IdentitySection| Ok::<_, Failure>(Arc::new(Identity::load(section)?));
        let web = keys::with_identity(&self.config).filter_map(|server| server.identity.as_ref());
        let material = Material {
            own: load(&self.config.identity.clone().with_controller_defaults())?,
            signer: load(&keys::signer_section(&self.config)?)?,
            web: web.map(load).collect::<Result<_>>()?,
        };
        Ok(keys::network_name(&self.config, &material)?.name)
    }

    /// What was made, and what comes next.
    fn summary(&self, place: &Place, stored: &BTreeMap<String, u64>) -> String {
        let mut text = format!("wrote {}", place.root().display());
        let columns =
            [("KIND", "/name"), ("FOUND", "/found"), ("TAKEN", "/taken"), ("STORED", "/stored")];
        let rows = self.import.sections.iter().filter(|section| section.kind.is_some());
        let rows = rows.map(|section| {
            json!({
                "name": section.name,
                "found": section.found,
                "taken": section.taken,
                "stored": stored.get(section.name),
            })
        });
        report::part(&mut text, "", &columns, rows);
        let file = place.file().display().to_string();
        let has_admin =
            self.import.snapshot.list::<NetworkIdentity>().any(|it| it.is_default_admin);
        let init = match has_admin {
            true => String::new(),
            false => format!(
                "  weft controller init {file}    there is no default administrator, which weft needs\n"
            ),
        };
        text.push_str(&format!(
            "\n\nNext:\n  weft controller check {file}\n{init}  \
             weft controller run {file} --offline    to look at it: loopback only, no router\n  \
             weft controller run {file}    when OpenZiti's controller is stopped for good"
        ));
        text
    }
}

/// Counts the entities and sessions of a store, after a check of all of it.
pub(super) async fn count(path: &Path) -> Result<BTreeMap<Kind, u64>> {
    let failed = |error: &dyn std::error::Error| Failure::caused_by(error);
    let store = Embedded::open(path, Options::default()).map_err(|error| failed(&error))?;
    let mut counted = BTreeMap::new();
    let mut count = |entity: Entity| *counted.entry(entity.kind()).or_default() += 1;
    let loaded = store.load(&mut count);
    let live = store.live().load(&mut count);
    let closed = store.close().await;
    loaded.map_err(|error| failed(&error))?;
    live.map_err(|error| failed(&error))?;
    closed.map_err(|error| failed(&error))?;
    Ok(counted)
}
