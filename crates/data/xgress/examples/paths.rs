//! The figures of many paths, as a table: `cargo run --release -p weft-xgress --example paths`, some minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

#[path = "../tests/paths/net.rs"]
mod net;

use std::time::Duration;

use net::{Bulk, Change, LossyLink, Net, ms};
use weft_xgress::PAYLOAD_SIZE;

const MBIT_100: u64 = 12_500_000;

fn line(what: &str, net: &Net, rate: u64, from: Duration, to: Duration) {
    let (mean, most) = net.queue(from, to);
    println!(
        "{what:44} {:6.3} {:6.3} {:8.1} {:8.1} {:7.3} {:7} {:6}",
        net.carried(rate, from, to),
        net.jain(from, to),
        mean.as_secs_f64() * 1e3,
        most.as_secs_f64() * 1e3,
        net.twice() * 100.0,
        net.dropped,
        net.window() / 1024,
    );
}

fn main() {
    println!(
        "{:44} {:>6} {:>6} {:>8} {:>8} {:>7} {:>7} {:>6}",
        "path", "rate", "jain", "queue ms", "p95 ms", "twice%", "dropped", "w KiB"
    );
    let (from, to) = (ms(60_000), ms(120_000));
    for (rate, rtt) in [
        (MBIT_100, ms(20)),
        (MBIT_100, ms(100)),
        (10_000_000, ms(20)),
        (50_000_000, ms(20)),
        (1_000_000, ms(50)),
        (100_000_000, ms(2)),
        (1_000_000_000, Duration::from_micros(200)),
    ] {
        for flows in [1, 4, 8, 50] {
            if rate > 200_000_000 {
                let net = Net::shared(flows, rate, rtt).run(ms(6_000));
                line(&format!("{flows} at {rate} B/s, {rtt:?}"), &net, rate, ms(3_000), ms(6_000));
                continue;
            }
            let net = Net::shared(flows, rate, rtt).run(to);
            line(&format!("{flows} at {rate} B/s, {rtt:?}"), &net, rate, from, to);
        }
    }
    for flows in [1, 4, 8, 50] {
        for (rate, rtt) in [(MBIT_100, ms(20)), (MBIT_100, ms(100))] {
            let mut net = Net::shared(flows, rate, rtt);
            net.link(0).buffer = (rate * rtt.as_millis() as u64 / 1000).max(250_000);
            let net = net.run(to);
            line(&format!("{flows} at {rate} B/s, {rtt:?}, queue 1 BDP"), &net, rate, from, to);
        }
    }
    for (flows, loss) in [(1, 10), (1, 20), (1, 50), (8, 10)] {
        let mut net = Net::shared(flows, MBIT_100, ms(100));
        net.link(0).loss = loss;
        let net = net.run(to);
        line(&format!("{flows}, 100 ms, {} % lost", loss / 10), &net, MBIT_100, from, to);
    }
    let links = vec![
        LossyLink::new(25_000_000, ms(5)),
        LossyLink::new(MBIT_100, ms(5)),
        LossyLink::new(20_000_000, ms(5)),
    ];
    let net = Net::new(links, ms(15), vec![Bulk::default(); 4]).run(to);
    line("4 through three queues, 30 ms", &net, MBIT_100, from, to);
    let bulk = Bulk { gathers: ms(5), ..Bulk::default() };
    let net = Net::new(vec![LossyLink::new(MBIT_100, ms(10))], ms(90), vec![bulk; 4]).run(to);
    line("4, acks 90 ms late and 5 ms gathered", &net, MBIT_100, from, to);
    for payload in [1_000, 10_240, PAYLOAD_SIZE] {
        let bulk = Bulk { payload, ..Bulk::default() };
        let net = Net::new(vec![LossyLink::new(MBIT_100, ms(10))], ms(10), vec![bulk; 4]).run(to);
        line(&format!("4, payloads of {payload}, 20 ms"), &net, MBIT_100, from, to);
    }

    println!("rate and delay that change at 30 s and 60 s: carried 5 s after each change");
    for flows in [1, 8] {
        for (low, what) in [(1_250_000, "a tenth"), (125_000_000, "ten times")] {
            let net = Net::shared(flows, MBIT_100, ms(20))
                .change(ms(30_000), Change::Rate(0, low))
                .change(ms(60_000), Change::Rate(0, MBIT_100))
                .run(ms(90_000));
            line(&format!("{flows}, rate to {what}"), &net, low, ms(35_000), ms(60_000));
            line(&format!("{flows}, rate back"), &net, MBIT_100, ms(65_000), ms(90_000));
        }
        let net = Net::shared(flows, MBIT_100, ms(20))
            .change(ms(30_000), Change::Delay(0, ms(90)))
            .change(ms(60_000), Change::Delay(0, ms(10)))
            .run(ms(90_000));
        line(&format!("{flows}, 20 to 100 ms"), &net, MBIT_100, ms(32_000), ms(60_000));
        line(&format!("{flows}, 100 to 20 ms"), &net, MBIT_100, ms(62_000), ms(90_000));
        println!(
            "  {flows}: 80 % again after {:?} and {:?}",
            net.reaches(MBIT_100 * 8 / 10, ms(30_100)),
            net.reaches(MBIT_100 * 8 / 10, ms(60_100)),
        );
    }
    println!("cuts: half of the rate again after the end of the cut");
    for cut in [100, 300, 1_000, 3_000] {
        for rtt in [20, 100] {
            let end = ms(20_000 + cut);
            let net = Net::shared(1, MBIT_100, ms(rtt))
                .change(ms(20_000), Change::Cut(0, true))
                .change(end, Change::Cut(0, false))
                .run(ms(40_000));
            println!(
                "  {cut} ms at {rtt} ms: {:?}, sent twice {:.2} %",
                net.reaches(MBIT_100 / 2, end),
                net.twice() * 100.0
            );
        }
    }
}
