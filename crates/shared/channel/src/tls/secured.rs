//! A connection over TLS before its hello.

use std::io;

use rustls_pki_types::CertificateDer;
use tokio::io::Interest;
use weft_wire::frame::{self, Decoder};
use weft_wire::{FrameLimits, Message};

use super::shake::Shaken;
use crate::carrier::Carrier;
use crate::error::CloseReason;
use crate::handshake::{HelloStream, ReadError};
use crate::pump::{Received, TlsPump};
use crate::transport::Transport;

/// A connection over TLS before its hello.
#[derive(Debug)]
pub(crate) struct Secured {
    pump: TlsPump,
    certificates: Vec<CertificateDer<'static>>,
}

impl<S: Into<Carrier>> From<Shaken<S>> for Secured {
    fn from(shaken: Shaken<S>) -> Self {
        let Shaken { stream, session, certificates, sealed } = shaken;
        Self { pump: TlsPump::new(stream, session, sealed), certificates }
    }
}

impl Secured {
    async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let (is_done, _) = self.pump.flush().map_err(failed)?;
            if !is_done {
                self.pump.ready(Interest::WRITABLE).await?;
            } else if bytes.is_empty() {
                return Ok(());
            } else {
                let taken = self.pump.encrypt(&[io::IoSlice::new(bytes)]).map_err(failed)?;
                bytes = bytes.get(taken..).unwrap_or_default();
            }
        }
    }
}

impl HelloStream for Secured {
    fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.certificates.clone()
    }

    async fn read(&mut self, limits: FrameLimits) -> Result<Message, ReadError> {
        let mut decoder = Decoder::new(limits);
        loop {
            let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
            let chunk = self.pump.plaintext().map_err(failed)?.ok_or_else(ended)?;
            if !chunk.is_empty() {
                let mut rest = chunk;
                let message = decoder.decode(&mut rest);
                let used = chunk.len() - rest.len();
                self.pump.consume(used);
                if let Some(message) = message? {
                    return Ok(message);
                }
            } else if self.pump.has_input() {
                self.pump.decrypt().map_err(failed)?;
            } else {
                match self.pump.receive().map_err(failed)? {
                    Received::Bytes(_) => {
                        // Answers to pings of a WebSocket. A peer that sends without end keeps no thread for itself.
                        let _ = self.pump.flush();
                        tokio::task::yield_now().await;
                    }
                    Received::Blocked => self.pump.ready(Interest::READABLE).await?,
                    Received::End => return Err(ended().into()),
                }
            }
        }
    }

    async fn write(&mut self, message: &Message) -> io::Result<()> {
        self.send(&frame::encode(message)).await
    }

    async fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send(bytes).await
    }

    async fn end(&mut self) {
        self.pump.say_goodbye();
        let _ = self.send(&[]).await;
    }

    fn into_transport(self) -> Transport {
        Transport::Tls(self.pump)
    }
}

fn failed(reason: CloseReason) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}
