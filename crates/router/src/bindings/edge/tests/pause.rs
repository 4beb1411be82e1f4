//! SDKs that send more than their circuits take, and are not read for a while.

use super::*;
use crate::forwarder::ConnOwner as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_that_comes_and_goes_keeps_the_sdk_alive_once() {
    let router = router().await;
    let _sdk = router.sdk("dialer").await;
    router.until("the connection", || !router.data.edge().live().is_empty()).await;
    let connection = router.data.edge().live().pop().unwrap();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..200 {
        connection.backlog(true);
        connection.backlog(false);
    }
    // Some that have nothing to do with it come and go meanwhile.
    let more = tasks().saturating_sub(before);
    assert!(more < 20, "{more} tasks for one connection");
}
