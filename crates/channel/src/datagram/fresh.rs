//! A DTLS connection before its hello.

use std::io;

use rustls_pki_types::CertificateDer;
use tokio::time::Instant;
use weft_wire::{FrameLimits, Message, frame};

use super::{framing::unpack, peer::DtlsPeer, pump::DatagramPump};
use crate::{
    handshake::{Fresh, ReadError},
    transport::Transport,
};

impl Fresh for DtlsPeer {
    fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.connection.certificates().to_vec()
    }

    async fn read(&mut self, limits: FrameLimits) -> Result<Message, ReadError> {
        loop {
            while let Some(data) = self.connection.take_data() {
                let Some(bytes) = unpack(data) else { continue };
                let message = frame::Decoder::new(limits).decode(&mut &*bytes)?;
                if let Some(message) = message {
                    return Ok(message);
                }
            }
            if self.connection.is_closed() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let datagram = self.path.next().await;
            let taken = self.connection.input(&datagram, Instant::now().into_std());
            taken.map_err(io::Error::other)?;
            self.send_all().await?;
        }
    }

    async fn write(&mut self, message: &Message) -> io::Result<()> {
        self.send_frame(frame::encode(message)).await
    }

    async fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let datagram = self.connection.seal(bytes).map_err(io::Error::other)?;
        self.path.send(&datagram).await
    }

    async fn end(&mut self) {
        if let Some(datagram) = self.connection.close() {
            let _ = self.path.send(&datagram).await;
        }
    }

    fn into_transport(self) -> Transport {
        Transport::Datagrams(Box::new(DatagramPump::new(self)))
    }
}
