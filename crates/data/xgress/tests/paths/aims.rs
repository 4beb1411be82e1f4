//! The aims of congestion control, as tests. Figures of more paths: `cargo run --release -p
//! weft-xgress --example paths`.

use std::time::Duration;

use weft_xgress::{Options, PAYLOAD_SIZE, WindowKind};

use crate::net::{Bulk, Change, LossyLink, Net, ms};

const MBIT_100: u64 = 12_500_000;

#[test]
fn one_percent_lost_over_a_long_way_costs_little() {
    let mut net = Net::shared(1, MBIT_100, ms(100));
    net.link(0).loss = 10;
    let net = net.run(ms(60_000));
    let carried = net.carried(MBIT_100, ms(5_000), ms(60_000));
    assert!(carried > 0.8, "{carried:.2}");
    assert!(net.twice() < 0.03, "{:.4} sent twice", net.twice());
}

#[test]
fn five_percent_lost_do_not_stop_it() {
    let mut net = Net::shared(1, MBIT_100, ms(100));
    net.link(0).loss = 50;
    let net = net.run(ms(30_000));
    let carried = net.carried(MBIT_100, ms(5_000), ms(30_000));
    assert!(carried > 0.6, "{carried:.2}");
}

#[test]
fn queues_stay_short_for_one_and_for_fifty() {
    for (flows, rate, rtt) in [
        (1, MBIT_100, ms(20)),
        (1, MBIT_100, ms(100)),
        (1, 10_000_000, ms(20)),
        (50, MBIT_100, ms(100)),
        (50, 50_000_000, ms(20)),
    ] {
        let (from, to) = (ms(60_000), ms(75_000));
        let net = Net::shared(flows, rate, rtt).run(to);
        let ((mean, _), carried) = (net.queue(from, to), net.carried(rate, from, to));
        let what = format!("{flows} at {rate} B/s and {rtt:?}");
        assert!(mean < rtt, "{what}: a queue of {mean:?}");
        assert!(carried > 0.9, "{what}: {carried:.2} carried");
    }
}

#[test]
fn eight_share_alike() {
    let rtt = ms(20);
    // Equal shares take longer to settle where a share is only one payload on its way.
    for (rate, from) in [(MBIT_100, ms(60_000)), (50_000_000, ms(20_000))] {
        let to = 2 * from;
        let net = Net::shared(8, rate, rtt).run(to);
        let (carried, jain) = (net.carried(rate, from, to), net.jain(from, to));
        assert!(carried > 0.9 && jain > 0.95, "{rate} B/s: {carried:.3} carried, Jain {jain:.3}");
        assert!(net.queue(from, to).0 < rtt, "{:?}", net.queue(from, to));
    }
}

/// A share is less than a payload on its way, and whoever begins later finds the queue of the others.
#[test]
fn fifty_of_one_connection_share_a_slow_path_alike_whenever_they_begin() {
    let (rtt, from, to) = (ms(20), ms(60_000), ms(90_000));
    for within in [0, 1_000, 10_000] {
        let flow = |i: u64| Bulk { starts: ms(within * i / 50), ..Bulk::default() };
        let flows = (0..50).map(flow).collect();
        let net =
            Net::new(vec![LossyLink::new(MBIT_100, rtt / 2)], rtt / 2, flows).joined().run(to);
        let (carried, jain) = (net.carried(MBIT_100, from, to), net.jain(from, to));
        let ((queue, _), twice) = (net.queue(from, to), net.twice());
        let all = format!("{carried:.3} carried, Jain {jain:.3}, {queue:?}, {twice:.4} sent twice");
        assert!(carried > 0.9 && jain > 0.95, "within {within} ms: {all}");
        assert!(queue < rtt && twice < 0.01, "within {within} ms: {all}");
    }
}

/// Transfers of so many MiB at once over one connection, each after a short request.
struct Transfers {
    flows: usize,
    mib: u64,
    rate: u64,
    rtt: u64,
}

impl Transfers {
    /// The time that they take, for each second that the bare path takes.
    fn run(&self, starts_slowly: bool) -> f64 {
        let &Self { flows, mib, rate, rtt } = self;
        let count = 1 + (mib << 20).div_ceil(PAYLOAD_SIZE as u64);
        let flows = vec![Bulk { count, first: 9, ..Bulk::default() }; flows];
        let bare = ((flows.len() as u64 * mib) << 20) as f64 / rate as f64 + rtt as f64 / 1000.0;
        let mut net =
            Net::new(vec![LossyLink::new(rate, ms(rtt / 2))], ms(rtt / 2), flows).joined();
        // Ten packets in the first round trip, as TCP has it, and twice as many in each that follows.
        let rates = (0..).map(|trip| (trip, (14_600 * 1000 / rtt) << trip));
        for (trip, now) in rates.take_while(|(_, now)| starts_slowly && *now < 2 * rate) {
            net = net.change(ms(rtt * trip), Change::Rate(0, now.min(rate)));
        }
        let ended = net.run(ms(60_000)).ended();
        ended.into_iter().map(|at| at.unwrap().as_secs_f64()).fold(0.0, f64::max) / bare
    }
}

#[test]
fn transfers_at_once_take_little_longer_than_the_bare_path() {
    for (flows, mib, rate, rtt, most) in [
        (1, 16, MBIT_100, 20, 1.1),
        (1, 16, MBIT_100, 100, 1.3),
        (4, 10, MBIT_100, 100, 1.2),
        (8, 5, MBIT_100, 100, 1.25),
        (50, 1, MBIT_100, 20, 1.1),
        (1, 16, MBIT_100 / 10, 20, 1.1),
        (8, 2, MBIT_100 / 10, 20, 1.3),
        (8, 2, MBIT_100 / 10, 100, 1.25),
    ] {
        let took = Transfers { flows, mib, rate, rtt }.run(false);
        assert!(took < most, "{flows} times {mib} MiB at {rate} B/s, {rtt} ms: {took:.2}");
    }
}

/// Payloads wait for a TCP connection that starts slowly, and it carries more as long as some wait.
#[test]
fn a_link_that_starts_slowly_is_kept_at_it() {
    for (flows, mib, rtt, most) in [
        (1, 16, 20, 1.15),
        (1, 16, 100, 1.5),
        (4, 10, 100, 1.4),
        (8, 5, 100, 1.5),
        (50, 1, 20, 1.2),
    ] {
        let took = Transfers { flows, mib, rate: MBIT_100, rtt }.run(true);
        assert!(took < most, "{flows} times {mib} MiB at {rtt} ms: {took:.2}");
    }
}

/// A link needs as long for one payload as the path is long, or longer. A short request, which takes no time, came first.
#[test]
fn one_uses_slow_and_short_paths_to_the_full() {
    for (rate, rtt) in [
        (250_000, 50),
        (1_250_000, 20),
        (1_250_000, 100),
        (MBIT_100, 2),
        (MBIT_100, 5),
        (10 * MBIT_100, 2),
    ] {
        let to = ms(20_000);
        let request = Bulk { first: 9, ..Bulk::default() };
        let back = ms(rtt) / 2;
        let net = Net::new(vec![LossyLink::new(rate, ms(rtt) - back)], back, vec![request]).run(to);
        let [early, late] =
            [ms(0)..ms(5_000), ms(5_000)..to].map(|time| net.carried(rate, time.start, time.end));
        assert!(early > 0.9 && late > 0.9, "{rate} B/s at {rtt} ms: {early:.3}, {late:.3}");
        let whole = Duration::from_secs_f64((PAYLOAD_SIZE + 80) as f64 / rate as f64);
        let (mean, _) = net.queue(ms(5_000), to);
        assert!(mean < ms(rtt) / 2 + whole, "{rate} B/s at {rtt} ms: a queue of {mean:?}");
    }
}

#[test]
fn a_queue_of_what_the_path_holds_is_enough() {
    for (flows, rtt) in [(1, ms(20)), (1, ms(100)), (4, ms(100)), (8, ms(100))] {
        let mut net = Net::shared(flows, MBIT_100, rtt);
        net.link(0).buffer = MBIT_100 * rtt.as_millis() as u64 / 1000;
        let net = net.run(ms(60_000));
        assert!(net.twice() < 0.01, "{flows} at {rtt:?}: {:.4} sent twice", net.twice());
        let carried = net.carried(MBIT_100, ms(10_000), ms(60_000));
        assert!(carried > 0.9, "{flows} at {rtt:?}: {carried:.2} carried");
    }
}

#[test]
fn a_path_that_becomes_longer_and_shorter_again_is_followed() {
    let net = Net::shared(1, MBIT_100, ms(20))
        .change(ms(15_000), Change::Delay(0, ms(90)))
        .change(ms(30_000), Change::Delay(0, ms(10)))
        .run(ms(45_000));
    let longer = net.reaches(MBIT_100 * 8 / 10, ms(15_100)).unwrap();
    let shorter = net.reaches(MBIT_100 * 8 / 10, ms(30_100)).unwrap();
    assert!(longer < ms(3_000) && shorter < ms(500), "{longer:?}, {shorter:?}");
    let (mean, _) = net.queue(ms(35_000), ms(45_000));
    assert!(mean < ms(20), "{mean:?}");
}

#[test]
fn a_path_that_is_exchanged_is_learnt_anew() {
    let net = Net::shared(1, MBIT_100, ms(20))
        .change(ms(15_000), Change::Exchanged(0, ms(90)))
        .change(ms(30_000), Change::Exchanged(0, ms(1)))
        .run(ms(45_000));
    let longer = net.reaches(MBIT_100 * 8 / 10, ms(15_000)).unwrap();
    let shorter = net.reaches(MBIT_100 * 8 / 10, ms(30_000)).unwrap();
    assert!(longer < ms(1_000) && shorter < ms(200), "{longer:?}, {shorter:?}");
    let (mean, _) = net.queue(ms(20_000), ms(30_000));
    assert!(mean < ms(90), "{mean:?}");
    assert!(net.twice() < 0.02, "{:.4} sent twice", net.twice());
}

#[test]
fn a_path_that_becomes_slower_and_faster_again_is_followed() {
    let low = MBIT_100 / 10;
    let net = Net::shared(1, MBIT_100, ms(20))
        .change(ms(15_000), Change::Rate(0, low))
        .change(ms(30_000), Change::Rate(0, MBIT_100))
        .run(ms(45_000));
    let (mean, _) = net.queue(ms(20_000), ms(30_000));
    assert!(mean < ms(20) + ms(27), "{mean:?}, of which one payload takes 27 ms");
    assert!(net.carried(low, ms(20_000), ms(30_000)) > 0.85);
    assert!(net.carried(MBIT_100, ms(35_000), ms(45_000)) > 0.9);
    assert!(net.twice() < 0.01, "{:.4} sent twice", net.twice());
}

#[test]
fn queues_in_a_row_and_late_acks_are_no_hindrance() {
    let (from, to) = (ms(10_000), ms(30_000));
    let links = [25_000_000, MBIT_100, 20_000_000].map(|rate| LossyLink::new(rate, ms(5)));
    let row = Net::new(links.to_vec(), ms(15), vec![Bulk::default(); 4]).run(to);
    let late = Bulk { gathers: ms(5), ..Bulk::default() };
    let late = Net::new(vec![LossyLink::new(MBIT_100, ms(10))], ms(90), vec![late; 4]).run(to);
    for (net, rtt) in [(row, ms(30)), (late, ms(100))] {
        let carried = net.carried(MBIT_100, from, to);
        assert!(carried > 0.9 && net.twice() < 0.01, "{carried:.2}, {:.4}", net.twice());
        assert!(net.queue(from, to).0 < rtt, "{:?}", net.queue(from, to));
    }
}

/// Acks that come late because a process waits for a processor do not lower the rate as a queue
/// would.
#[test]
fn waits_for_a_processor_are_not_taken_for_a_queue() {
    for (rtt, jitter, least) in
        [(ms(2), ms(10), 4_000_000), (ms(2), ms(30), 1_500_000), (ms(20), ms(40), 1_000_000)]
    {
        let flow = Bulk { jitter, ..Bulk::default() };
        let net = Net::new(vec![LossyLink::new(100_000_000, rtt / 2)], rtt / 2, vec![flow]);
        let net = net.run(ms(60_000));
        let slices = (1..12).map(|i| net.rates(ms(i * 5_000), ms(i * 5_000 + 5_000))[0] as u64);
        let slowest = slices.min().unwrap();
        assert!(slowest > least, "{rtt:?} and {jitter:?}: {slowest} B/s");
    }
}

/// All payloads on the way are lost. A sender sends a payload again at least once a second, and so
/// notices that the path is back.
#[test]
fn a_cut_is_over_soon_after_it_ends() {
    for cut in [100, 300, 1_000, 3_000] {
        for rtt in [20, 100] {
            let end = ms(10_000 + cut);
            let net = Net::shared(1, MBIT_100, ms(rtt))
                .change(ms(10_000), Change::Cut(0, true))
                .change(end, Change::Cut(0, false))
                .run(ms(20_000));
            // The payloads that crossed before the cut are read until then.
            let again = net.reaches(MBIT_100 / 2, end.max(ms(10_000 + rtt))).unwrap();
            let most = ms(1_000 + 3 * rtt + 200);
            assert!(again < most, "{cut} ms at {rtt} ms: {again:?}");
            assert!(net.twice() < 0.02, "{:.4} sent twice", net.twice());
        }
    }
}

/// The algorithm of the original fills the queue up to its window, as a file asks for; nothing is
/// sent again for that, and nothing is cut off its figures.
#[test]
fn the_original_fills_its_window() {
    let options = Options {
        window: WindowKind::Original,
        tx_start_size: 6 << 20,
        tx_max_size: 6 << 20,
        rx_buffer_size: 8 << 20,
        ..Options::default()
    };
    let bulk = Bulk { options, ..Bulk::default() };
    let net = Net::new(vec![LossyLink::new(MBIT_100, ms(10))], ms(10), vec![bulk]).run(ms(10_000));
    assert!(net.carried(MBIT_100, ms(1_000), ms(10_000)) > 0.95);
    let (queue, _) = net.queue(ms(5_000), ms(10_000));
    let fills = Duration::from_secs_f64((6 << 20) as f64 / MBIT_100 as f64);
    assert!(queue > fills * 8 / 10 && queue < fills, "{queue:?} of {fills:?}");
    assert_eq!((net.window(), net.twice()), (6 << 20, 0.0));
}

#[test]
fn on_a_short_path_little_is_on_its_way() {
    let rate = 1_000_000_000;
    let net = Net::shared(1, rate, Duration::from_micros(200)).run(ms(2_000));
    let carried = net.carried(rate, ms(1_000), ms(2_000));
    assert!(carried > 0.9, "{carried:.2}");
    assert!(net.window() < 768 << 10, "{}", net.window());
}

/// A queue of 100 short payloads, as before a UDP socket, loses the end of each burst.
#[test]
fn payloads_lost_at_the_end_of_a_burst_cost_few_time_outs() {
    for rate in [100_000_000, 20_000_000, 5_000_000] {
        let flow = Bulk { payload: 1370, first: 1370, count: 900, ..Bulk::default() };
        let mut net = Net::new(vec![LossyLink::new(rate, ms(0))], ms(0), vec![flow; 4]).joined();
        net.link(0).buffer = 150_000;
        let net = net.run(ms(60_000));
        assert!(net.dropped > 100, "{} dropped", net.dropped);
        let bare = Duration::from_secs_f64(4.0 * 900.0 * 1450.0 / rate as f64);
        let last = net.ended().into_iter().map(Option::unwrap).max().unwrap();
        assert!(last < bare + ms(1_000), "at {rate} B/s: {last:?}, the bare path takes {bare:?}");
    }
}
