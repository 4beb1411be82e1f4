//! A wire between two programs of this machine: a network device whose packets arrive late, at a limited
//! rate, or not at all.
//!
//! Programs listen at one address of the device and connect to the other. A packet to the second address
//! leaves the system through the device; the wire exchanges the two addresses of the packet and hands it
//! back, so that it arrives at the first. The kernel's TCP thus works as over a real network: it measures
//! round trips, loses packets, and slows down.

use std::collections::{HashSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Largest packet, bytes.
const MTU: u16 = 1500;
/// Longest time that a packet may wait for the rate; a packet that would wait longer is lost.
const QUEUE: Duration = Duration::from_millis(50);
/// Most wires of a process, one for each network of 198.18.0.0/15, which is set aside for measurements
/// (RFC 2544).
const MOST: u16 = 512;
/// Number of the next wire, which is part of its addresses.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// The properties of a wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// Delay from one end to the other.
    pub(crate) delay: Duration,
    /// Bytes per second in each direction.
    pub(crate) rate: f64,
    /// Share of the packets that are lost at random, from 0 to 1.
    pub(crate) loss: f64,
}

/// A wire between two addresses.
#[derive(Clone, Debug)]
pub(crate) struct Laid {
    /// The address at which a server listens.
    pub(crate) server: Ipv4Addr,
    /// The address to which a client connects.
    pub(crate) beginning: Ipv4Addr,
    carried: Arc<AtomicU64>,
}

impl Laid {
    /// Bytes of all packets that have arrived, both directions together.
    pub(crate) fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// The bytes of several wires; `None` if there are none.
    pub(crate) fn sum<'a>(wires: impl Iterator<Item = &'a Self>) -> Option<u64> {
        wires.map(Self::carried).reduce(u64::saturating_add)
    }

    /// The address at which a client reaches a server of this wire.
    pub(crate) fn begin(&self, server: SocketAddr) -> SocketAddr {
        (self.beginning, server.port()).into()
    }
}

impl Wire {
    /// Makes the device of one more wire; the system removes the device when this process ends.
    ///
    /// # Errors
    /// When the process may not make network devices, or has made 512 wires.
    pub(crate) fn lay(self) -> io::Result<Laid> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if number >= MOST {
            return Err(io::Error::other(format!("{MOST} wires are the most of one run")));
        }
        let [more, low] = number.to_be_bytes();
        let [server, beginning] = [1, 2].map(|host| Ipv4Addr::new(198, 18 + more, low, host));
        let device = DeviceBuilder::new().ipv4(server, 24, None).mtu(MTU).build_sync();
        let device = device.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!(
                    "a wire needs the right to make network devices ({error}): run as root, or as \
                 `unshare -rn sh -c 'ip link set lo up; exec weft-bench ...'`"
                ),
            )
        })?;
        let (device, carried) = (Arc::new(device), Arc::new(AtomicU64::new(0)));
        let mut directions = Vec::new();
        for _ in 0..2 {
            let (queue, arriving) = mpsc::channel();
            directions.push(Direction { busy: Instant::now(), queue });
            let (device, carried) = (Arc::clone(&device), Arc::clone(&carried));
            thread::Builder::new()
                .name(format!("wire {number}"))
                .spawn(move || arrive(&device, &arriving, &carried))?;
        }
        thread::Builder::new()
            .name(format!("wire {number}"))
            .spawn(move || self.read(&device, &mut directions))?;
        Ok(Laid { server, beginning, carried })
    }

    /// Takes packets from the device and gives each its time of arrival.
    fn read(self, device: &SyncDevice, directions: &mut [Direction]) {
        let mut servers = HashSet::new();
        let mut chance = StdRng::seed_from_u64(1);
        let mut packet = [0; MTU as usize];
        while let Ok(length) = device.recv(&mut packet) {
            let Some(packet) = packet.get_mut(..length) else { continue };
            let Some(to_server) = turn_around(packet, &mut servers) else { continue };
            let Some(direction) = directions.get_mut(usize::from(to_server)) else { continue };
            if self.loss > 0.0 && chance.random_bool(self.loss) {
                continue;
            }
            let now = Instant::now();
            let begins = direction.busy.max(now);
            if begins - now > QUEUE {
                continue;
            }
            direction.busy = begins + Duration::from_secs_f64(length as f64 / self.rate);
            if direction.queue.send((direction.busy + self.delay, packet.to_vec())).is_err() {
                return;
            }
        }
    }
}

/// One direction of a wire.
struct Direction {
    /// When the last packet that waits has left.
    busy: Instant,
    queue: mpsc::Sender<(Instant, Vec<u8>)>,
}

/// Hands packets back to the system when they arrive.
fn arrive(device: &SyncDevice, arriving: &mpsc::Receiver<(Instant, Vec<u8>)>, carried: &AtomicU64) {
    let mut waiting = VecDeque::new();
    while let Some((at, packet)) = waiting.pop_front().or_else(|| arriving.recv().ok()) {
        waiting.extend(arriving.try_iter());
        if let Some(early) = at.checked_duration_since(Instant::now()) {
            thread::sleep(early);
        }
        carried.fetch_add(packet.len() as u64, Ordering::Relaxed);
        // A packet that the system does not take is lost, as on any wire.
        let _ = device.send(&packet);
    }
}

/// Exchanges the addresses of an IPv4 packet of TCP or UDP, which leaves its checksums right. Answers whether the
/// packet goes to a server: to a port that a connection was opened to; `None` for any other packet.
fn turn_around(packet: &mut [u8], servers: &mut HashSet<u16>) -> Option<bool> {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let first = *packet.first()?;
    let protocol = *packet.get(9)?;
    if first >> 4 != 4 || !matches!(protocol, TCP | UDP) {
        return None;
    }
    let head = usize::from(first & 0x0f) * 4;
    let from = u16::from_be_bytes(*packet.get(head..)?.first_chunk()?);
    let to = u16::from_be_bytes(*packet.get(head + 2..)?.first_chunk()?);
    const SYN_ACK: u8 = 0x12;
    const SYN: u8 = 0x02;
    let opens = match protocol {
        TCP => *packet.get(head + 13)? & SYN_ACK == SYN,
        _ => !servers.contains(&from),
    };
    if opens {
        servers.insert(to);
    }
    let (source, rest) = packet.get_mut(12..20)?.split_at_mut(4);
    source.swap_with_slice(rest);
    Some(servers.contains(&to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flags: u8, [from, to]: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[9] = 6;
        packet[12..16].copy_from_slice(&[198, 18, 0, 1]);
        packet[16..20].copy_from_slice(&[198, 18, 0, 2]);
        packet[20..22].copy_from_slice(&from.to_be_bytes());
        packet[22..24].copy_from_slice(&to.to_be_bytes());
        packet[33] = flags;
        packet
    }

    #[test]
    fn packets_come_back_from_the_other_address_and_know_their_direction() {
        let mut servers = HashSet::new();
        let mut opening = packet(0x02, [50_000, 40_000]);
        assert_eq!(turn_around(&mut opening, &mut servers), Some(true));
        assert_eq!(opening[12..20], [198, 18, 0, 2, 198, 18, 0, 1]);
        assert_eq!(turn_around(&mut packet(0x12, [40_000, 50_000]), &mut servers), Some(false));
        assert_eq!(turn_around(&mut packet(0x10, [50_000, 40_000]), &mut servers), Some(true));
    }

    #[test]
    fn other_packets_are_no_ones() {
        let mut servers = HashSet::new();
        let mut icmp = packet(0, [0, 0]);
        icmp[9] = 1;
        let mut six = packet(0, [0, 0]);
        six[0] = 0x60;
        for mut wrong in [icmp, six, vec![], vec![0x45; 21]] {
            assert_eq!(turn_around(&mut wrong, &mut servers), None);
        }
    }
}
