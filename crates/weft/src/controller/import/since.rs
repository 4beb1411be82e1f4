//! `weft controller import --since`: what the database of the original would not know, or would revive, if its controller
//! ran again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use weft_model::entity::{Authenticator, Identity, Mfa, Revocation, Router};
use weft_model::{Change, Entity, Id, Kind, Revision, Snapshot, Timeline, Timestamp};
use weft_store::{Hold, OpenError};

use super::database::read;
use super::original::Original;
use super::report;
use crate::failure::{Failure, Result};
use crate::output::{self, Format, counted};

/// Most differences that are printed.
const MAX_LISTED: usize = 100_000;

/// One difference.
pub(in crate::controller) struct Since {
    kind: Kind,
    id: Id,
    name: String,
    what: &'static str,
    /// What it means, or what to do.
    then: &'static str,
}

/// Prints the differences between a database of the original and a store of weft: that of a folder, or a snapshot.
pub(super) fn since(original: &Original, place: &Path, format: Format) -> Result<()> {
    note_other(original, place);
    let (_database, import) = read(&original.database)?;
    let file = store_in(place);
    let now = load(&file)?;
    let found = differences(
        &import.snapshot,
        &now,
        Timestamp::from_secs(time::OffsetDateTime::now_utc().unix_timestamp()),
    );
    let listed = found.iter().take(MAX_LISTED).map(Since::row).collect::<Vec<_>>();
    let unlisted = found.len().saturating_sub(MAX_LISTED);
    let values = json!({
        "original": original.database.display().to_string(),
        "weft": file.display().to_string(),
        "since": listed,
        "unlisted": unlisted,
    });
    output::value(format, &values, || {
        if found.is_empty() {
            return "OpenZiti's database knows everything that weft's knows, sessions aside"
                .to_owned();
        }
        let mut text = "If OpenZiti's controller ran again:".to_owned();
        append_table(&mut text, &found, MAX_LISTED);
        text
    });
    Ok(())
}

/// Appends a table of at most so many differences, and how many there are more.
pub(in crate::controller) fn append_table(text: &mut String, found: &[Since], most: usize) {
    let columns = [
        ("KIND", "/kind"),
        ("NAME", "/name"),
        ("ID", "/id"),
        ("SINCE", "/what"),
        ("THEN", "/then"),
    ];
    report::part(text, "", &columns, found.iter().take(most).map(Since::row));
    let unlisted = found.len().saturating_sub(most);
    if unlisted > 0 {
        text.push_str(&format!("\nand {}", counted(unlisted as u64, "more", "more")));
    }
}

/// Says so if a folder was made of another database: that of another member of a cluster has other times, too.
fn note_other(original: &Original, place: &Path) {
    let note = std::fs::read(place.join(super::folder::NOTE)).unwrap_or_default();
    let note: Value = serde_json::from_slice(&note).unwrap_or_default();
    let same = |one: &Path| std::fs::canonicalize(one).unwrap_or_else(|_| one.to_owned());
    if let Some(database) = note["database"].as_str()
        && same(Path::new(database)) != same(&original.database)
    {
        output::say(format_args!(
            "weft: {} was made of {database}; in the database of another network, or of another member of a cluster, \
             nearly everything is different",
            place.display()
        ));
    }
}

/// The store in a folder of an import, or the file itself.
fn store_in(place: &Path) -> PathBuf {
    if place.is_dir() { place.join(super::folder::DATABASE) } else { place.to_owned() }
}

/// The model of a store, which stays as it is.
pub(in crate::controller) fn load(file: &Path) -> Result<Snapshot> {
    if !file.is_file() {
        return Err(Failure::usage(format!("there is no store of weft at {}", file.display())));
    }
    let failed = |error: &dyn std::error::Error| Failure::caused_by(error);
    let _held = Hold::take(file).map_err(|error| {
        let failure = failed(&error);
        match error {
            OpenError::InUse(_) => failure.and(
                "`weft database snapshot FILE` copies the store of a controller that runs; --since takes the copy",
            ),
            _ => failure,
        }
    })?;
    let mut loader = Snapshot::loader(Timeline::default(), Revision::default());
    let mut refused = None;
    let read = weft_store::read_backup(file, &mut |entity| {
        if let Err(error) = loader.put(entity) {
            refused.get_or_insert(error);
        }
    });
    let head = read.map_err(|error| failed(&error))?;
    loader.set_position(head.timeline, head.revision);
    match refused {
        Some(error) => Err(failed(&error)),
        None => loader.finish().map_err(|error| failed(&error)),
    }
}

/// Everything that is different, by kind and name.
pub(in crate::controller) fn differences(
    before: &Snapshot,
    now: &Snapshot,
    at: Timestamp,
) -> Vec<Since> {
    let mut found = Vec::new();
    for kind in Kind::ALL.iter().copied().filter(|kind| is_compared(*kind)) {
        let former = before.table(kind);
        for old in former.live().iter().filter_map(|ordinal| former.at(ordinal)) {
            let said: Vec<Said> = match now.entity(kind, old.id()) {
                None if counts(old, at) => vec![("deleted", if_revived(kind))],
                None => Vec::new(),
                Some(new) => changed(old, new, at),
            };
            let named = |(what, then)| Since::of(before, old, what, then);
            found.extend(said.into_iter().map(named));
        }
        let after = now.table(kind);
        for new in after.live().iter().filter_map(|ordinal| after.at(ordinal)) {
            let is_known = before.entity(kind, new.id()).is_some();
            if !is_known && counts(new, at) {
                found.push(Since::of(now, new, "made", if_unknown(kind)));
            }
        }
    }
    found.sort_by(|one, other| {
        (one.kind, &one.name, &one.id).cmp(&(other.kind, &other.name, &other.id))
    });
    found
}

/// Controllers keep entries of their own for themselves.
fn is_compared(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::ControllerMember | Kind::ControllerSetting | Kind::ApiSession | Kind::ServiceSession
    )
}

/// Whether an entity that only one of both has is worth a word: programs make their terminators again, and ended tokens need no
/// revocation.
fn counts(entity: &Entity, at: Timestamp) -> bool {
    match entity {
        Entity::Terminator(terminator) => terminator.host_id.is_empty(),
        Entity::Revocation(revocation) => revocation.expires_at > at,
        other => !other.base().is_system,
    }
}

/// What it means that the other database has an entity that was deleted.
fn if_revived(kind: Kind) -> &'static str {
    match kind {
        Kind::Identity => "it is back, with all its rights: delete it again",
        Kind::Authenticator => "whoever has it logs in again: delete it again",
        Kind::Mfa => "it is asked for again",
        Kind::Enrollment => "its token is good again, also if it was used: delete it",
        Kind::Router => "it is back, and may connect: delete it again",
        Kind::Ca | Kind::ExtJwtSigner => {
            "who has its certificates or tokens logs in again: delete it again"
        }
        Kind::Revocation => "what it revoked stays revoked until its end",
        _ => "it is back: delete it again",
    }
}

/// What it means that the other database has not an entity that was made.
fn if_unknown(kind: Kind) -> &'static str {
    match kind {
        Kind::Identity => "it is not known: make it again, and enroll it anew",
        Kind::Authenticator => "nobody logs in with it: enroll anew",
        Kind::Mfa => "no code is asked for: set it up again",
        Kind::Enrollment => "its token is not known: make another one",
        Kind::Router => "it is not known: make it again, and enroll it anew",
        Kind::Revocation => "what was revoked is good again until its end: revoke it again",
        _ => "it is not known: make it again",
    }
}

/// What happened to an entity, and what it means.
type Said = (&'static str, &'static str);

const CHANGED: Said = ("changed", "it is as it was: change it again");

/// How an entity has changed, and what it means; nothing if it has not. Long fields are compared by the time of the last
/// change, with which they come.
fn changed(old: &Entity, new: &Entity, at: Timestamp) -> Vec<Said> {
    let found = match (old, new) {
        (Entity::Identity(old), Entity::Identity(new)) => return identity(old, new, at),
        (Entity::Authenticator(old), Entity::Authenticator(new)) => credential(old, new),
        (Entity::Mfa(old), Entity::Mfa(new)) => second_factor(old, new),
        (Entity::Router(old), Entity::Router(new)) => return router(old, new),
        // A revocation that covers more is made again by what it was made for.
        (Entity::Revocation(old), Entity::Revocation(new)) => revocation(old, new),
        (Entity::Terminator(_), _) => None,
        _ => (!is_same(old, new)).then_some(CHANGED),
    };
    found.into_iter().collect()
}

fn identity(old: &Arc<Identity>, new: &Arc<Identity>, at: Timestamp) -> Vec<Said> {
    let is_disabled = new.is_disabled(at) && old.disabled_at != new.disabled_at;
    // An identity that was disabled for a time is enabled by itself.
    let has_lapsed = old.disabled_at.is_some() && !old.is_disabled(at) && !new.is_disabled(at);
    let mut settled = Identity::clone(new);
    (settled.disabled_at, settled.disabled_until) = (old.disabled_at, old.disabled_until);
    if is_disabled || has_lapsed || old.disabled_at.is_some() {
        settled.base.updated_at = old.base.updated_at;
    }
    let mut said = Vec::new();
    if is_disabled {
        said.push(("disabled", "it is enabled: disable it again"));
    } else if new.disabled_at.is_none() && old.is_disabled(at) {
        said.push(("enabled", "it is disabled: enable it again"));
    }
    let is_other = !is_same(&Entity::from(Arc::clone(old)), &Entity::from(settled));
    said.extend(is_other.then_some(CHANGED));
    said
}

/// Whether two states are the same, their long fields aside.
fn is_same(old: &Entity, new: &Entity) -> bool {
    let whole = |entity: &Entity| {
        Change::apart(entity.clone()).into_iter().find_map(|change| match change {
            Change::Put(entity) => Some(entity),
            _ => None,
        })
    };
    whole(old) == whole(new)
}

fn credential(old: &Authenticator, new: &Authenticator) -> Option<Said> {
    let secret =
        |it: &Authenticator| it.updb.as_ref().map(|it| (it.password.clone(), it.salt.clone()));
    let print = |it: &Authenticator| it.cert.as_ref().map(|it| it.fingerprint.clone());
    let name = |it: &Authenticator| it.updb.as_ref().map(|it| it.username.clone());
    if secret(old) != secret(new) {
        Some((
            "password changed",
            "the former password is good, and the new one is not: set it again",
        ))
    } else if print(old) != print(new) {
        Some((
            "certificate renewed",
            "only the former certificate is good: enroll anew if its key is gone",
        ))
    } else {
        (name(old) != name(new))
            .then_some(("user name changed", "the former one is good: change it again"))
    }
}

fn second_factor(old: &Mfa, new: &Mfa) -> Option<Said> {
    if old.secret != new.secret {
        Some(("set up anew", "only the former authenticator app is good: set it up again"))
    } else if old.recovery_codes != new.recovery_codes {
        Some(("recovery codes used or made anew", "the former codes are good again: make new ones"))
    } else {
        (old.is_verified != new.is_verified)
            .then_some(("verified", "it is not asked for: verify it again"))
    }
}

fn router(old: &Router, new: &Router) -> Vec<Said> {
    let mut said = Vec::new();
    match (&old.fingerprint, &new.fingerprint) {
        (None, Some(_)) => said.push(("enrolled", "it is not enrolled: enroll it anew")),
        (Some(_), Some(_)) if old.fingerprint != new.fingerprint => said.push((
            "certificate renewed",
            "only the former certificate is good: enroll anew if its key is gone",
        )),
        _ => {}
    }
    // What comes with a certificate is no other change.
    let settled = |it: &Router| Router {
        base: old.base.clone(),
        is_verified: old.is_verified,
        fingerprint: None,
        unverified_fingerprint: None,
        cert_pem: String::new(),
        unverified_cert_pem: String::new(),
        ..it.clone()
    };
    let is_other = !is_same(&Entity::from(settled(old)), &Entity::from(settled(new)));
    said.extend(is_other.then_some(CHANGED));
    said
}

fn revocation(old: &Revocation, new: &Revocation) -> Option<Said> {
    (old.issued_before != new.issued_before).then_some((
        "revoked again",
        "tokens that were issued later are good again until their end",
    ))
}

impl Since {
    fn of(snapshot: &Snapshot, entity: &Entity, what: &'static str, then: &'static str) -> Self {
        let of_identity = |id: &Id| snapshot.get::<Identity>(id).map(|it| it.name.to_string());
        let name = match entity {
            Entity::Authenticator(it) => of_identity(&it.identity_id),
            Entity::Mfa(it) => of_identity(&it.identity_id),
            Entity::Enrollment(it) => it.identity_id.as_ref().and_then(of_identity).or_else(|| {
                let router = snapshot.get::<Router>(it.router_id.as_ref()?);
                router.map(|router| router.name.to_string())
            }),
            Entity::Revocation(it) => of_identity(&it.base.id),
            other => other.name().map(ToString::to_string),
        };
        let name = name.unwrap_or_default();
        Self { kind: entity.kind(), id: entity.id().clone(), name, what, then }
    }

    pub(super) fn row(&self) -> Value {
        let (kind, id) = (self.kind.name(), self.id.to_string());
        json!({"kind": kind, "name": self.name, "id": id, "what": self.what, "then": self.then})
    }
}
