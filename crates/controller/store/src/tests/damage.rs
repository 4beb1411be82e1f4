//! Damaged files: each is refused, or its damage lies where nothing is stored. Every read returns
//! the written data, or an error with a remedy.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;
use weft_model::entity::ApiSession;
use weft_model::{Base, Change, ChangeSet, ColdField, Entity, Id, Kind, Revision, Timestamp};

use super::{commit, put, service};
use crate::{
    CommitError, Damage, Embedded, FollowError, Head, OpenError, Options, ReadError, Space, Store,
    restore,
};

/// Change sets in the sample.
const COMMITS: u64 = 200;
const NOTES: Space = Space(7);
/// The byte and bit that select one of the last two commits. The engine does not check it: a file
/// in which only this bit is flipped looks like one whose last commit was cut off.
const WHICH_COMMIT: Harm = Harm::Heading { at: 9, bit: 0 };

/// A file, and everything that was acknowledged before it was copied.
struct Sample {
    bytes: Vec<u8>,
    head: Head,
    rows: Vec<Entity>,
    live: Vec<Entity>,
    notes: Vec<(String, Bytes)>,
    cold: Bytes,
    log: Vec<Arc<ChangeSet>>,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn open(path: &Path) -> Result<Embedded, OpenError> {
    // A small cache, so that reads reach the file.
    Embedded::open(path, Options { cache_bytes: 1 << 20, ..Options::default() })
}

fn session(n: u32) -> Entity {
    let base = Base::new(Id::new(&format!("session-{n}")), Timestamp(1));
    ApiSession { base, token_hash: format!("token {n}").as_str().into(), ..ApiSession::default() }
        .into()
}

fn owner() -> Id {
    Id::new("id-7")
}

async fn fill(path: &Path) -> Sample {
    let store = open(path).unwrap();
    for n in 1..COMMITS {
        let id = format!("id-{n}");
        commit(&store, vec![put(service(&id, &format!("a longer name {n}")))]).await;
    }
    let cold = Bytes::from("-----BEGIN CERTIFICATE-----".repeat(40));
    let (kind, field, value) = (Kind::Service, ColdField::CertPem, Some(cold.clone()));
    let change = Change::Cold { kind, id: owner(), field, value };
    commit(&store, vec![ChangeSet::of([change]).into()]).await;
    (0..20).for_each(|n| store.live().put(session(n)));
    store.live().put_note(NOTES, "who", Some(Bytes::from("what it told".repeat(20))));
    store.fold().await.unwrap();
    let copy = path.with_extension("copy");
    fs::copy(path, &copy).unwrap();
    let mut sample = Sample {
        bytes: fs::read(copy).unwrap(),
        head: store.head().unwrap(),
        rows: Vec::new(),
        live: Vec::new(),
        notes: store.live().notes(NOTES).unwrap(),
        cold,
        log: Vec::new(),
    };
    store.load(&mut |entity| sample.rows.push(entity)).unwrap();
    store.live().load(&mut |entity| sample.live.push(entity)).unwrap();
    sample.log = log(&store).await.unwrap();
    assert_eq!((sample.head.revision, sample.log.len()), (Revision(COMMITS), COMMITS as usize));
    sample
}

/// The kept part of the log.
async fn log(store: &Embedded) -> Result<Vec<Arc<ChangeSet>>, FollowError> {
    let mut followed = store.follow(Revision(0));
    let mut sets = Vec::new();
    while sets.len() < COMMITS as usize {
        let Some(next) = followed.next().await else { break };
        sets.push(next?.change_set);
    }
    Ok(sets)
}

/// Checks that a read returned the written data, or was refused with a clear text.
fn right_or_refused<T: PartialEq>(read: Result<T, Damage>, written: &T, what: &str) {
    match read {
        Ok(read) => assert!(read == *written, "wrong {what} was believed"),
        Err(damage) => assert!(damage.to_string().contains("restore the last backup"), "{damage}"),
    }
}

fn damage_of_open(error: OpenError) -> Damage {
    match error {
        OpenError::Damaged(damage) => damage,
        other => panic!("{other}"),
    }
}

fn damage_of_read(error: ReadError) -> Damage {
    match error {
        ReadError::Damaged(damage) => damage,
        other => panic!("{other}"),
    }
}

impl Sample {
    /// Opens a damaged copy and uses every operation. Returns true if opening was refused.
    async fn try_out(&self, path: &Path) -> bool {
        let store = match open(path) {
            Ok(store) => store,
            Err(error) => {
                let text = damage_of_open(error).to_string();
                assert!(text.contains("restore the last backup"), "{text}");
                return true;
            }
        };
        let mut rows = Vec::new();
        let loaded = store.load(&mut |entity| rows.push(entity)).map_err(damage_of_open);
        let refused = loaded.is_err();
        right_or_refused(
            loaded.map(|head| (head, rows)),
            &(self.head.clone(), self.rows.clone()),
            "rows",
        );
        if refused {
            return true;
        }
        self.read_the_rest(&store).await;
        self.write(store, path).await;
        false
    }

    async fn read_the_rest(&self, store: &Embedded) {
        let mut live = Vec::new();
        let read = store.live().load(&mut |entity| live.push(entity)).map_err(damage_of_read);
        right_or_refused(read.map(|()| live), &self.live, "sessions");
        let notes = store.live().notes(NOTES).map_err(damage_of_read);
        right_or_refused(notes, &self.notes, "notes");
        let cold = store.blob(Kind::Service, &owner(), ColdField::CertPem).await;
        right_or_refused(cold.map_err(damage_of_read), &Some(self.cold.clone()), "cold fields");
        let followed = log(store).await.map_err(|error| match error {
            FollowError::Read(error) => damage_of_read(error),
            other => panic!("{other}"),
        });
        right_or_refused(followed, &self.log, "log");
        if let Ok(examination) = store.examine() {
            let _ = examination.run(&mut |_| {});
        }
    }

    /// Writes to a damaged file: acknowledged data is there later, or the file is refused.
    async fn write(&self, store: Embedded, path: &Path) {
        let (backup, restored) = (path.with_extension("backup"), path.with_extension("restored"));
        for made in [&backup, &restored] {
            let _ = fs::remove_file(made);
        }
        if store.backup(&backup).await.is_ok() {
            restore(&backup, &restored).unwrap();
            let mut rows = Vec::new();
            open(&restored).unwrap().load(&mut |entity| rows.push(entity)).unwrap();
            assert!(rows == self.rows, "wrong rows in a backup");
        }
        let mut rows = self.rows.clone();
        for n in 0..5 {
            let new = service(&format!("new-{n}"), &format!("new {n}"));
            let base = Revision(COMMITS + n);
            match store.commit(base, vec![put(new.clone())]).await {
                Ok(_) => rows.push(new),
                Err(CommitError::Damaged(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        rows.sort_by(|one, other| (one.kind(), one.id()).cmp(&(other.kind(), other.id())));
        drop(store);
        let mut found = Vec::new();
        let loaded = open(path).and_then(|store| store.load(&mut |entity| found.push(entity)));
        right_or_refused(
            loaded.map(|_| found).map_err(damage_of_open),
            &rows,
            "rows after a write",
        );
    }
}

/// One way to damage a file.
#[derive(Debug, Clone)]
enum Harm {
    /// Bits of some bytes are flipped.
    Flip { at: prop::sample::Index, count: usize, mask: u8 },
    /// A single bit.
    Bit { at: prop::sample::Index, bit: u8 },
    /// A single bit of the engine's header, parts of which have no checksum.
    Heading { at: usize, bit: u8 },
    /// A stretch is zero, as if it was never written.
    Zero { at: prop::sample::Index, count: usize },
    /// One part of the file is written where another belongs, as after a misdirected write.
    Misplaced { from: prop::sample::Index, to: prop::sample::Index, count: usize },
    /// The end is missing.
    Cut { at: prop::sample::Index },
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = || any::<prop::sample::Index>();
    prop_oneof![
        3 => (at(), 1..=64_usize, 1_u8..).prop_map(|(at, count, mask)| Harm::Flip { at, count, mask }),
        3 => (at(), 0..8_u8).prop_map(|(at, bit)| Harm::Bit { at, bit }),
        2 => (0..512_usize, 0..8_u8).prop_map(|(at, bit)| Harm::Heading { at, bit }),
        2 => (at(), 1..=8192_usize).prop_map(|(at, count)| Harm::Zero { at, count }),
        2 => (at(), at(), 1..=8192_usize)
            .prop_map(|(from, to, count)| Harm::Misplaced { from, to, count }),
        2 => at().prop_map(|at| Harm::Cut { at }),
    ]
}

impl Harm {
    fn apply(&self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        match self {
            Self::Flip { at, count, mask } => {
                let touched = bytes.iter_mut().skip(at.index(whole.len())).take(*count);
                touched.for_each(|byte| *byte ^= mask);
            }
            Self::Bit { at, bit } => bytes[at.index(whole.len())] ^= 1 << bit,
            Self::Heading { at, bit } => bytes[*at] ^= 1 << bit,
            Self::Zero { at, count } => {
                let touched = bytes.iter_mut().skip(at.index(whole.len())).take(*count);
                touched.for_each(|byte| *byte = 0);
            }
            Self::Misplaced { from, to, count } => {
                // Disks misplace whole pages.
                let [from, to] = [from, to].map(|at| at.index(whole.len()) & !4095);
                let source: Vec<u8> = whole.iter().skip(from).take(*count).copied().collect();
                bytes.iter_mut().skip(to).zip(source).for_each(|(byte, own)| *byte = own);
            }
            // An empty file is a new store.
            Self::Cut { at } => bytes.truncate(at.index(whole.len()).max(1)),
        }
        bytes
    }
}

#[test]
fn damage_is_found_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let sample = runtime.block_on(fill(&folder.path().join("db")));
    let file = folder.path().join("damaged");
    let check = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        // A panic inside the engine becomes an error; any other panic fails the test.
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(sample.try_out(&file))))
    };
    std::panic::set_hook(Box::new(|_| {}));
    let wanted = std::env::var_os("PROPTEST_CASES");
    let few = || ProptestConfig::with_cases(100);
    let mut runner = TestRunner::new(wanted.map_or_else(few, |_| ProptestConfig::default()));
    let tried = runner.run(&harm(), |harm| {
        let refused = check(&harm.apply(&sample.bytes)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            TestCaseError::fail(text.unwrap_or_default())
        })?;
        prop_assert!(refused || !matches!(harm, Harm::Cut { .. }), "a cut file was believed");
        Ok(())
    });
    let whole = check(&sample.bytes);
    // A flip inside every stored name: rows are always checked.
    let needle = b"a longer name 1";
    let places = sample.bytes.windows(needle.len()).enumerate().filter(|(_, part)| part == needle);
    let mut bytes = sample.bytes.clone();
    for (at, _) in places {
        bytes[at] ^= 1;
    }
    let every_name = check(&bytes);
    let which_commit = check(&WHICH_COMMIT.apply(&sample.bytes));
    let no_store = check(b"this is not a store at all");
    drop(std::panic::take_hook());
    tried.unwrap();
    assert!(!which_commit.unwrap(), "the last commit is whole and counts");
    assert!(!whole.unwrap() && every_name.unwrap() && no_store.unwrap());
}
