//! Flipped bits and crashes in the middle of commits.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use redb::backends::InMemoryBackend;
use redb::{ReadableDatabase, TableDefinition};

use super::*;

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("numbers");

fn put(database: &Database, number: u64) {
    let mut transaction = database.begin_write().unwrap();
    transaction.set_quick_repair(true);
    transaction.open_table(TABLE).unwrap().insert(0, number).unwrap();
    transaction.commit().unwrap();
}

/// A file with the commits 1 to 9, closed, or as a crash leaves it.
fn file(is_closed: bool) -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = Database::create(&path).unwrap();
    (1..=9).for_each(|number| put(&database, number));
    let open = fs::read(&path).unwrap();
    drop(database);
    let bytes = if is_closed { fs::read(&path).unwrap() } else { open };
    fs::write(&path, &bytes).unwrap();
    (folder, path, bytes)
}

fn last(path: &Path) -> u64 {
    let mut builder = Database::builder();
    let database = builder.set_check_integrity_on_open(true).open(path).unwrap();
    let table = database.begin_read().unwrap().open_table(TABLE).unwrap();
    table.get(0).unwrap().unwrap().value()
}

fn is_damage(outcome: Result<(), Failure>) -> bool {
    matches!(outcome, Err(Failure::Damaged(_)))
}

/// Checks the layout against the engine, so that a redb release with another one fails here and not
/// on a database.
#[test]
fn the_header_is_laid_out_as_it_is_read() {
    for is_closed in [true, false] {
        let (_folder, path, bytes) = file(is_closed);
        assert!(bytes.starts_with(MAGIC) && bytes.len() > HEADER);
        assert_eq!(bytes[FLAGS] & !(SECOND_COUNTS | IN_USE | TWO_PHASE), 0);
        assert_ne!(bytes[FLAGS] & TWO_PHASE, 0);
        assert_eq!(bytes[FLAGS] & IN_USE == 0, is_closed);
        let numbers = |bytes: &[u8]| {
            let number = |slot: usize| {
                u64::from_le_bytes(bytes[slot + NUMBER..slot + NUMBER + 8].try_into().unwrap())
            };
            let [first, second] = [number(SLOTS[0]), number(SLOTS[1])];
            let is_second = bytes[FLAGS] & SECOND_COUNTS != 0;
            if is_second { (second, first) } else { (first, second) }
        };
        let (counts, before) = numbers(&bytes);
        assert!(counts > before, "the newer one counts: {counts} {before}");
        let database = Database::create(&path).unwrap();
        put(&database, 10);
        let (after, _) = numbers(&fs::read(&path).unwrap());
        assert!(after > counts);
    }
}

#[test]
fn nothing_is_touched_where_the_newer_commit_counts() {
    for is_closed in [true, false] {
        let (_folder, path, bytes) = file(is_closed);
        settle(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(last(&path), 9);
    }
    let folder = tempfile::tempdir().unwrap();
    for bytes in [&b""[..], b"redb", &[0; 400]] {
        fs::write(folder.path().join("db"), bytes).unwrap();
        settle(&folder.path().join("db")).unwrap();
    }
}

#[test]
fn a_whole_commit_counts_again() {
    for is_closed in [true, false] {
        let (_folder, path, mut bytes) = file(is_closed);
        bytes[FLAGS] ^= SECOND_COUNTS;
        fs::write(&path, &bytes).unwrap();
        // Opened by redb alone, without `settle`, a file in use has lost the commit.
        let copy = path.with_extension("copy");
        fs::write(&copy, &bytes).unwrap();
        assert!(last(&copy) < 9 || is_closed);
        settle(&path).unwrap();
        assert_eq!(last(&path), 9);
    }
}

#[test]
fn a_refused_commit_does_not_count_at_a_later_start() {
    // The commit is whole on the disk, and its writer was told that it did not happen.
    let (_folder, path, mut bytes) = file(false);
    bytes[FLAGS] ^= SECOND_COUNTS;
    fs::write(&path, &bytes).unwrap();
    assert!(is_undecided(&path).unwrap());
    let database = super::super::file::open_again(&path, CHECKING).unwrap();
    assert!(!is_undecided(&path).unwrap());
    // The process is killed at this moment.
    let copy = path.with_extension("copy");
    fs::copy(&path, &copy).unwrap();
    settle(&copy).unwrap();
    assert_eq!(last(&copy), 8);
    put(&database, 10);
    drop(database);
    assert_eq!(last(&path), 10);
}

#[test]
fn a_commit_that_is_not_whole_is_left_out_after_a_crash_only() {
    for is_closed in [true, false] {
        let (_folder, path, mut bytes) = file(is_closed);
        bytes[FLAGS] ^= SECOND_COUNTS;
        // The checksum of a slot covers the number of the commit in it.
        let slot = SLOTS[usize::from(bytes[FLAGS] & SECOND_COUNTS == 0)];
        bytes[slot + NUMBER - 8] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(is_damage(settle(&path)), is_closed);
        assert_eq!(fs::read(&path).unwrap(), bytes, "a trial writes nothing");
    }
}

#[test]
fn a_damaged_number_makes_no_older_commit_count() {
    for is_closed in [true, false] {
        for bit in 0..64 {
            let (_folder, path, mut bytes) = file(is_closed);
            let slot = SLOTS[usize::from(bytes[FLAGS] & SECOND_COUNTS)];
            bytes[slot + NUMBER + bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            settle(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
            let mut builder = Database::builder();
            assert!(builder.set_check_integrity_on_open(true).open(&path).is_err(), "{bit}");
        }
    }
}

#[test]
fn a_file_in_use_is_left_alone() {
    let (_folder, path, mut bytes) = file(false);
    bytes[FLAGS] ^= SECOND_COUNTS;
    fs::write(&path, &bytes).unwrap();
    let _held = Database::builder().open(&path).unwrap();
    let mut now = fs::read(&path).unwrap();
    now[FLAGS] = bytes[FLAGS];
    fs::write(&path, &now).unwrap();
    match settle(&path) {
        Ok(()) | Err(Failure::InUse) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read(&path).unwrap(), now);
}

#[test]
fn bytes_are_laid_over_what_they_cover() {
    for (at, expected) in
        [(0, "c..."), (1, "bc.."), (2, "abc."), (4, "..ab"), (5, "...a"), (9, "....")]
    {
        let mut onto = *b"....";
        lay(b"abc", at, &mut onto, 2);
        assert_eq!(onto, expected.as_bytes(), "{at}");
    }
}

/// One step in the history of a file.
#[derive(Debug, Clone)]
enum Step {
    Write(u64, Vec<u8>),
    Resize(u64),
    Sync,
}

/// A file that records how it was written.
#[derive(Debug, Default)]
struct Recorder {
    file: InMemoryBackend,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl StorageBackend for Recorder {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.steps.lock().push(Step::Resize(len));
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.steps.lock().push(Step::Sync);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.steps.lock().push(Step::Write(offset, data.to_vec()));
        self.file.write(offset, data)
    }
}

/// A recorded history: the steps, and the number of steps before each acknowledgement.
struct History {
    steps: Vec<Step>,
    acknowledged: BTreeMap<usize, u64>,
}

impl History {
    fn of_commits(commits: u64) -> Self {
        let recorder = Recorder::default();
        let steps = recorder.steps.clone();
        let database = Database::builder().create_with_backend(recorder).unwrap();
        let mut acknowledged = BTreeMap::new();
        for number in 1..=commits {
            put(&database, number);
            acknowledged.insert(steps.lock().len(), number);
        }
        // The crash comes before the writes of closing.
        let steps = steps.lock().clone();
        Self { steps, acknowledged }
    }

    /// The file after a crash behind `after` steps: synced writes are there; of the others, the
    /// sectors for which `reached` returns true.
    fn crashed(&self, after: usize, mut reached: impl FnMut() -> bool) -> Vec<u8> {
        const SECTOR: usize = 512;
        let steps = &self.steps[..after];
        let synced = steps.iter().rposition(|step| matches!(step, Step::Sync)).unwrap_or(0);
        let mut file = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Resize(len) => file.resize(*len as usize, 0),
                Step::Sync => {}
                Step::Write(offset, data) => {
                    let mut offset = *offset as usize;
                    for sector in data.chunks(SECTOR) {
                        if at < synced || reached() {
                            let end = offset + sector.len();
                            file.resize(file.len().max(end), 0);
                            file[offset..end].copy_from_slice(sector);
                        }
                        offset += sector.len();
                    }
                }
            }
        }
        file
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_a_crash_leaves_opens_with_what_was_acknowledged(
        after in any::<prop::sample::Index>(),
        reached in prop::collection::vec(any::<bool>(), 1..200),
        share in 0..3_u8,
    ) {
        let history = History::of_commits(6);
        let first = *history.acknowledged.keys().next().unwrap();
        let after = first + after.index(history.steps.len() - first + 1);
        let mut reached = reached.into_iter().cycle();
        // All, some or none of the writes that were not synced.
        let file = history.crashed(after, || match share {
            0 => false,
            1 => true,
            _ => reached.next().unwrap_or_default(),
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        fs::write(&path, file).unwrap();
        settle(&path).unwrap();
        let (_, acknowledged) = history.acknowledged.range(..=after).next_back().unwrap();
        let found = last(&path);
        prop_assert!(found == *acknowledged || found == acknowledged + 1, "{found} of {acknowledged}");
        // A second look finds the same.
        settle(&path).unwrap();
        prop_assert_eq!(last(&path), found);
    }
}
