//! Settings of transports: `transport` (docs/protocol/config.md 5.9).

use std::time::Duration;

use weft_identity::IdentitySection;

use crate::identity::{self, Required};
use crate::section::Section;

/// Settings of transports.
#[derive(Debug, Clone, PartialEq)]
pub struct TransportConfig {
    /// WebSockets.
    pub wss: WssOptions,
    /// DTLS.
    pub dtls: DtlsOptions,
}

/// WebSockets of an edge listener.
#[derive(Debug, Clone, PartialEq)]
pub struct WssOptions {
    /// How long a client may accept no bytes. Default 10s.
    pub write_timeout: Duration,
    /// Time limit for reading the request. Default 5s.
    pub read_timeout: Duration,
    /// Longest time without messages. Default 120s.
    pub idle_timeout: Duration,
    /// Longest wait for the answer to a ping. Default 60s.
    pub pong_timeout: Duration,
    /// The interval of pings. Default 54s.
    pub ping_interval: Duration,
    /// Time limit of the handshake. Default 10s.
    pub handshake_timeout: Duration,
    /// Read buffer in bytes. Default 4096.
    pub read_buffer: u32,
    /// Write buffer in bytes. Default 4096.
    pub write_buffer: u32,
    /// True if messages may be compressed. Default true.
    pub compression: bool,
    /// Identity of the outer TLS; none = that of the router.
    pub identity: Option<IdentitySection>,
}

/// DTLS links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DtlsOptions {
    /// Write buffer in bytes. Default 4 MiB.
    pub write_buffer: u32,
    /// Read buffer in bytes. Default 4 MiB.
    pub read_buffer: u32,
    /// Most bytes per second; none = no limit.
    pub max_bytes_per_second: Option<u64>,
    /// Time limit of the handshake. Default 30s.
    pub handshake_timeout: Duration,
}

impl TransportConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        section.ignore(&["ws", "protocol"]);
        westworld(&section.section("westworld3"));
        Self {
            wss: WssOptions::read(&section.section("wss")),
            dtls: DtlsOptions {
                handshake_timeout: section.duration("handshakeTimeout", Duration::from_secs(30)),
                ..DtlsOptions::read(&section.section("dtls"))
            },
        }
    }
}

impl WssOptions {
    fn read(section: &Section<'_>) -> Self {
        let secs = |key: &'static str, default: u64| {
            Duration::from_secs(section.int(key, default, 0..=86_400))
        };
        let identity = section.section("identity");
        Self {
            write_timeout: secs("writeTimeout", 10),
            read_timeout: secs("readTimeout", 5),
            idle_timeout: secs("idleTimeout", 120),
            pong_timeout: secs("pongTimeout", 60),
            ping_interval: secs("pingInterval", 54),
            handshake_timeout: secs("handshakeTimeout", 10),
            read_buffer: section.int("readBufferSize", 4096, 0..=16_777_216),
            write_buffer: section.int("writeBufferSize", 4096, 0..=16_777_216),
            compression: section.flag("enableCompression", true),
            identity: identity.is_present().then(|| identity::read(&identity, Required::Server)),
        }
    }
}

impl DtlsOptions {
    fn read(section: &Section<'_>) -> Self {
        let rate: u64 = section.int("maxBytesPerSecond", 0, 0..=i64::MAX);
        Self {
            write_buffer: section.int("writeBufferSize", 4_194_304, 0..=i64::from(u32::MAX)),
            read_buffer: section.int("readBufferSize", 4_194_304, 0..=i64::from(u32::MAX)),
            max_bytes_per_second: (rate > 0).then_some(rate),
            handshake_timeout: Duration::ZERO,
        }
    }
}

/// A transport that does not exist; its keys are checked and have no effect.
fn westworld(section: &Section<'_>) {
    let _: u32 = section.int("profile_version", 1, 0..=i64::from(u32::MAX));
    let _: u32 = section.int("tx_portal_min_sz", 16_384, 0..=i64::from(u32::MAX));
    let _: u32 = section.int("tx_portal_max_sz", 4_194_304, 0..=i64::from(u32::MAX));
    let instrument = section.section("instrument");
    instrument.text("name");
    instrument.text("path");
    let _: u32 = instrument.int("snapshot_ms", 1000, 0..=i64::from(u32::MAX));
    instrument.flag("enabled", false);
}
