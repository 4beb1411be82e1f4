//! The options of the data half.

use std::sync::Arc;
use std::time::Duration;

use weft_channel::{AcceptOptions, ListenerLimits, TraceFile};
use weft_config::XgressOptions;
use weft_config::router::{EdgePerIdentity, ForwarderConfig, TunnelOptions, XgressDialer};
use weft_spans::Spans;
use weft_wire::VersionInfo;
use weft_xgress::{Options, WindowKind};

/// The limits of one listener for SDKs.
#[derive(Clone, Debug)]
pub struct EdgeLimits {
    /// Limits of its socket, which hold before TLS and the hello.
    pub listener: ListenerLimits,
    /// Limits of the hello.
    pub hello: AcceptOptions,
    /// How long an SDK may accept none of the bytes to be written to it; `None` for ever.
    pub write_timeout: Option<Duration>,
    /// Flow control of circuits that the SDK dials, and the time limit for making one.
    pub circuits: XgressOptions,
}

impl Default for EdgeLimits {
    fn default() -> Self {
        Self {
            listener: ListenerLimits::default(),
            hello: AcceptOptions::default(),
            write_timeout: Some(weft_channel::PEER_TIMEOUT),
            circuits: XgressOptions::default(),
        }
    }
}

/// The options of the data half.
#[derive(Clone, Debug)]
pub struct DataOptions {
    /// The id of the router.
    pub router_id: String,
    /// The release that the router announces.
    pub version: VersionInfo,
    /// Flow control of the tunneler's circuits, unless `dialers` has an entry for the tunneler.
    pub xgress: XgressOptions,
    /// The section `forwarder`: reports, idle circuits, dialing.
    pub forwarder: ForwarderConfig,
    /// The dialers of the file: how applications are dialed.
    pub dialers: Vec<XgressDialer>,
    /// TLS for applications with a `tls:` address.
    pub client_tls: Option<Arc<rustls::ClientConfig>>,
    /// How long the end of a direction for an old native SDK waits for the close that may follow
    /// it.
    pub fin_hold: Duration,
    /// What each identity may fill.
    pub per_identity: EdgePerIdentity,
    /// The options of the tunneler; `None` without one.
    pub tunnel: Option<TunnelOptions>,
    /// The length of the intervals for which bytes of circuits are reported.
    pub usage_interval: Duration,
    /// The file for traced messages of links and SDKs.
    pub trace: Option<TraceFile>,
    /// The recorder for spans of dials.
    pub spans: Spans,
    /// The threads that read and write connections of SDKs, links and applications.
    pub threads: weft_channel::Threads,
    /// The runtime of all other tasks of the data half.
    pub control_runtime: tokio::runtime::Handle,
}

/// The options for ends of circuits, from the configuration. A file that names a key of the
/// original's window gets that window with exactly these figures.
pub(super) fn end_options(xgress: &XgressOptions) -> Options {
    let window = if xgress.tx_portal_named { WindowKind::Original } else { WindowKind::Adaptive };
    Options {
        mtu: xgress.mtu,
        tx_start_size: u64::from(xgress.tx_portal_start_size),
        tx_min_size: u64::from(xgress.tx_portal_min_size),
        tx_max_size: u64::from(xgress.tx_portal_max_size),
        tx_increase_thresh: xgress.tx_portal_increase_thresh,
        tx_increase_scale: xgress.tx_portal_increase_scale,
        tx_retx_thresh: xgress.tx_portal_retx_thresh,
        tx_retx_scale: xgress.tx_portal_retx_scale,
        tx_dup_ack_thresh: xgress.tx_portal_dup_ack_thresh,
        rx_buffer_size: u64::from(xgress.rx_buffer_size),
        retx_start: xgress.retx_start,
        retx_scale: xgress.retx_scale,
        retx_add: xgress.retx_add,
        retx_max: xgress.retx_max,
        max_rtt_scale: xgress.max_rtt_scale,
        max_close_wait: xgress.max_close_wait,
        circuit_start_timeout: xgress.circuit_start_timeout,
        window,
        lost_one_in: if xgress.random_drops { xgress.drop_1_in_n } else { 0 },
        datagrams: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_a_file_reaches_the_end() {
        let xgress = XgressOptions {
            mtu: 1400,
            random_drops: true,
            drop_1_in_n: 16,
            tx_portal_named: true,
            tx_portal_start_size: 50 << 20,
            tx_portal_min_size: 2,
            tx_portal_max_size: 60 << 20,
            tx_portal_increase_thresh: 3,
            tx_portal_increase_scale: 0.4,
            tx_portal_retx_thresh: 5,
            tx_portal_retx_scale: 0.6,
            tx_portal_dup_ack_thresh: 7,
            rx_buffer_size: 8,
            retx_start: Duration::from_millis(9),
            retx_scale: 10.0,
            retx_add: Duration::from_millis(11),
            retx_max: Duration::from_millis(12),
            max_rtt_scale: 13,
            max_close_wait: Duration::from_millis(14),
            circuit_start_timeout: Duration::from_secs(15),
            ..XgressOptions::default()
        };
        let expected = Options {
            mtu: 1400,
            tx_start_size: 50 << 20,
            tx_min_size: 2,
            tx_max_size: 60 << 20,
            tx_increase_thresh: 3,
            tx_increase_scale: 0.4,
            tx_retx_thresh: 5,
            tx_retx_scale: 0.6,
            tx_dup_ack_thresh: 7,
            rx_buffer_size: 8,
            retx_start: Duration::from_millis(9),
            retx_scale: 10.0,
            retx_add: Duration::from_millis(11),
            retx_max: Duration::from_millis(12),
            max_rtt_scale: 13,
            max_close_wait: Duration::from_millis(14),
            circuit_start_timeout: Duration::from_secs(15),
            window: WindowKind::Original,
            lost_one_in: 16,
            datagrams: false,
        };
        assert_eq!(end_options(&xgress), expected);
    }

    #[test]
    fn a_file_that_says_nothing_gets_the_defaults() {
        assert_eq!(end_options(&XgressOptions::default()), Options::default());
    }
}
