//! The thread on which commits wait for the disk, apart from the threads of reads, of which there
//! may be many.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::{io, thread};

use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// The thread. Dropping the value ends it after the work that was queued.
#[derive(Debug)]
pub(super) struct CommitThread(mpsc::Sender<Job>);

impl CommitThread {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, asked) = mpsc::channel::<Job>();
        let run = move || {
            for job in asked {
                // After a panic the caller gets no result; the thread goes on.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        };
        thread::Builder::new().name("weft-store-commit".into()).spawn(run)?;
        Ok(Self(jobs))
    }

    /// Queues work and returns its result; `None` if it was not done.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        let job = move || {
            // The caller may have gone.
            let _ = done.send(work());
        };
        self.0.send(Box::new(job)).ok()?;
        result.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tests::{commit, put, rows, service};
    use crate::{Embedded, Options};

    #[test]
    fn reads_that_fill_the_blocking_pool_do_not_hold_up_commits() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(1).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(&folder.path().join("db"), Options::default()).unwrap();
        runtime.block_on(async {
            let (release, held) = mpsc::channel::<()>();
            let reading = tokio::task::spawn_blocking(move || held.recv());
            let committed = commit(&store, vec![put(service("a", "a"))]);
            let committed = tokio::time::timeout(Duration::from_secs(60), committed);
            committed.await.expect("the commit waits for reads");
            assert_eq!(rows(&store), [service("a", "a")]);
            drop(release);
            reading.await.unwrap().unwrap_err();
        });
    }

    #[tokio::test]
    async fn a_fault_ends_one_job_and_not_the_thread() {
        let thread = CommitThread::start().unwrap();
        assert_eq!(thread.run(|| -> u8 { panic!("a fault") }).await, None);
        assert_eq!(thread.run(|| 7).await, Some(7));
    }
}
