//! The announcements of the controllers that share a store: each says that it is alive while it runs, and hears of the
//! others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use weft_model::Timestamp;

use super::driver::REQUEST;
use super::obstacles::Obstacles;
use super::shared_log::{ALIVE, Announcements, SharedLog};
use crate::standing::{Alive, ClockReadings, Presence};
use crate::{Embedded, Store as _, WallClock};

/// Bits of the number of a moment in one timeline.
const MOMENT_BITS: u32 = 48;
/// The time within which others have to be heard for their clocks to be read.
const PROMPT: Duration = Duration::from_secs(1);

/// The number of a moment in a log that has had so many timelines before. Moments of a later timeline are later, although
/// the log may count anew.
fn numbered(former_timelines: Option<usize>, moment: u64) -> u64 {
    ((former_timelines.unwrap_or_default() as u64) << MOMENT_BITS) | moment
}

/// Says every few seconds that the controller is alive, and hears which others are.
pub(super) async fn announce(
    log: Arc<dyn SharedLog>,
    (copy, obstacles): (Embedded, Obstacles),
    (mut own, clock): (Presence, WallClock),
    (alive, refused): (watch::Sender<Alive>, watch::Sender<Option<String>>),
) {
    let mut readings = ClockReadings::default();
    let mut epoch = None;
    loop {
        own.revision = *copy.heads().borrow();
        own.writes = obstacles.current().is_none();
        // The same time twice would look as if nobody spoke.
        let now = clock();
        own.said_at = if now == own.said_at { Timestamp(now.0.saturating_add(1)) } else { now };
        let asked = Instant::now();
        let told = async {
            log.announce(own.clone()).await?;
            if epoch.is_none() {
                epoch = Some(log.former().await?.len());
            }
            log.announced().await
        };
        // Whoever hears of nobody says of nobody that it is alive.
        let told = tokio::time::timeout(REQUEST, told).await;
        // One that is not answered in time says nothing of writing.
        if let Ok(told) = &told {
            let why = told.as_ref().err().map(ToString::to_string);
            refused.send_if_modified(|known| {
                let is_new = *known != why;
                *known = why;
                is_new
            });
        }
        let heard = match told.ok().and_then(Result::ok) {
            Some(Announcements { mut controllers, moment }) => {
                // A process that stood still meanwhile would read what is long past.
                if asked.elapsed() < PROMPT {
                    readings.read(clock(), own.run, &controllers);
                }
                // The key of one that has died may have been put without a lease.
                controllers.retain(|it| !readings.is_silent(it.run));
                let clocks = readings.offsets();
                controllers.iter_mut().for_each(|it| it.since = numbered(epoch, it.since));
                Alive { controllers, is_heard: true, clocks, moment: numbered(epoch, moment) }
            }
            None => Alive { controllers: vec![own.clone()], ..Alive::default() },
        };
        alive.send_if_modified(|known| {
            *known != heard && {
                *known = heard;
                true
            }
        });
        // No two controllers stay in step, so that each soon hears another one just after it has spoken.
        tokio::time::sleep((ALIVE / 3).mul_f64(rand::random_range(0.6..1.0))).await;
    }
}
