//! The whole data model, as a new router is sent it, while a client goes on writing.
//!
//! The time and the size of the encoding are read from the controller's log.

use std::io;
use std::time::{Duration, Instant};

use weft_model::Kind;

use super::asks::API;
use super::bed::{Bed, millis};
use super::client::{Client, Target};
use super::report::Figure;

/// Writes before the router comes.
const BEFORE: u32 = 100;
/// Time limit until the router has the data model.
const PATIENCE: Duration = Duration::from_secs(300);
/// Texts at the beginning of the log lines that are waited for.
const ENCODED: &str = "full data model encoded";
const TAKEN: &str = "data model received";

/// Measures the encoding, and the writes meanwhile.
pub(crate) async fn measure(bed: &Bed, target: &Target) -> io::Result<Vec<Figure>> {
    let mut writer = Writer { client: Client::connect(target).await?, bed, number: 0 };
    let mut before = Vec::new();
    for _ in 0..BEFORE {
        before.push(writer.write().await?);
    }
    let begun = Instant::now();
    let _router = bed.home.start_router()?;
    let mut meanwhile = Vec::new();
    let mut encoded = None;
    let taken = loop {
        let took = writer.write().await?;
        if encoded.is_none() {
            meanwhile.push(took);
            encoded = line(&bed.home.log()?, ENCODED);
        } else {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if line(&bed.home.router_log()?, TAKEN).is_some() {
            break begun.elapsed();
        }
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other("no router was told the data model"));
        }
    };
    let encoded = encoded.or(line(&bed.home.log()?, ENCODED)).unwrap_or_default();
    let took = field(&encoded, "took=").and_then(duration).unwrap_or_default();
    let bytes: f64 = field(&encoded, "bytes=").and_then(|it| it.parse().ok()).unwrap_or_default();
    before.sort_unstable();
    meanwhile.sort_unstable();
    Ok(vec![
        Figure {
            name: "full data model encoded".into(),
            value: took.as_secs_f64(),
            unit: "s",
            note: format!(
                "{:.1} MiB; a new router has it after {:.1} s",
                bytes / 1_048_576.0,
                taken.as_secs_f64()
            ),
            ..Figure::default()
        },
        Figure {
            name: "patch of an identity meanwhile".into(),
            value: millis(&meanwhile, 99),
            unit: "ms p99",
            median: Some(millis(&meanwhile, 50)),
            note: format!(
                "longest of {}: {:.1} ms; before: p50 {:.2}, p99 {:.2} ms",
                meanwhile.len(),
                millis(&meanwhile, 100),
                millis(&before, 50),
                millis(&before, 99)
            ),
            ..Figure::default()
        },
    ])
}

/// A client that changes identities, one after the other.
struct Writer<'b> {
    client: Client,
    bed: &'b Bed,
    number: u32,
}

impl Writer<'_> {
    async fn write(&mut self) -> io::Result<Duration> {
        self.number += 1;
        let network = &self.bed.network;
        let id = network.id(Kind::Identity, self.number % network.identities);
        // The value differs from those of earlier runs, because an equal one would be no change.
        let body = format!("{{\"tags\":{{\"turn\":\"{}.{}\"}}}}", std::process::id(), self.number);
        let sent = Instant::now();
        let path = format!("{API}/identities/{id}");
        self.client.send("PATCH", &path, Some(body)).await?.accept()?;
        Ok(sent.elapsed())
    }
}

/// The first line that contains a text.
fn line(log: &str, text: &str) -> Option<String> {
    log.lines().find(|line| line.contains(text)).map(str::to_owned)
}

/// The word that follows a given word in a line.
fn field<'l>(line: &'l str, word: &str) -> Option<&'l str> {
    line.split_ascii_whitespace().find_map(|part| part.strip_prefix(word))
}

/// A duration in the form of logs: `1.5s`, `383.4ms`.
fn duration(text: &str) -> Option<Duration> {
    let units = [("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9), ("s", 1.0)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    Some(Duration::from_secs_f64(number.parse::<f64>().ok()? * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_read() {
        let log =
            "one\n DEBUG x: full data model encoded index=7 bytes=9215621 took=383.440146ms\n";
        let line = line(log, ENCODED).unwrap();
        assert_eq!(field(&line, "bytes="), Some("9215621"));
        let took = field(&line, "took=").and_then(duration).unwrap();
        assert_eq!(took.as_micros(), 383_440);
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("2µs"), Some(Duration::from_micros(2)));
        assert_eq!(duration("soon"), None);
    }
}
