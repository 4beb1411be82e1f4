//! Records the messages of channels in a file, for debugging (docs/protocol/channel.md 18).
//!
//! A record has the time, the channel, the type and the length of a message; never its body or its
//! headers, because these have tokens and data of applications. The tasks of connections pass records to a
//! thread; records beyond what it can write are dropped and counted.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use weft_wire::Message;
use weft_wire::trace::{ChannelMessage, ChannelState, Record, name_of};

use crate::clock;
use crate::handle::ChannelHandle;
use crate::tap::Tap;

/// Most records that wait to be written.
const WAITING: usize = 16 * 1024;
/// Longest time that a record waits for others in memory.
const FLUSH: Duration = Duration::from_secs(1);

/// The interval at which room is looked for when the thread has fallen behind.
const LOOK: Duration = Duration::from_millis(5);

/// A file for records of messages. It is closed with the last clone and tap; a program that ends
/// before that calls [`TraceFile::flush`].
#[derive(Debug, Clone)]
pub struct TraceFile {
    identity: Arc<str>,
    work: SyncSender<Work>,
    dropped: Arc<AtomicU64>,
}

/// The work of the thread.
#[derive(Debug)]
enum Work {
    Write(Record),
    /// Everything before this is to be written to the file.
    Flush(oneshot::Sender<()>),
}

impl TraceFile {
    /// Begins a new file. `identity` is the name of this program in the records.
    ///
    /// # Errors
    /// When the file or the thread cannot be made.
    pub fn create(path: &Path, identity: &str) -> io::Result<Self> {
        Self::flushed(path, identity, FLUSH)
    }

    /// A file into which records are written at this interval.
    fn flushed(path: &Path, identity: &str, every: Duration) -> io::Result<Self> {
        let file = File::create(path)?;
        let (work, waiting) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let shown = path.display().to_string();
        let lost = Arc::clone(&dropped);
        std::thread::Builder::new().name("weft-trace".to_owned()).spawn(move || {
            if let Err(error) = write(file, &waiting, every) {
                tracing::warn!(file = shown, %error, "messages are not traced any more");
            }
            let lost = lost.load(Ordering::Relaxed);
            if lost > 0 {
                tracing::warn!(file = shown, lost, "messages were not traced: too many at once");
            }
        })?;
        Ok(Self { identity: identity.into(), work, dropped })
    }

    /// Records the messages of a channel from now on; to be called before the channel is started.
    pub fn follow(&self, channel: &ChannelHandle) {
        let tap = self.tap(channel);
        channel.tap(Arc::new(tap));
    }

    /// The tap that records the messages of a channel, for callers with a tap of their own around
    /// it.
    #[must_use]
    pub fn tap(&self, channel: &ChannelHandle) -> TraceTap {
        let tap = TraceTap {
            file: self.clone(),
            channel: channel.label().to_owned(),
            remote: channel.peer().remote.to_string(),
        };
        tap.state(true);
        tap
    }

    /// Waits until all records so far are in the file, up to the limit.
    pub async fn flush(&self, limit: Duration) {
        let (done, is_done) = oneshot::channel();
        let flushed = async {
            let mut work = Work::Flush(done);
            // A queue without room gets some as the thread writes.
            while let Err(TrySendError::Full(back)) = self.work.try_send(work) {
                work = back;
                tokio::time::sleep(LOOK).await;
            }
            // There is no answer if the file could not be written, which was logged.
            let _ = is_done.await;
        };
        if tokio::time::timeout(limit, flushed).await.is_err() {
            tracing::warn!(?limit, "the end of the trace is not in its file: it took too long");
        }
    }

    fn put(&self, record: Record) {
        if self.work.try_send(Work::Write(record)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(file: impl Write, work: &Receiver<Work>, every: Duration) -> io::Result<()> {
    let (mut file, mut bytes) = (BufWriter::new(file), Vec::new());
    let mut due = Instant::now() + every;
    loop {
        match work.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Work::Write(record)) => {
                bytes.clear();
                record.encode(&mut bytes);
                file.write_all(&bytes)?;
            }
            Ok(Work::Flush(done)) => {
                file.flush()?;
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return file.flush(),
        }
        // Checked also while records keep coming.
        if Instant::now() >= due {
            file.flush()?;
            due = Instant::now() + every;
        }
    }
}

/// Records the messages of one channel.
#[derive(Debug)]
pub struct TraceTap {
    file: TraceFile,
    channel: String,
    remote: String,
}

impl TraceTap {
    fn state(&self, connected: bool) {
        self.file.put(Record::State(ChannelState {
            timestamp: now(),
            identity: self.file.identity.to_string(),
            channel: self.channel.clone(),
            connected,
            remote_address: self.remote.clone(),
        }));
    }

    fn message(&self, message: &Message, is_rx: bool) {
        let name = name_of(message.content_type).unwrap_or("unknown");
        let decode = format!("{{\"__decoder__\":\"weft\",\"__message__\":\"{name}\"}}");
        self.file.put(Record::Message(ChannelMessage {
            timestamp: now(),
            identity: self.file.identity.to_string(),
            channel: self.channel.clone(),
            is_rx,
            content_type: message.content_type,
            sequence: message.sequence,
            reply_for: message.reply_for().unwrap_or(-1),
            length: i32::try_from(message.body.len()).unwrap_or(i32::MAX),
            decode: decode.into_bytes(),
        }));
    }
}

impl Tap for TraceTap {
    fn received(&self, message: &Message) {
        self.message(message, true);
    }

    fn sent(&self, message: &Message) {
        self.message(message, false);
    }
}

impl Drop for TraceTap {
    fn drop(&mut self) {
        self.state(false);
    }
}

fn now() -> i64 {
    i64::try_from(clock::since_1970().as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record::State(ChannelState {
            timestamp: 1,
            identity: "r1".to_owned(),
            channel: "ctrl".to_owned(),
            connected: true,
            remote_address: "192.0.2.1:1".to_owned(),
        })
    }

    #[test]
    fn records_reach_the_file_while_more_keep_coming() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let trace = TraceFile::flushed(file.path(), "r1", Duration::from_millis(20)).unwrap();
        let begun = Instant::now();
        // Fewer bytes than fill the buffer: only time writes them.
        while file.path().metadata().unwrap().len() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(15), "nothing reached the file");
            trace.put(record());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[tokio::test]
    async fn a_record_has_the_time_of_day() {
        let (before, day) = (now(), Duration::from_secs(24 * 3600));
        crate::tests::support::later(day).await;
        let after = Duration::from_nanos(now().abs_diff(before));
        assert!(after.abs_diff(day) < day / 2, "{after:?}");
    }

    #[tokio::test]
    async fn the_end_is_in_the_file_when_it_was_flushed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let trace = TraceFile::create(file.path(), "r1").unwrap();
        let mut one = Vec::new();
        record().encode(&mut one);
        for count in 1..=3 {
            trace.put(record());
            trace.flush(Duration::from_secs(60)).await;
            assert_eq!(std::fs::read(file.path()).unwrap().len(), count * one.len());
        }
    }
}
