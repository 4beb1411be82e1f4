//! Limits how many failed logins of a source, and of the networks around it, are told as events, so that nobody fills the logs
//! of listeners by guessing.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_limits::NetworkRates;

/// Failed attempts of a source that are told in a minute; further ones are not. Larger networks have more.
const TOLD: u32 = 60;
/// Most networks that are remembered; above that the oldest one is forgotten.
const KEPT: usize = 10_000;
/// After this time without a failed attempt a network is as good as new.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// How many failed attempts sources cause to be told.
#[derive(Debug)]
pub(crate) struct ToldFailures(Mutex<NetworkRates>);

impl Default for ToldFailures {
    fn default() -> Self {
        let rate = f64::from(TOLD) / 60.0;
        Self(Mutex::new(NetworkRates::new(rate, TOLD, KEPT, FORGOTTEN)))
    }
}

impl ToldFailures {
    /// Whether one more failed attempt of a source is told.
    pub(crate) fn is_due(&self, from: Option<IpAddr>) -> bool {
        let now = Instant::now().into_std();
        from.is_none_or(|from| self.0.lock().take(from, now).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_source_that_guesses_is_told_so_often_in_a_minute() {
        let told = ToldFailures::default();
        let at = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        assert!((0..TOLD).all(|_| told.is_due(at(1))));
        assert!(!told.is_due(at(1)));
        assert!(told.is_due(at(2)) && told.is_due(None));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(told.is_due(at(1)));
        // The owner of a /48 has three times as many, whatever sources he takes for them.
        let of = |number: u16| Some([0x2001, 0xdb8, 1, number, 0, 0, 0, 1].into());
        let due = (0..1000).filter(|number| told.is_due(of(number * 64))).count();
        assert_eq!(due, 3 * TOLD as usize);
        for number in 0..3 * KEPT as u32 {
            told.is_due(Some(std::net::Ipv4Addr::from(number).into()));
        }
        assert_eq!(told.0.lock().len(), KEPT);
    }
}
