use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;
use weft_kernel::GuessLimits;

use super::{Guesses, PasswordAttempt};

const MINUTE: Duration = Duration::from_secs(60);

fn guesses() -> Guesses {
    Guesses::new(GuessLimits::default())
}

fn ip(last: u8) -> Option<IpAddr> {
    Some(IpAddr::from([192, 0, 2, last]))
}

/// Guesses for this long as fast as possible, and returns the number of checked passwords.
async fn guess(all: &Guesses, name: impl Fn(usize) -> String, from: Option<IpAddr>) -> usize {
    let begin = Instant::now();
    let mut looked_at = 0;
    while begin.elapsed() < MINUTE {
        match all.attempt(&name(looked_at), from).await {
            // The password was checked, and was wrong.
            Ok(attempt) if begin.elapsed() < MINUTE => {
                looked_at += 1;
                drop(attempt);
            }
            Ok(attempt) => attempt.neither(),
            Err(wait) => tokio::time::sleep(wait).await,
        }
    }
    looked_at
}

#[tokio::test(start_paused = true)]
async fn ten_wrong_passwords_a_minute_for_a_name_from_wherever() {
    let all = guesses();
    for minute in 0..3_u8 {
        let looked_at = guess(&all, |_| "anna".into(), ip(minute)).await;
        assert!((5..=10).contains(&looked_at), "{looked_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_wrong_passwords_a_minute_from_an_address_for_whomever() {
    let all = guesses();
    let looked_at = guess(&all, |at| format!("name{at}"), ip(1)).await;
    assert!((90..=100).contains(&looked_at), "{looked_at}");
    // Other addresses are not delayed.
    all.attempt("anna", ip(2)).await.unwrap().right();
}

#[tokio::test(start_paused = true)]
async fn right_passwords_cost_nothing() {
    let all = guesses();
    let begin = Instant::now();
    for _ in 0..1000 {
        all.attempt("anna", ip(1)).await.unwrap().right();
    }
    for _ in 0..3 {
        drop(all.attempt("anna", ip(1)).await.unwrap());
        all.attempt("anna", ip(1)).await.unwrap().right();
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn many_right_passwords_at_once_are_all_looked_at() {
    let all = guesses();
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let all = all.clone();
        asked.spawn(
            async move { all.attempt("anna", ip(1)).await.map(PasswordAttempt::right).is_ok() },
        );
    }
    assert!(asked.join_all().await.into_iter().all(|is_ok| is_ok));
}

#[tokio::test(start_paused = true)]
async fn as_many_wrong_passwords_at_once_as_one_by_one() {
    let all = guesses();
    let mut asked = tokio::task::JoinSet::new();
    for at in 0..200_u8 {
        let all = all.clone();
        asked.spawn(async move {
            let attempt = all.attempt("anna", ip(at)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            attempt.is_ok()
        });
    }
    let looked_at = asked.join_all().await.into_iter().filter(|is_ok| *is_ok).count();
    assert!(looked_at <= 6, "{looked_at}");
}

/// A guesser at each address, which asks again 100 ms after each refusal.
fn guess_from(
    all: &Guesses,
    addresses: impl IntoIterator<Item = IpAddr>,
) -> tokio::task::JoinSet<()> {
    let mut guessers = tokio::task::JoinSet::new();
    for from in addresses {
        let all = all.clone();
        guessers.spawn(async move {
            loop {
                if all.attempt("anna", Some(from)).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        });
    }
    guessers
}

/// Logs in like an honest client that waits for the time it is told, in whole seconds. Returns the
/// time until the login.
async fn log_in(all: &Guesses, from: Option<IpAddr>, deadline: Duration) -> Duration {
    let begin = Instant::now();
    loop {
        match all.attempt("anna", from).await {
            Ok(attempt) => {
                attempt.right();
                return begin.elapsed();
            }
            Err(wait) => {
                assert!(begin.elapsed() < deadline, "locked out");
                tokio::time::sleep(Duration::from_secs(wait.as_secs_f64().ceil() as u64)).await;
            }
        }
    }
}

fn strangers(count: u8) -> impl Iterator<Item = IpAddr> {
    (0..count).map(|last| IpAddr::from([198, 51, 100, last]))
}

#[tokio::test(start_paused = true)]
async fn the_owner_comes_before_who_guesses() {
    for per_name in [1, 2, 5, 10, 30, 100] {
        let all = Guesses::new(GuessLimits { per_name, per_address: 100 });
        // The owner logged in from this address before, while all other addresses guess all the
        // time.
        all.attempt("anna", ip(1)).await.unwrap().right();
        let _guessers = guess_from(&all, strangers(200));
        for _ in 0..5 {
            // A moment between two turns.
            tokio::time::sleep(Duration::from_millis(61_300)).await;
            let took = log_in(&all, ip(1), MINUTE).await;
            assert!(took < Duration::from_secs(1), "{per_name} a minute: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_who_erred_at_a_known_address_comes_before_who_guesses() {
    let all = guesses();
    all.attempt("anna", ip(1)).await.unwrap().right();
    let _guessers = guess_from(&all, strangers(40));
    tokio::time::sleep(MINUTE).await;
    for _ in 0..3 {
        drop(all.attempt("anna", ip(1)).await);
    }
    let took = log_in(&all, ip(1), MINUTE).await;
    assert!(took <= Duration::from_secs(30), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_at_a_new_address_gets_in_beside_forty_who_guess() {
    let all = guesses();
    let _guessers = guess_from(&all, strangers(40));
    tokio::time::sleep(MINUTE).await;
    for address in 1..=4 {
        // 41 intervals of 10 s are the most to be expected.
        log_in(&all, ip(address), 60 * MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_at_a_new_address_gets_in_whatever_the_limit() {
    for per_name in [1, 2, 5, 10, 30, 100] {
        let all = Guesses::new(GuessLimits { per_name, per_address: 100 });
        let _guessers = guess_from(&all, strangers(10));
        tokio::time::sleep(5 * MINUTE).await;
        log_in(&all, ip(1), 240 * MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_requests_of_one_address_are_one_in_the_line() {
    let all = guesses();
    let one = IpAddr::from([198, 51, 100, 7]);
    let _guessers = guess_from(&all, std::iter::repeat_n(one, 100));
    tokio::time::sleep(MINUTE).await;
    log_in(&all, ip(1), 10 * MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_who_erred_at_a_new_address_gets_in_beside_addresses_that_change() {
    let all = guesses();
    drop(all.attempt("anna", ip(1)).await.unwrap());
    let mut guessers = tokio::task::JoinSet::new();
    for network in 0..8_u16 {
        let all = all.clone();
        guessers.spawn(async move {
            for host in 0..u16::MAX {
                let from = IpAddr::from([0x2001, 0xdb8, network, host, 0, 0, 0, 1]);
                drop(all.attempt("anna", Some(from)).await);
                tokio::time::sleep(Duration::from_secs(8)).await;
            }
        });
    }
    tokio::time::sleep(MINUTE).await;
    log_in(&all, ip(1), 240 * MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn known_addresses_and_strangers_together_have_ten_a_minute() {
    let all = guesses();
    all.attempt("anna", ip(1)).await.unwrap().right();
    for _ in 0..3 {
        let guesses = [1, 2, 3].map(|last| guess(&all, |_| "anna".into(), ip(last)));
        let looked_at: usize = futures::future::join_all(guesses).await.into_iter().sum();
        assert!((5..=10).contains(&looked_at), "{looked_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_limited_is_not_counted() {
    let all = Guesses::new(GuessLimits { per_name: 0, per_address: 0 });
    let begin = Instant::now();
    for _ in 0..1000 {
        drop(all.attempt("anna", ip(1)).await.unwrap());
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_a_large_network_of_ipv6_has_three_lots() {
    let all = guesses();
    let sources = (0..1000).map(|subnet| IpAddr::from([0x2001, 0xdb8, 1, subnet, 0, 0, 0, 1]));
    let _guessers = guess_from(&all, sources);
    tokio::time::sleep(MINUTE).await;
    // One interval in four of 10 s on average.
    log_in(&all, ip(1), 5 * MINUTE).await;
}
