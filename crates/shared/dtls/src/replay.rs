//! Which records have come already (RFC 6347 4.1.2.6).

/// Records that are this much older than the newest are dropped.
const WINDOW: u64 = 128;

/// The numbers of the last records.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    newest: u64,
    /// Bit n: the record `newest - n` has come.
    seen: u128,
}

impl Replay {
    /// True if no authentic record with this number has come, and it is not too old.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        if self.seen == 0 || number > self.newest {
            return true;
        }
        let age = self.newest - number;
        age < WINDOW && self.seen & (1 << age) == 0
    }

    /// Notes an authentic record.
    pub(crate) fn note(&mut self, number: u64) {
        if self.seen == 0 {
            (self.newest, self.seen) = (number, 1);
        } else if number > self.newest {
            let ahead = number - self.newest;
            self.seen = if ahead < WINDOW { self.seen << ahead } else { 0 } | 1;
            self.newest = number;
        } else if self.newest - number < WINDOW {
            self.seen |= 1 << (self.newest - number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_taken_once_in_any_order() {
        let mut replay = Replay::default();
        for number in [5, 3, 4, 200, 100, 73] {
            assert!(replay.is_new(number), "{number}");
            replay.note(number);
            assert!(!replay.is_new(number), "{number}");
        }
        assert!(!replay.is_new(72) && !replay.is_new(3), "too old");
        assert!(replay.is_new(74) && replay.is_new(201));
        replay.note(100_000);
        assert!(replay.is_new(99_999) && !replay.is_new(200));
    }
}
