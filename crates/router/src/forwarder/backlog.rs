//! Data of an SDK without flow control of its own, for which its circuit has no room yet.
//!
//! This data is held and never dropped. All circuits of such an SDK come over one connection, so that a pause in
//! reading it stops them all. When much data waits for one circuit, this router therefore reads the SDK more slowly
//! instead of not at all: the backlog may grow a little with time, and the messages of the SDK's other circuits go on.
//! The circuit has enough time to get another path. If it takes too little data in that time, it is ended; so is a
//! circuit that the SDK has left, because nothing else would free its data.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_limits::{Budget, Grant};
use weft_xgress::{End, ITEM_COST, Piece};

/// Bytes that may wait for one connection id before the SDK is read more slowly.
const LIMIT: usize = 1 << 20;
/// The SDK is read as usual again once fewer bytes than this wait.
const RESUME: usize = LIMIT / 2;
/// Most bytes that may wait for one connection id. The backlog may grow evenly up to this during [`PATIENCE`] of slow
/// reading. If half of the SDK's budget is less, that is the limit, so that one circuit does not take all of the
/// budget.
const MOST: usize = 32 << 20;
/// Bytes by which the backlog may grow after each pause in reading.
const SLICE: usize = 256 << 10;
/// How long an SDK may be read slowly because of a circuit that takes less than [`PROGRESS`]. It takes less than that
/// to notice a silent link and to find the circuit another path (docs/mesh.md).
const PATIENCE: Duration = Duration::from_secs(45);
/// How long the data of an SDK that has left is kept for a circuit that takes less than [`PROGRESS`]. An application
/// may thus read nothing for some minutes and lose nothing. The memory counts for the identity of the SDK.
const LEFT_PATIENCE: Duration = Duration::from_secs(600);
/// The interval at which an SDK without room in its budget looks whether another circuit has freed some.
const LOOK: Duration = Duration::from_millis(500);
/// A deadline that is noticed later than this shows that the process stood still. The circuit then has this much time
/// again, because what came meanwhile has not been read yet.
const STOOD_STILL: Duration = Duration::from_secs(5);
/// Bytes that a circuit takes from its backlog to count as moving.
const PROGRESS: usize = 64 << 10;

/// A message of an SDK that waits.
pub(super) enum FromSdk {
    Data {
        headers: Vec<(u8, Bytes)>,
        data: Bytes,
    },
    /// A part of larger data.
    Piece(Piece),
    Fin,
    Close,
    /// The SDK is gone.
    Lost,
}

impl FromSdk {
    fn cost(&self) -> usize {
        match self {
            Self::Data { headers, data } => {
                let headers = headers.iter().map(|(_, value)| value.len()).sum::<usize>();
                data.len() + headers + ITEM_COST
            }
            Self::Piece(piece) => piece.bytes() + ITEM_COST,
            Self::Fin | Self::Close | Self::Lost => ITEM_COST,
        }
    }
}

/// The messages that wait for one end.
pub(super) struct Backlog {
    items: VecDeque<FromSdk>,
    bytes: usize,
    /// Most bytes that may wait.
    most: usize,
    /// The bytes that wait, drawn from the budget of the SDK's connection.
    held: Grant,
    /// The time since which the SDK is read more slowly because of this backlog.
    slow: Option<Instant>,
    /// True while the SDK is not read because of this backlog.
    over: bool,
    /// The time at which the SDK may be read again.
    look: Option<Instant>,
    /// True once the SDK has left the circuit: it sends no more.
    is_left: bool,
    /// True once the whole SDK is gone, so that nothing keeps it from being read.
    is_lost: bool,
    /// The time since which the end took less than [`PROGRESS`] although messages wait.
    still: Option<Instant>,
    /// Bytes that the end took since the time in `still`.
    taken: usize,
}

impl Backlog {
    /// An empty backlog; its bytes are drawn from `budget`.
    pub(super) fn new(budget: &Budget) -> Self {
        let held = budget.empty();
        let items = VecDeque::new();
        let half = usize::try_from(budget.limit() / 2).unwrap_or(usize::MAX);
        let most = half.clamp(LIMIT + SLICE, MOST);
        let [over, is_left, is_lost] = [false; 3];
        let [slow, look, still] = [None; 3];
        Self { items, bytes: 0, most, held, slow, over, look, is_left, is_lost, still, taken: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn push(&mut self, item: FromSdk) {
        if matches!(item, FromSdk::Close | FromSdk::Lost) {
            // The end has the whole time from now on.
            (self.is_left, self.still) = (true, None);
            self.is_lost |= matches!(item, FromSdk::Lost);
        }
        self.bytes += item.cost();
        self.items.push_back(item);
    }

    /// Frees the memory that no message waits in.
    pub(super) fn trim(&mut self) {
        self.items.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.items.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.bytes = 0;
    }

    /// Gives the end as many waiting messages as it has room for.
    pub(super) fn drain(&mut self, end: &mut End, now: Instant) {
        if end.closed().is_some() {
            return self.clear();
        }
        while let Some(item) = self.items.pop_front() {
            let cost = item.cost();
            let has_data = matches!(item, FromSdk::Data { .. } | FromSdk::Piece(_));
            if has_data && !end.can_write() {
                // The data waits until the end has room. Once the direction has ended, the data is
                // thrown away.
                if end.is_sending_over() {
                    self.bytes -= cost;
                    continue;
                }
                self.items.push_front(item);
                return;
            }
            match item {
                // Large data goes piece by piece, as the end has room.
                FromSdk::Data { headers, data } if end.is_cut(data.len()) => {
                    self.bytes -= cost;
                    for piece in end.cut(headers, data).into_iter().rev() {
                        let piece = FromSdk::Piece(piece);
                        self.bytes += piece.cost();
                        self.items.push_front(piece);
                    }
                    continue;
                }
                // The end has room, so that the writes succeed.
                FromSdk::Data { headers, data } => drop(end.write_with(headers, data)),
                FromSdk::Piece(piece) => drop(end.write_piece(piece)),
                FromSdk::Fin => end.finish(now),
                FromSdk::Close => end.close(now),
                FromSdk::Lost => end.delivery_failed(now),
            }
            self.bytes -= cost;
            self.taken += cost;
        }
    }

    /// Follows each change: draws the waiting bytes from the budget and measures progress. Answers
    /// `true` if the SDK has to stop being read, `false` if the SDK may be read again, and `None`
    /// if nothing changes for the SDK.
    pub(super) fn settle(&mut self, now: Instant) -> Option<bool> {
        let (bytes, held) = (self.bytes as u64, self.held.bytes());
        if bytes == 0 && held == 0 {
            // Most data goes on at once.
            self.still = None;
            return None;
        }
        let grew = bytes > held;
        if grew {
            // These bytes were read already. The budget counts as overdrawn until there is room
            // again.
            self.held.grow_anyway(bytes - held);
        } else {
            self.held.shrink(held - bytes);
        }
        if bytes == 0 {
            self.still = None;
        } else if self.still.is_none() || self.taken >= PROGRESS {
            (self.still, self.taken) = (Some(now), 0);
        }
        let no_room = bytes > 0 && (grew || self.over) && self.held.budget().free() == 0;
        let much = if self.slow.is_some() { RESUME } else { LIMIT };
        self.slow = (no_room || self.bytes > much).then(|| self.slow.unwrap_or(now));
        let room = self.slow.map(|since| self.room_at(now.saturating_duration_since(since)));
        let margin = if self.over { SLICE } else { 0 };
        let over = no_room || room.is_some_and(|room| self.bytes + margin > room);
        self.look = self.slow.filter(|_| over).and_then(|since| match no_room {
            true => Some(now + LOOK),
            false => self.time_of_room(self.bytes + SLICE).map(|time| since + time),
        });
        let turned = over != self.over;
        self.over = over;
        turned.then_some(over)
    }

    /// The time at which something changes by itself: the SDK may be read again, or the circuit is ended.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.look, self.ends_at()].into_iter().flatten().min()
    }

    /// The time at which the circuit is ended unless the end takes more; `None` while the SDK is
    /// read as usual and has not left the circuit.
    fn ends_at(&self) -> Option<Instant> {
        let (still, patience) = self.still.zip(self.patience())?;
        let since = if self.only_lacks_room() { self.slow.max(Some(still))? } else { still };
        Some(since + patience)
    }

    /// True if the SDK is read slowly only because its budget is used up. The budget is in use by circuits with more
    /// waiting data, which are ended first.
    fn only_lacks_room(&self) -> bool {
        self.slow.is_some() && self.bytes <= RESUME
    }

    /// How long the circuit may take nothing; `None` while nobody waits for it.
    pub(super) fn patience(&self) -> Option<Duration> {
        match (self.slow, self.is_lost) {
            (Some(_), false) if self.only_lacks_room() => Some(2 * PATIENCE),
            (Some(_), false) => Some(PATIENCE),
            _ => self.is_left.then_some(LEFT_PATIENCE),
        }
    }

    /// True if the circuit had the SDK read slowly for [`PATIENCE`], or kept its data for [`LEFT_PATIENCE`] after the
    /// SDK has left, without taking [`PROGRESS`] bytes.
    pub(super) fn gives_up(&mut self, now: Instant) -> bool {
        let Some((end, patience)) = self.ends_at().zip(self.patience()) else { return false };
        let stood_still = now >= end + STOOD_STILL;
        if stood_still {
            self.still = (now + STOOD_STILL).checked_sub(patience);
        }
        now >= end && !stood_still
    }

    /// Bytes by which the backlog may grow in a millisecond of slow reading.
    fn growth(&self) -> usize {
        (self.most - LIMIT) / (PATIENCE.as_millis() as usize)
    }

    /// Bytes that may wait after so much slow reading.
    fn room_at(&self, slow: Duration) -> usize {
        let millis = usize::try_from(slow.as_millis()).unwrap_or(usize::MAX);
        LIMIT.saturating_add(millis.saturating_mul(self.growth())).min(self.most)
    }

    /// How much slow reading there has to be until so many bytes may wait; `None` if they never may.
    fn time_of_room(&self, bytes: usize) -> Option<Duration> {
        let millis = bytes.saturating_sub(LIMIT).div_ceil(self.growth());
        (bytes <= self.most).then(|| Duration::from_millis(millis as u64))
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::payload::{Ack, Flags};
    use weft_xgress::{Options, Role};

    use super::*;

    /// An end that takes data up to its window, because no acks come.
    fn end(now: Instant) -> End {
        End::new(Role::Initiator, &Options::default(), &Budget::unlimited(), now)
    }

    fn data(bytes: usize) -> FromSdk {
        FromSdk::Data { headers: Vec::new(), data: vec![7; bytes].into() }
    }

    /// Pushes until the SDK is to be read no longer, or `most` bytes wait.
    fn push(backlog: &mut Backlog, end: &mut End, most: usize, now: Instant) -> bool {
        while backlog.bytes < most {
            backlog.push(data(16 << 10));
            backlog.drain(end, now);
            if backlog.settle(now) == Some(true) {
                return true;
            }
        }
        false
    }

    #[test]
    fn what_flows_is_drawn_from_no_budget_and_what_waits_is() {
        let (now, budget) = (Instant::now(), Budget::new(64 << 20));
        let (mut backlog, mut end) = (Backlog::new(&budget), end(now));
        backlog.push(data(1000));
        backlog.drain(&mut end, now);
        assert_eq!((backlog.settle(now), budget.used()), (None, 0));
        assert!(push(&mut backlog, &mut end, usize::MAX, now));
        assert!(budget.used() as usize > LIMIT && budget.used() as usize == backlog.bytes);
        backlog.clear();
        assert_eq!((backlog.settle(now), budget.used()), (Some(false), 0));
    }

    #[test]
    fn many_connection_ids_hold_no_more_than_their_budget_together() {
        let (now, budget) = (Instant::now(), Budget::new(4 << 20));
        let mut stopped = 0;
        let mut held = Vec::new();
        for _ in 0..1000 {
            let (mut backlog, mut end) = (Backlog::new(&budget), end(now));
            // Each backlog stays far below the limit of one connection id.
            stopped += usize::from(push(&mut backlog, &mut end, LIMIT / 4, now));
            held.push(backlog);
        }
        // Backlogs beyond the budget stop the reading at their first message.
        assert!(stopped > 900, "{stopped}");
        assert!(budget.used() < (4 << 20) + 1000 * (20 << 10), "{}", budget.used());
        // The SDK is read again only once its backlog is empty, or the budget has room.
        let last = held.last_mut().unwrap();
        assert_eq!(last.settle(now), None);
        held.drain(..900).for_each(drop);
        assert_eq!(held.last_mut().unwrap().settle(now), Some(false));
    }

    #[test]
    fn a_very_large_message_goes_into_the_end_as_the_end_has_room() {
        let (now, budget) = (Instant::now(), Budget::unlimited());
        let held = Budget::new(256 << 20);
        let mut end = End::new(Role::Initiator, &Options::default(), &held, now);
        let mut backlog = Backlog::new(&budget);
        backlog.push(data(64 << 20));
        backlog.push(data(10));
        backlog.drain(&mut end, now);
        assert_eq!(backlog.settle(now), Some(true), "the SDK is read no longer");
        assert!(held.used() < 2 << 20, "{} bytes are in the end", held.used());
        let whole = (64 << 20) as u64;
        assert!(budget.used() > whole - held.used() && budget.used() < whole + (1 << 20));
        // Nothing is lost between the pieces.
        let mut sent = 0;
        while let Some(payload) = end.poll_transmit(now) {
            sent += payload.data.len();
            let sequences = vec![payload.sequence];
            end.on_ack(&Ack { flags: Flags::ORIGINATOR, sequences, ..Ack::default() }, now);
            backlog.drain(&mut end, now);
        }
        let length_of_whole = 4;
        assert_eq!(sent, (64 << 20) + 10 + length_of_whole);
        assert!(backlog.is_empty() && backlog.bytes == 0);
        assert_eq!((backlog.settle(now), budget.used()), (Some(false), 0));
    }

    #[test]
    fn a_circuit_that_takes_nothing_is_stuck_once_others_wait_for_it() {
        let (start, budget) = (Instant::now(), Budget::unlimited());
        let (mut backlog, mut stalled) = (Backlog::new(&budget), end(start));
        assert!(!push(&mut backlog, &mut stalled, LIMIT / 2, start));
        let late = start + 100 * PATIENCE;
        assert!(!backlog.gives_up(late), "nobody waits for it");
        // The circuit has taken nothing for long when its backlog begins to stop the other
        // circuits.
        assert!(push(&mut backlog, &mut stalled, usize::MAX, late));
        assert!(!backlog.gives_up(late) && backlog.gives_up(late + STOOD_STILL));

        let (mut backlog, mut stalled) = (Backlog::new(&budget), end(start));
        assert!(push(&mut backlog, &mut stalled, usize::MAX, start));
        assert_eq!(backlog.ends_at(), Some(start + PATIENCE));
        // Less than `PROGRESS` does not count; `PROGRESS` bytes give the circuit the whole time
        // again.
        backlog.taken += PROGRESS - 1;
        backlog.settle(start + PATIENCE / 2);
        assert_eq!(backlog.ends_at(), Some(start + PATIENCE));
        backlog.taken += 1;
        backlog.settle(start + PATIENCE / 2);
        assert_eq!(backlog.ends_at(), Some(start + PATIENCE / 2 + PATIENCE));
        backlog.clear();
        backlog.settle(start + PATIENCE);
        assert_eq!(backlog.deadline(), None);
    }

    #[test]
    fn what_an_sdk_has_left_is_kept_for_a_limited_time() {
        for last in [FromSdk::Close, FromSdk::Lost] {
            let (start, budget) = (Instant::now(), Budget::unlimited());
            let (mut backlog, mut stalled) = (Backlog::new(&budget), end(start));
            assert!(!push(&mut backlog, &mut stalled, LIMIT / 2, start));
            let left = start + 100 * PATIENCE;
            backlog.push(last);
            assert_eq!(backlog.settle(left), None);
            assert_eq!(backlog.deadline(), Some(left + LEFT_PATIENCE));
            assert!(!backlog.gives_up(left + PATIENCE) && backlog.gives_up(left + LEFT_PATIENCE));
        }
        // A circuit for which an SDK is read slowly has less time, unless the SDK is gone.
        for (last, patience) in [(FromSdk::Close, PATIENCE), (FromSdk::Lost, LEFT_PATIENCE)] {
            let (start, budget) = (Instant::now(), Budget::unlimited());
            let (mut backlog, mut stalled) = (Backlog::new(&budget), end(start));
            assert!(push(&mut backlog, &mut stalled, usize::MAX, start));
            backlog.push(last);
            backlog.settle(start);
            assert_eq!(backlog.ends_at(), Some(start + patience));
            assert_eq!(backlog.patience(), Some(patience), "as the log says");
        }
    }

    #[test]
    fn a_circuit_that_takes_nothing_never_stops_its_sdk_for_long() {
        let (start, budget) = (Instant::now(), Budget::unlimited());
        let (mut backlog, mut stalled) = (Backlog::new(&budget), end(start));
        let (mut now, mut slices) = (start, 0);
        while !backlog.gives_up(now) {
            // The SDK sends as much as is read of it.
            if push(&mut backlog, &mut stalled, usize::MAX, now) {
                slices += 1;
            }
            assert!(backlog.bytes <= MOST + (32 << 10));
            let next = backlog.deadline().unwrap();
            assert!(next - now <= Duration::from_secs(3), "a pause of {:?}", next - now);
            now = next;
            assert!(backlog.settle(now) == Some(false) || now >= start + PATIENCE);
        }
        assert_eq!(now, start + PATIENCE, "then the circuit is ended");
        assert!(slices > 40, "{slices}");
        // A circuit that moves again is read as usual.
        backlog.bytes = RESUME;
        backlog.settle(now);
        assert_eq!((backlog.slow, backlog.look, backlog.over), (None, None, false));
    }

    #[test]
    fn an_sdk_without_room_in_its_budget_looks_again_for_what_others_have_left() {
        let (now, budget) = (Instant::now(), Budget::new(1 << 20));
        let (mut backlog, mut stalled) = (Backlog::new(&budget), end(now));
        let others = budget.try_take(1 << 20).unwrap();
        assert!(push(&mut backlog, &mut stalled, usize::MAX, now));
        assert!(backlog.bytes < RESUME, "there is no room in the budget");
        let look = backlog.deadline().unwrap();
        assert!(look <= now + LOOK);
        assert_eq!(backlog.settle(look), None, "there is none still");
        drop(others);
        let look = backlog.deadline().unwrap();
        assert_eq!(backlog.settle(look), Some(false));
    }

    #[test]
    fn one_circuit_leaves_others_room_in_a_small_budget_and_is_ended_before_them() {
        let (start, budget) = (Instant::now(), Budget::new(8 << 20));
        let (mut backlog, mut stalled) = (Backlog::new(&budget), end(start));
        let mut now = start;
        while !backlog.gives_up(now) {
            push(&mut backlog, &mut stalled, usize::MAX, now);
            now = backlog.deadline().unwrap();
            backlog.settle(now);
        }
        assert_eq!(now, start + PATIENCE);
        assert!(backlog.bytes > 3 << 20 && backlog.bytes < 5 << 20, "{}", backlog.bytes);
        // The rest is taken away, so that a circuit of which little waits has no room.
        let others = budget.take_anyway(budget.free());
        let (mut small, mut calm) = (Backlog::new(&budget), end(start));
        assert!(push(&mut small, &mut calm, LIMIT / 4, now));
        assert_eq!(small.ends_at(), Some(now + 2 * PATIENCE));
        drop((backlog, others));
        assert_eq!((small.settle(now + LOOK), small.ends_at()), (Some(false), None));
    }

    #[test]
    fn a_router_that_stood_still_gives_its_circuits_time() {
        let (start, budget) = (Instant::now(), Budget::unlimited());
        let (mut backlog, mut stalled) = (Backlog::new(&budget), end(start));
        assert!(push(&mut backlog, &mut stalled, usize::MAX, start));
        let awake = start + 2 * PATIENCE;
        assert!(!backlog.gives_up(awake));
        assert!(backlog.gives_up(awake + STOOD_STILL));
    }
}
