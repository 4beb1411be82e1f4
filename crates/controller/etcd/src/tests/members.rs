//! An etcd of three members of which one at a time is killed, or frozen, and comes back, while two controllers write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use weft_store::{Replica, Store as _};
use weft_test_etcd::Server;

use super::server::Reach as _;
use super::{PATIENCE, commit, open, put, reached, rows};
use crate::{EtcdLog, EtcdOptions};

/// Controllers that write.
const WRITERS: usize = 2;
/// Changes that each of them makes before the next thing happens.
const CHANGES: u64 = 20;

/// A controller that makes one change after the other.
struct Writing {
    store: Arc<Replica>,
    made: Arc<AtomicU64>,
    /// The longest time of one change in the present part of the test, in milliseconds.
    longest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Writing {
    fn start(number: usize, store: Replica) -> Self {
        let store = Arc::new(store);
        let (made, longest, stop) = <(Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        let work = {
            let (store, made, longest, stop) =
                (Arc::clone(&store), Arc::clone(&made), Arc::clone(&longest), Arc::clone(&stop));
            async move {
                while !stop.load(Ordering::Relaxed) {
                    let id = format!("s{number}-{}", made.load(Ordering::Relaxed));
                    let begun = Instant::now();
                    commit(&store, put(&id, &id)).await;
                    longest.fetch_max(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
                    made.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        Self { store, made, longest, stop, task: tokio::spawn(work) }
    }
}

/// Waits until each controller has made more changes; says how long one took at most.
async fn more_changes(writers: &[Writing], during: &str) {
    for writer in writers {
        let until = writer.made.load(Ordering::Relaxed) + CHANGES;
        let made = async {
            while writer.made.load(Ordering::Relaxed) < until {
                assert!(!writer.task.is_finished(), "{during}: a change was not made in time");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE * 2, made).await.unwrap_or_else(|_| panic!("{during}"));
    }
    let longest = writers.iter().map(|writer| writer.longest.swap(0, Ordering::Relaxed));
    eprintln!("{during}: a change took {} ms at most", longest.max().unwrap_or_default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_go_on_while_one_of_three_members_is_killed_or_frozen_and_comes_back() {
    let Some(mut etcd) = Server::start_several(3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let endpoints: Vec<String> = etcd.iter().map(Server::endpoint).collect();
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let mut endpoints = endpoints.clone();
        endpoints.rotate_left(number);
        let options = EtcdOptions { endpoints, ..etcd[0].options() };
        let store = open(folder.path(), &number.to_string(), EtcdLog::new(options)).await;
        writers.push(Writing::start(number, store));
    }
    more_changes(&writers, "all members run").await;
    for (number, member) in etcd.iter_mut().enumerate() {
        tokio::task::block_in_place(|| member.kill());
        more_changes(&writers, &format!("member {number} is killed")).await;
        tokio::task::block_in_place(|| member.run());
        more_changes(&writers, &format!("member {number} is back")).await;
        member.signal("STOP");
        more_changes(&writers, &format!("member {number} is frozen")).await;
        member.signal("CONT");
        more_changes(&writers, &format!("member {number} goes on")).await;
    }
    let (mut made, mut stores) = (0, Vec::new());
    for writer in writers {
        writer.stop.store(true, Ordering::Relaxed);
        writer.task.await.unwrap();
        made += writer.made.load(Ordering::Relaxed);
        stores.push(writer.store);
    }
    let head = stores.iter().map(|store| store.head().unwrap().revision).max().unwrap();
    for store in stores {
        reached(&store, head).await;
        assert_eq!(rows(&store).len() as u64, made, "every change that was made, once");
    }
}
