//! The secrets of a connection (RFC 5246 5, 6.3 and 8.1; RFC 7627 4).

use aws_lc_rs::{digest, hmac};

use crate::error::Error;
use crate::reader::Reader;
use crate::record::Key;
use crate::suite::Suite;

/// Length of the check in a Finished message, in bytes.
pub(crate) const CHECK: usize = 12;

/// The master secret, and the keys derived from it.
pub(crate) struct Secrets {
    suite: &'static Suite,
    master: [u8; 48],
}

impl Secrets {
    /// From the shared secret and the messages up to the client's key exchange.
    pub(crate) fn new(suite: &'static Suite, shared: &[u8], transcript: &[u8]) -> Self {
        let session = digest::digest(suite.digest, transcript);
        let mut master = [0; 48];
        prf(suite, shared, b"extended master secret", &[session.as_ref()], &mut master);
        Self { suite, master }
    }

    /// The keys of the client's and of the server's records.
    pub(crate) fn keys(&self, client: &[u8; 32], server: &[u8; 32]) -> Result<(Key, Key), Error> {
        let length = self.suite.aead.key_len();
        let mut block = vec![0; 2 * (length + 4)];
        prf(self.suite, &self.master, b"key expansion", &[server, client], &mut block);
        let mut block = Reader(&block);
        let mut key = || block.take(length).ok_or(Error::Crypto);
        let (of_client, of_server) = (key()?, key()?);
        let mut salt = || block.array().ok_or(Error::Crypto);
        let (client_salt, server_salt) = (salt()?, salt()?);
        let key = |key, salt| Key::new(self.suite.aead, key, salt);
        Ok((key(of_client, client_salt)?, key(of_server, server_salt)?))
    }

    /// The check in the Finished message of a side.
    pub(crate) fn check(&self, of_client: bool, transcript: &[u8]) -> [u8; CHECK] {
        let label: &[u8] = if of_client { b"client finished" } else { b"server finished" };
        let hash = digest::digest(self.suite.digest, transcript);
        let mut check = [0; CHECK];
        prf(self.suite, &self.master, label, &[hash.as_ref()], &mut check);
        check
    }
}

/// The pseudorandom function of TLS 1.2.
fn prf(suite: &Suite, secret: &[u8], label: &[u8], seeds: &[&[u8]], out: &mut [u8]) {
    let key = hmac::Key::new(suite.hmac, secret);
    let sign = |parts: &[&[u8]]| {
        let mut context = hmac::Context::with_key(&key);
        parts.iter().for_each(|part| context.update(part));
        context.sign()
    };
    let seed: Vec<u8> =
        std::iter::once(label).chain(seeds.iter().copied()).flatten().copied().collect();
    let mut a = sign(&[&seed]);
    for chunk in out.chunks_mut(a.as_ref().len()) {
        let block = sign(&[a.as_ref(), &seed]);
        chunk.copy_from_slice(block.as_ref().get(..chunk.len()).unwrap_or_default());
        a = sign(&[a.as_ref()]);
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").field("suite", &self.suite.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::SUITES;

    /// The published test vector of the TLS 1.2 pseudorandom function with SHA-256.
    #[test]
    fn the_function_gives_the_known_bytes() {
        let suite = SUITES.iter().find(|suite| suite.id == 0xc02b).unwrap();
        let secret = [
            0x9b, 0xbe, 0x43, 0x6b, 0xa9, 0x40, 0xf0, 0x17, 0xb1, 0x76, 0x52, 0x84, 0x9a, 0x71,
            0xdb, 0x35,
        ];
        let seed = [
            0xa0, 0xba, 0x9f, 0x93, 0x6c, 0xda, 0x31, 0x18, 0x27, 0xa6, 0xf7, 0x96, 0xff, 0xd5,
            0x19, 0x8c,
        ];
        let mut out = [0; 20];
        prf(suite, &secret, b"test label", &[&seed], &mut out);
        let begin = [
            0xe3, 0xf2, 0x29, 0xba, 0x72, 0x7b, 0xe1, 0x7b, 0x8d, 0x12, 0x26, 0x20, 0x55, 0x7c,
            0xd4, 0x53, 0xc2, 0xaa, 0xb2, 0x1d,
        ];
        assert_eq!(out, begin);
    }
}
