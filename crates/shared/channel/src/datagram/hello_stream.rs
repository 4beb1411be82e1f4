//! A DTLS connection before its hello.

use std::io;

use bytes::Bytes;
use rustls_pki_types::CertificateDer;
use tokio::time::Instant;
use weft_wire::hello::header;
use weft_wire::{FrameLimits, Message, content_type, frame};

use super::framing::unpack;
use super::inbox::FEW;
use super::peer::DtlsPeer;
use super::pump::DatagramPump;
use crate::handshake::{HelloStream, ReadError};
use crate::transport::Transport;

/// True if the message answers the hello with this sequence number, whether it lets the connection in or not.
fn answers(message: &Message, sequence: i32) -> bool {
    let named = message.headers.get_i32(header::REPLY_FOR);
    message.content_type == content_type::RESULT && named.is_none_or(|named| named == sequence)
}

impl DtlsPeer {
    /// The frame of the next datagram that has one.
    async fn frame(&mut self) -> Result<Bytes, ReadError> {
        loop {
            while let Some(data) = self.connection.take_data() {
                if let Some(bytes) = unpack(data) {
                    return Ok(bytes);
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
}

impl HelloStream for DtlsPeer {
    fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.connection.certificates().to_vec()
    }

    async fn read(&mut self, limits: FrameLimits) -> Result<Message, ReadError> {
        loop {
            let bytes = self.frame().await?;
            if let Some(message) = frame::Decoder::new(limits).decode(&mut &*bytes)? {
                return Ok(message);
            }
        }
    }

    async fn read_answer(
        &mut self,
        limits: FrameLimits,
        sequence: i32,
    ) -> Result<Message, ReadError> {
        loop {
            let bytes = self.frame().await?;
            let message = frame::Decoder::new(limits).decode(&mut &*bytes);
            match message {
                Ok(Some(message)) if answers(&message, sequence) => return Ok(message),
                _ if self.overtook.len() < FEW => self.overtook.push_back(bytes),
                // As if it were lost on its way.
                _ => {}
            }
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
        if let Some(datagram) = self.goodbye() {
            let _ = self.path.send(&datagram).await;
        }
    }

    fn into_transport(self) -> Transport {
        Transport::Datagrams(Box::new(DatagramPump::new(self)))
    }
}
