//! Encoders for compressed forms, whole or piece by piece.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tokio::sync::OwnedSemaphorePermit;

use crate::encodings::Encoding;

/// Most bytes of a source that are read at a time.
pub(crate) const CHUNK: usize = 64 * 1024;

/// A source that is compressed piece by piece.
#[derive(Debug)]
pub(crate) struct Stream<R> {
    source: R,
    /// The encoder; none after the end.
    encoder: Option<Encoder>,
    _slot: OwnedSemaphorePermit,
}

impl<R: Read> Stream<R> {
    /// A stream; `slot` is held until the end.
    pub(crate) fn new(source: R, encoding: Encoding, slot: OwnedSemaphorePermit) -> Self {
        let encoder = Encoder::new(encoding, Compression::fast());
        Self { source, encoder: Some(encoder), _slot: slot }
    }

    /// The next piece; none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        let Some(mut encoder) = self.encoder.take() else { return Ok(None) };
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = self.source.read(&mut chunk)?;
            if count == 0 {
                return encoder.finish().map(|out| Some(Bytes::from(out)));
            }
            encoder.write_all(&chunk[..count])?;
            if encoder.out().len() >= CHUNK {
                let piece = std::mem::take(encoder.out());
                self.encoder = Some(encoder);
                return Ok(Some(Bytes::from(piece)));
            }
        }
    }
}

#[derive(Debug)]
pub(crate) enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
}

impl Encoder {
    /// An encoder. Brotli is not available ([`MADE`](crate::compress::MADE)).
    pub(crate) fn new(encoding: Encoding, level: Compression) -> Self {
        match encoding {
            Encoding::Gzip | Encoding::Brotli => Self::Gzip(GzEncoder::new(Vec::new(), level)),
            Encoding::Deflate => Self::Deflate(ZlibEncoder::new(Vec::new(), level)),
        }
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Deflate(encoder) => encoder.write_all(bytes),
        }
    }

    /// The output so far.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Deflate(encoder) => encoder.get_mut(),
        }
    }

    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Deflate(encoder) => encoder.finish(),
        }
    }
}
