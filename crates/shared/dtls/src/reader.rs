//! Reading and writing of the fields of messages.

/// Reads fields from the front of a slice; `None` if it is too short.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u24(&mut self) -> Option<usize> {
        let [a, b, c] = self.array()?;
        Some(u32::from_be_bytes([0, a, b, c]) as usize)
    }

    pub(crate) fn u48(&mut self) -> Option<u64> {
        let [a, b, c, d, e, f] = self.array()?;
        Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// A field behind its length in one byte.
    pub(crate) fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// A field behind its length in two bytes.
    pub(crate) fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The numbers of two bytes in a field.
pub(crate) fn numbers(field: &[u8]) -> impl Iterator<Item = u16> {
    field.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Writes fields.
pub(crate) trait Write {
    fn u16(&mut self, value: u16);
    fn u24(&mut self, value: usize);
    fn short(&mut self, field: &[u8]);
    fn long(&mut self, field: &[u8]);
}

impl Write for Vec<u8> {
    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u24(&mut self, value: usize) {
        let [_, front @ ..] = (value as u32).to_be_bytes();
        self.extend_from_slice(&front);
    }

    fn short(&mut self, field: &[u8]) {
        self.push(field.len() as u8);
        self.extend_from_slice(field);
    }

    fn long(&mut self, field: &[u8]) {
        self.u16(field.len() as u16);
        self.extend_from_slice(field);
    }
}
