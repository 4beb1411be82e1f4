//! Cuts payloads that are larger than an `mtu`, and puts the chunks together again
//! (docs/protocol/data-plane.md 7.5).

use bytes::{Bytes, BytesMut};
use weft_limits::{Budget, Grant};
use weft_wire::payload::{Flags, Payload, PayloadHeaders, read_varint, write_varint};

/// Most bytes of all chunks of a payload.
const MAX_TOTAL: u64 = 64 * 1024 * 1024;

/// Bytes of one payload's chunks that are kept even if the budget has none left.
const ALWAYS: usize = 128 * 1024;

/// Most bytes of a payload's header, with the longest id of a circuit.
const HEADER: usize = 64;
/// Fewest bytes of data in a chunk, however small the `mtu` is.
const LEAST: usize = 64;

/// Most bytes of data in a payload of an end whose `mtu` is 0. Larger data is cut as well, so that the
/// window and the budgets count it as it goes.
pub(crate) const MAX_PAYLOAD: usize = 256 << 10;

/// Most bytes of data in a payload.
pub(crate) fn most(mtu: u32) -> usize {
    match mtu {
        0 => MAX_PAYLOAD,
        mtu => (mtu as usize).saturating_sub(HEADER).max(LEAST),
    }
}

/// A part of what an application writes, for one payload.
#[derive(Debug)]
pub struct Piece {
    pub(crate) flags: Flags,
    pub(crate) headers: PayloadHeaders,
    pub(crate) data: Bytes,
}

impl Piece {
    /// Bytes of its headers' values and its data.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.headers.iter().map(|(_, value)| value.len()).sum::<usize>() + self.data.len()
    }
}

/// Cuts data with headers into pieces of at most `most` bytes of data each. The headers go with the first.
pub(crate) fn cut(headers: PayloadHeaders, data: Bytes, most: usize) -> Vec<Piece> {
    // Pieces of very large data are copies: none of them keeps the memory of the others.
    let is_copied = data.len() > MAX_PAYLOAD;
    let mut headers = Some(headers);
    let piece = |data: Bytes| Piece {
        flags: Flags::CHUNK,
        headers: headers.take().unwrap_or_default(),
        data: if is_copied { Bytes::copy_from_slice(&data) } else { data },
    };
    chunks(data, most).into_iter().map(piece).collect()
}

/// Cuts data into chunks of at most `most` bytes.
fn chunks(mut data: Bytes, most: usize) -> Vec<Bytes> {
    let mut first = Vec::with_capacity(most);
    write_varint(data.len() as u64, &mut first);
    let part = data.split_to(data.len().min(most.saturating_sub(first.len())));
    first.extend_from_slice(&part);
    let mut chunks = vec![Bytes::from(first)];
    while !data.is_empty() {
        chunks.push(data.split_to(data.len().min(most.max(1))));
    }
    chunks
}

/// Mistakes of a peer in its chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChunkError {
    #[error("the first chunk does not start with its total length")]
    NoLength,
    #[error("chunks of {0} bytes announced, {MAX_TOTAL} is the most")]
    TooLong(u64),
    #[error("chunks overrun their announced total")]
    Overrun,
    #[error("there is no memory for the rest of a cut payload")]
    NoRoom,
}

/// A complete payload: its headers and data.
type Whole = (PayloadHeaders, Bytes);

/// A payload whose chunks are arriving.
#[derive(Debug)]
pub(crate) struct Reassembly {
    headers: PayloadHeaders,
    total: usize,
    data: BytesMut,
    held: Grant,
}

impl Reassembly {
    /// Takes the next chunk in order; its bytes are drawn from the budget. Returns the payload once
    /// it is complete.
    pub(crate) fn take(
        active: &mut Option<Self>,
        payload: Payload,
        budget: &Budget,
    ) -> Result<Option<Whole>, ChunkError> {
        if active.is_none() {
            let mut rest = &payload.data[..];
            if rest.is_empty() {
                return Ok(Some((payload.headers, payload.data)));
            }
            let total = read_varint(&mut rest).ok_or(ChunkError::NoLength)?;
            if total > MAX_TOTAL {
                return Err(ChunkError::TooLong(total));
            }
            let data = payload.data.slice(payload.data.len() - rest.len()..);
            if data.len() as u64 == total {
                return Ok(Some((payload.headers, data)));
            }
            *active = Some(Self {
                headers: payload.headers,
                total: total as usize,
                data: BytesMut::new(),
                held: budget.empty(),
            });
            return Self::append(active, &data);
        }
        Self::append(active, &payload.data)
    }

    fn append(active: &mut Option<Self>, data: &Bytes) -> Result<Option<Whole>, ChunkError> {
        let Some(reassembly) = active else { return Ok(None) };
        if data.len() > reassembly.total - reassembly.data.len() {
            return Err(ChunkError::Overrun);
        }
        if !reassembly.held.try_grow(data.len() as u64) {
            if reassembly.data.len() + data.len() > ALWAYS {
                return Err(ChunkError::NoRoom);
            }
            reassembly.held.grow_anyway(data.len() as u64);
        }
        // The buffer grows as data comes, so that an announced length costs nothing.
        reassembly.data.extend_from_slice(data);
        if reassembly.data.len() < reassembly.total {
            return Ok(None);
        }
        Ok(active.take().map(|done| (done.headers, done.data.freeze())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_wire::payload::write_varint;

    use super::*;

    fn chunk(data: Vec<u8>) -> Payload {
        Payload { data: data.into(), headers: vec![(7, Bytes::new())], ..Payload::default() }
    }

    #[test]
    fn without_an_mtu_data_is_cut_at_256_kib() {
        for (length, pieces) in [(262_145, 2), (524_000, 2), (600_000, 3)] {
            let made = cut(Vec::new(), vec![0; length].into(), most(0));
            assert_eq!(made.len(), pieces, "{length}");
            assert!(made.iter().all(|piece| piece.bytes() <= 262_144), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_whole(data in prop::collection::vec(any::<u8>(), 0..3000), size in 1usize..500) {
            let mut first = Vec::new();
            write_varint(data.len() as u64, &mut first);
            first.extend_from_slice(&data[..size.min(data.len())]);
            let mut active = None;
            let mut done = Reassembly::take(&mut active, chunk(first), &Budget::unlimited()).unwrap();
            for part in data[size.min(data.len())..].chunks(size) {
                prop_assert!(done.is_none());
                done = Reassembly::take(&mut active, chunk(part.to_vec()), &Budget::unlimited()).unwrap();
            }
            let (headers, whole) = done.unwrap();
            prop_assert_eq!(&whole[..], &data[..]);
            prop_assert_eq!(headers.len(), 1);
            prop_assert!(active.is_none());
        }

        #[test]
        fn what_is_cut_here_is_put_together_there(
            data in prop::collection::vec(any::<u8>(), 0..5000), mtu in 1u32..2000,
        ) {
            let most = most(mtu);
            let mut active = None;
            let chunks = chunks(data.clone().into(), most);
            let last = chunks.len() - 1;
            for (number, part) in chunks.into_iter().enumerate() {
                prop_assert!(part.len() <= most);
                let done = Reassembly::take(&mut active, chunk(part.to_vec()), &Budget::unlimited());
                let done = done.unwrap();
                prop_assert_eq!(done.is_some(), number == last);
                if let Some((_, whole)) = done {
                    prop_assert_eq!(&whole[..], &data[..]);
                }
            }
        }

        #[test]
        fn any_chunks_are_taken_or_refused(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..20)
        ) {
            let mut active = None;
            for part in parts {
                if Reassembly::take(&mut active, chunk(part), &Budget::unlimited()).is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn what_is_kept_is_drawn_from_the_budget() {
        let budget = Budget::new(1 << 20);
        let mut first = Vec::new();
        write_varint(MAX_TOTAL, &mut first);
        let mut active = None;
        Reassembly::take(&mut active, chunk(first), &budget).unwrap();
        let part = || chunk(vec![7; 100_000]);
        let taken = (0..20).take_while(|_| Reassembly::take(&mut active, part(), &budget).is_ok());
        assert_eq!(taken.count(), 10);
        assert_eq!(budget.used(), 1_000_000);
        drop(active);
        assert_eq!(budget.used(), 0);
        // The first chunks of a payload fit without any budget.
        let none = Budget::new(0);
        let mut active = None;
        let mut whole = Vec::new();
        write_varint(90_001, &mut whole);
        assert_eq!(Reassembly::take(&mut active, chunk(whole), &none), Ok(None));
        assert_eq!(Reassembly::take(&mut active, chunk(vec![7; 90_000]), &none), Ok(None));
        assert!(Reassembly::take(&mut active, chunk(vec![7]), &none).unwrap().is_some());
    }

    #[test]
    fn lies_about_the_length_are_refused() {
        let budget = Budget::unlimited();
        let mut huge = Vec::new();
        write_varint(MAX_TOTAL + 1, &mut huge);
        assert_eq!(
            Reassembly::take(&mut None, chunk(huge), &budget),
            Err(ChunkError::TooLong(MAX_TOTAL + 1))
        );
        assert_eq!(
            Reassembly::take(&mut None, chunk(vec![2, 1, 1, 1]), &budget),
            Err(ChunkError::Overrun)
        );
        assert_eq!(
            Reassembly::take(&mut None, chunk(vec![0xff]), &budget),
            Err(ChunkError::NoLength)
        );
    }
}
