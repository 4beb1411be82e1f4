//! Drives an end: keeps the state that its owner needs between two changes, and returns the steps
//! after each change.
//!
//! The owner holds the driver under the one lock of its end. A change determines its steps under
//! the lock: flows to list, tasks to wake, a deadline to arm. The owner does that after the lock is
//! released, by [`Steps::carry_out`]. A flow that is listed, a deadline that is armed and a task
//! that is woken are noted and not asked for again, so that a change without effect costs nothing.
//!
//! ```text
//!  change ──> Driver::steps ──> Steps ──> carry_out: list at an outlet, wake a task, arm the clock
//!  outlet ──> Driver::pull        clock ──> Driver::fires
//! ```

use std::task::{Context, Waker};
use std::time::Instant;

use weft_wire::Message;
use weft_xgress::{Alarm, Class, End, ITEM_COST};

use crate::listing::Listing;

/// A state machine that can be driven: an [`End`], alone or with the additions of its place.
pub trait Machine {
    /// True if the machine has a message of this class for a connection.
    fn wants(&self, class: Class) -> bool;

    /// True if the application has something to read.
    fn wants_read(&self) -> bool;

    /// True if the application can write, or never can again.
    fn wakes_writer(&self) -> bool;

    /// The time at which [`on_timeout`](Self::on_timeout) has to be called.
    fn deadline(&self) -> Option<Instant>;

    /// Does everything that is due at `now`.
    fn on_timeout(&mut self, now: Instant);
}

impl Machine for End {
    fn wants(&self, class: Class) -> bool {
        match class {
            Class::Ack => self.wants_ack(),
            Class::Payload => self.wants_transmit(),
        }
    }

    fn wants_read(&self) -> bool {
        End::wants_read(self)
    }

    fn wakes_writer(&self) -> bool {
        self.can_write() || self.is_sending_over()
    }

    fn deadline(&self) -> Option<Instant> {
        End::deadline(self)
    }

    fn on_timeout(&mut self, now: Instant) {
        End::on_timeout(self, now);
    }
}

/// The bytes by which a message of an end counts when connections share their time.
#[must_use]
pub fn cost(message: &Message) -> u64 {
    (message.body.len() + ITEM_COST) as u64
}

/// A machine, with the notes about its steps.
#[derive(Debug)]
pub struct Driver<M> {
    /// The machine. After a change of it [`steps`](Self::steps) has to be called.
    pub machine: M,
    /// Where the machine is listed.
    listing: Listing,
    alarm: Alarm,
    /// The tasks of the application that wait for the machine.
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The steps after a change.
#[derive(Debug, Default)]
#[must_use]
pub struct Steps {
    ack: bool,
    payload: bool,
    listing: u32,
    reader: Option<Waker>,
    writer: Option<Waker>,
    arm: Option<Instant>,
}

impl<M: Machine> Driver<M> {
    /// Drives a machine.
    pub fn new(machine: M) -> Self {
        Self {
            machine,
            listing: Listing::default(),
            alarm: Alarm::default(),
            reader: None,
            writer: None,
        }
    }

    /// Determines the steps from the state, and notes them as done. `is_listed` is false for a
    /// machine whose messages no connection takes at present.
    pub fn steps(&mut self, is_listed: bool) -> Steps {
        let mut lists = |class| is_listed && self.machine.wants(class) && self.listing.begin(class);
        let (ack, payload) = (lists(Class::Ack), lists(Class::Payload));
        let reader = if self.machine.wants_read() { self.reader.take() } else { None };
        let writer = if self.machine.wakes_writer() { self.writer.take() } else { None };
        let arm = self.machine.deadline().and_then(|deadline| self.alarm.want(deadline));
        Steps { ack, payload, listing: self.listing.number(), reader, writer, arm }
    }

    /// Where the machine is listed.
    #[must_use]
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Takes the next message for a connection, and notes whether the machine stays listed.
    pub fn pull<R>(&mut self, class: Class, take: impl FnOnce(&mut M) -> Option<R>) -> Option<R> {
        let pulled = take(&mut self.machine);
        self.listing.keep(class, pulled.is_some());
        pulled
    }

    /// Notes that a listing has ended, unless a newer one has begun: true if it was the present one.
    pub fn unlist(&mut self, class: Class, listing: u32) -> bool {
        let is_present = self.listing.is(listing);
        if is_present {
            self.listing.keep(class, false);
        }
        is_present
    }

    /// The machine sends over another connection from now on.
    pub fn relist(&mut self) {
        self.listing.renew();
    }

    /// Handles the expiry of the deadline that was armed for `at`. False if another deadline has taken
    /// its place, so that nothing is due.
    pub fn fires(&mut self, at: Instant, now: Instant) -> bool {
        let counts = self.alarm.fires(at);
        if counts {
            self.machine.on_timeout(now);
        }
        counts
    }

    /// Registers a task to be woken when there may be data to read.
    pub fn wake_to_read(&mut self, cx: &Context<'_>) {
        keep(&mut self.reader, cx);
    }

    /// Has the task woken once the application can write, or never can again.
    pub fn wake_to_write(&mut self, cx: &Context<'_>) {
        keep(&mut self.writer, cx);
    }
}

impl Steps {
    /// Carries out the steps, after the lock is released. `list` lists the machine at its outlet,
    /// `arm` arms the clock.
    pub fn carry_out(self, mut list: impl FnMut(Class, u32), arm: impl FnOnce(Instant)) {
        for (class, wanted) in [(Class::Ack, self.ack), (Class::Payload, self.payload)] {
            if wanted {
                list(class, self.listing);
            }
        }
        for task in [self.reader, self.writer].into_iter().flatten() {
            task.wake();
        }
        if let Some(at) = self.arm {
            arm(at);
        }
    }
}

/// Keeps the waker of a task, without cloning an equal one.
fn keep(waiting: &mut Option<Waker>, cx: &Context<'_>) {
    match waiting {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *waiting = Some(cx.waker().clone()),
    }
}

#[cfg(test)]
mod tests;
