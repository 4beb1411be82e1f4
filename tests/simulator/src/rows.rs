//! The rows of the tables of the controller's state machines that the runs of this thread have taken.

use weft_network::coverage::{CoveredRow, tables};

/// Rows of one machine that runs need not take, and why. The simulation of the machine itself takes them all.
struct Spared {
    why: &'static str,
    machine: &'static str,
    rows: &'static [&'static str],
}

const MANY: &str =
    "no run has so many circuits that a limit is reached, or a list has several parts";
const AT_ONCE: &str = "in one thread nothing comes between these two steps, or hardly ever";
const CONSTANT: &str = "no router of a run is deleted, disabled or of a release before 2.0, no host loses its \
    right, no id is taken, and a controller that stops takes no connections";
const RARE: &str = "it takes several coincidences: fewer than one seed in ten has them";

const fn spared(why: &'static str, machine: &'static str, rows: &'static [&'static str]) -> Spared {
    Spared { why, machine, rows }
}

#[rustfmt::skip]
const SPARED: &[Spared] = &[
    spared(MANY, "adoption", &["Unknown, Excess", "Part, Excess", "Ends, Excess"]),
    spared(AT_ONCE, "adoption", &["Torn, Unwanted", "Looking, Reported"]),
    spared(RARE, "adoption", &[
        "Part, Unwanted", "Part, Lost", "Part, Moved", "Part, Over", "Ends, InPart", "Ends, HasEnds", "Ends, IsWhole",
        "Ends, Unwanted", "Ends, Lost", "Ends, Moved", "Ends, Over", "Whole, Moved", "Whole, Unwanted",
        "Looking, Outdated", "Looking, Moves", "Looking, Unclear", "Resting, Reported", "Resting, News",
    ]),
    spared(CONSTANT, "dials", &["Renaming, NotRenamed"]),
    spared(AT_ONCE, "dials", &["Entering, Ended"]),
    spared(RARE, "dials", &["Rechoosing, NotChosen"]),
    spared(RARE, "moves", &[
        "Better, Switches", "Better, Arrives", "Better, Stays", "Better, Full", "Better, Retry", "Better, NoPath",
        "Better, NoWayAround", "Better, Early", "Better, NoEnds", "Better, SilentEnd", "Better, Obstructed",
        "Better, Ended", "PrepareBetter, Arrives", "PrepareBetter, Retry", "PrepareBetter, SilentEnd",
        "PrepareBetter, Obstructed", "PrepareBetter, Refused", "Other, Switches", "Other, Arrives", "Other, Full",
        "Other, Retry", "Other, NoWayAround", "Other, NoEnds", "Other, SilentEnd", "Other, Obstructed", "Other, Ended",
        "PrepareOther, Arrives", "PrepareOther, SilentEnd", "PrepareOther, Obstructed", "PrepareOther, Refused",
        "Switch, Retry", "Switch, SilentEnd", "Switch, Obstructed", "Switch, Refused", "Again, Switches", "Again, Full",
        "Again, Retry", "Again, NoWayAround", "Again, NoEnds", "Again, Obstructed", "Again, Ended",
        "PrepareAgain, Retry", "PrepareAgain, SilentEnd", "PrepareAgain, Obstructed", "PrepareAgain, Refused",
    ]),
    spared(CONSTANT, "presence", &["Away, Refused", "Away, ShutOut", "Here, Unlisted", "Here, ShutOut"]),
    spared(MANY, "presence", &["Answering, AnswerPart"]),
    spared(AT_ONCE, "presence", &["Judged, Doubted"]),
    spared(RARE, "presence", &[
        "Asked, Part", "Asked, Unanswered", "Answering, Part", "Reporting, Due", "Missing, Broke",
    ]),
    spared(CONSTANT, "standing", &["Granted, PassedOver", "Lapsed, Expired", "Withdrawn, Removed", "Withdrawn, NotRemoved"]),
    spared(RARE, "standing", &[
        "Waiting, Overdue", "Doubtful, DoubtedNow", "Doubtful, Absent", "Doubtful, DialDenied", "Asked, Doubted",
        "Asked, DoubtedNow", "Asked, Due", "Asked, Absent", "Asked, DialDenied", "Denied, Doubted",
        "Denied, DoubtedNow", "Denied, NotRemoved", "DialDenied, Doubted", "DialDenied, DoubtedNow",
    ]),
];

/// The machines of the controller.
const MACHINES: [&str; 5] = ["adoption", "dials", "moves", "presence", "standing"];

fn reason(machine: &str, row: &str) -> Option<&'static str> {
    let mut spared = SPARED.iter().filter(|it| it.machine == machine);
    spared.find(|it| it.rows.contains(&row)).map(|it| it.why)
}

/// The rows that the runs of this thread should have taken and have not.
#[must_use]
pub fn missing() -> Vec<String> {
    let tables = tables();
    let without = MACHINES.iter().filter(|machine| !tables.contains_key(**machine));
    let mut missing: Vec<String> = without.map(|machine| format!("{machine}: all rows")).collect();
    for (machine, rows) in &tables {
        let is_missing = |row: &&CoveredRow| row.count == 0 && reason(machine, &row.name).is_none();
        missing
            .extend(rows.iter().filter(is_missing).map(|row| format!("{machine}: {}", row.name)));
    }
    missing
}

/// The names of spared rows that no table has.
#[must_use]
pub fn unknown() -> Vec<String> {
    let tables = tables();
    let has = |machine: &str, name: &str| {
        tables.get(machine).is_some_and(|rows| rows.iter().any(|row| row.name == name))
    };
    let all = SPARED.iter().flat_map(|it| it.rows.iter().map(|row| (it.machine, *row)));
    all.filter(|(machine, row)| !has(machine, row))
        .map(|(machine, row)| format!("{machine}: {row}"))
        .collect()
}

/// How often the runs of this thread have taken each row, as lines of text; with the reason if a row may be missing.
#[must_use]
pub fn coverage() -> String {
    let mut text = String::new();
    for (machine, rows) in tables() {
        let taken = rows.iter().filter(|row| row.count > 0).count();
        text += &format!("{machine}: {taken} of {} rows\n", rows.len());
        for CoveredRow { name, count } in rows {
            let why = reason(machine, &name).filter(|_| count == 0).unwrap_or_default();
            text += format!("{count:>10} {name:<28} {why}").trim_end();
            text += "\n";
        }
    }
    text
}
