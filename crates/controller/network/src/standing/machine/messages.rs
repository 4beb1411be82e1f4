//! What the machine is told, and what it has the driver do.

use weft_model::{Id, Timestamp};

/// What the machine is told.
pub(crate) enum Input<'a> {
    /// A router has connected.
    Connected(&'a Id),
    /// The connection of a router has ended.
    Lost(&'a Id),
    /// Terminators of a router are to be confirmed; `at_once` if the router is not to be asked at the next tick only.
    Doubted { router: &'a Id, terminators: &'a [Id], at_once: bool },
    /// A router is about to report a terminator again.
    Reported { router: &'a Id, terminator: &'a Id },
    /// A router has answered a question.
    Answered { router: &'a Id, answers: &'a [Answer] },
    /// A router has refused a dial, because it does not host the terminator, which was made at `made`. `since` is the
    /// [last number](super::Machine::last_number) at the time of the dial.
    DialDenied { router: &'a Id, terminator: &'a Id, since: u64, made: Timestamp },
    /// A router is to be asked now.
    Ask { router: &'a Id, due: &'a dyn Fn(&Id) -> Due },
    /// Routers are to be asked at this interval.
    Tick,
    /// Terminators of an [`Output::Remove`] were removed, or at least one of them was not.
    Removed { router: &'a Id, terminators: &'a [Denied], all: bool },
    /// A dial has passed a terminator over, because its host may not host the service.
    PassedOver(&'a Id),
    /// Terminators are to be removed whose hosts have lost their right long enough ago.
    Expire,
    /// A terminator of an [`Output::Withdraw`] was removed or not.
    Withdrawn { terminator: &'a Id, is_removed: bool },
}

/// A router's answer about one terminator.
pub(crate) struct Answer {
    pub(crate) terminator: Id,
    pub(crate) is_hosted: bool,
    /// The number in the question; 0 if the router does not repeat numbers.
    pub(crate) number: u64,
}

/// Whether it is time to ask about a terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The router may be asked now. The value is the time at which the terminator was made.
    Now(Timestamp),
    /// The terminator is younger than `NetworkOptions::validation_age`: its router may not know it yet.
    Later,
    /// The model has no such terminator at the router.
    Never,
}

/// What the driver is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Give [`Input::Ask`] for this router.
    AskNow(Id),
    /// Ask a router about these terminators, each with a number. The answer is [`Input::Answered`].
    Ask { router: Id, terminators: Vec<(Id, u64)> },
    /// Remove terminators. The answer is [`Input::Removed`].
    Remove(Removal),
    /// Remove these terminators if their hosts still have no right to host. The answers are [`Input::Withdrawn`].
    Withdraw(Vec<Id>),
    /// End the circuits to a terminator.
    EndCircuits(Id),
}

/// Terminators that their router does not host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) router: Id,
    pub(crate) terminators: Vec<Denied>,
}

/// A terminator that its router does not host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) terminator: Id,
    /// The number that it must still have when it is removed.
    pub(crate) number: u64,
    /// When the terminator was made. One that was made later is another one.
    pub(crate) made: Timestamp,
}
