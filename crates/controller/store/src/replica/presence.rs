//! The announcements of the controllers that share a store: each says that it is alive while it runs, and hears of the
//! others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use weft_model::Timestamp;

use super::driver::REQUEST;
use super::obstacles::Obstacles;
use super::shared_log::{ALIVE, SharedLog};
use crate::standing::{Alive, ClockReadings, Presence};
use crate::{Embedded, Store as _, WallClock};

/// The time within which others have to be heard for their clocks to be read.
const PROMPT: Duration = Duration::from_secs(1);

/// Says every few seconds that the controller is alive, and hears which others are.
pub(super) async fn announce(
    log: Arc<dyn SharedLog>,
    (copy, obstacles): (Embedded, Obstacles),
    (mut own, clock): (Presence, WallClock),
    (alive, refused): (watch::Sender<Alive>, watch::Sender<Option<String>>),
) {
    let mut readings = ClockReadings::default();
    loop {
        own.revision = *copy.heads().borrow();
        own.writes = obstacles.current().is_none();
        // The same time twice would look as if nobody spoke.
        let now = clock();
        own.said_at = if now == own.said_at { Timestamp(now.0.saturating_add(1)) } else { now };
        let asked = Instant::now();
        let told = async {
            log.announce(own.clone()).await?;
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
            Some(mut controllers) => {
                // A process that stood still meanwhile would read what is long past.
                if asked.elapsed() < PROMPT {
                    readings.read(clock(), own.run, &controllers);
                }
                // The key of one that has died may have been put without a lease.
                controllers.retain(|it| !readings.is_silent(it.run));
                let clocks = readings.offsets();
                Alive { controllers, is_heard: true, clocks }
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
