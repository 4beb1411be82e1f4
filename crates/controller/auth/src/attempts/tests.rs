use std::net::Ipv4Addr;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;
use weft_model::Id;

use super::{ALL_WAITING, Attempts, CodeAttempt, CodeKind, Guesser};

const FIVE: Duration = Duration::from_secs(5);

/// A sender at an address that has shown only the first factor.
fn at(address: u8, session: &str) -> Guesser {
    Guesser {
        identity: Id::new("anna"),
        session: Id::new(session),
        source: Some(Ipv4Addr::new(192, 0, 2, address).into()),
        is_proven: false,
    }
}

async fn attempt(attempts: &Attempts, guesser: &Guesser) -> Result<CodeAttempt, Duration> {
    attempts.attempt(guesser.clone(), CodeKind::Totp).await
}

async fn wrong(attempts: &Attempts, guesser: &Guesser, times: usize) {
    for _ in 0..times {
        drop(attempt(attempts, guesser).await.unwrap());
    }
}

/// Lets tasks run without advancing the clock.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn six_digits_are_codes_of_the_app() {
    assert_eq!(CodeKind::of("012345"), CodeKind::Totp);
    for other in ["", "12345", "1234567", "ABC234", "１２３４"] {
        assert_eq!(CodeKind::of(other), CodeKind::Recovery, "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_after_wrong_codes_get_slower_up_to_a_bound() {
    let attempts = Attempts::default();
    let guesser = at(1, "s");
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let asked = Instant::now();
        drop(attempt(&attempts, &guesser).await.unwrap());
        pauses.push(asked.elapsed().as_millis());
    }
    assert_eq!(pauses, [0, 250, 500, 1000, 2000, 4000, 5000, 5000, 5000]);

    // A code that comes after the pause does not wait.
    tokio::time::advance(FIVE).await;
    let asked = Instant::now();
    attempt(&attempts, &guesser).await.unwrap().neither();
    attempt(&attempts, &guesser).await.unwrap().right();
    assert_eq!(asked.elapsed(), Duration::ZERO);
    wrong(&attempts, &guesser, 2).await;
    assert_eq!(asked.elapsed().as_millis(), 250, "a right code ends the pauses");

    wrong(&attempts, &guesser, 8).await;
    tokio::time::advance(Duration::from_secs(300)).await;
    let asked = Instant::now();
    wrong(&attempts, &guesser, 2).await;
    assert_eq!(asked.elapsed().as_millis(), 250, "so does a while without wrong ones");
}

#[tokio::test(start_paused = true)]
async fn one_kind_of_code_does_not_hold_up_the_other_nor_other_identities() {
    let attempts = Attempts::default();
    wrong(&attempts, &at(1, "s"), 8).await;
    let asked = Instant::now();
    attempts.attempt(at(1, "s"), CodeKind::Recovery).await.unwrap().right();
    let ben = Guesser { identity: Id::new("ben"), ..at(1, "t") };
    attempt(&attempts, &ben).await.unwrap().right();
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn codes_sent_together_are_looked_at_one_by_one() {
    let attempts = Attempts::default();
    wrong(&attempts, &at(1, "s0"), 8).await;
    let begun = Instant::now();
    let guesses = (0..40).map(|guess| {
        let attempts = attempts.clone();
        async move {
            let attempt = attempt(&attempts, &at(1, &format!("s{guess}"))).await;
            let waited = begun.elapsed();
            attempt.map(|_| waited)
        }
    });
    let answers = futures::future::join_all(guesses).await;
    let looked_at: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
    assert_eq!(looked_at, [&FIVE], "one in 5 s; the second would be too late");
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(refused.clone().all(|wait| *wait >= Duration::from_secs(1) && *wait <= FIVE));
    assert_eq!(refused.count(), 39);
}

/// Guesses that wait, each in a session of its own.
fn waiting(
    attempts: &Attempts,
    guessers: impl IntoIterator<Item = Guesser>,
) -> Vec<tokio::task::JoinHandle<bool>> {
    let wait = |guesser: Guesser| {
        let attempts = attempts.clone();
        tokio::spawn(async move { attempt(&attempts, &guesser).await.is_ok() })
    };
    guessers.into_iter().map(wait).collect()
}

#[tokio::test(start_paused = true)]
async fn who_guesses_waits_behind_the_owner() {
    let attempts = Attempts::default();
    wrong(&attempts, &at(1, "bad"), 8).await;
    // Many sessions of a guesser, and then the owner, who comes first.
    let mut guesses = waiting(&attempts, (0..4).map(|guess| at(1, &format!("bad{guess}"))));
    settle().await;
    let asked = Instant::now();
    attempt(&attempts, &at(2, "owner")).await.unwrap().right();
    assert!(asked.elapsed() <= FIVE, "{:?}", asked.elapsed());
    for guess in guesses.drain(..) {
        guess.await.unwrap();
    }

    // From here on the owner is known there, and has a place and the next turn whoever else comes from new addresses.
    wrong(&attempts, &at(1, "bad"), 8).await;
    let crowd = (10..90).map(|address| at(address, &format!("a{address}")));
    let crowd = waiting(&attempts, crowd);
    settle().await;
    let asked = Instant::now();
    attempt(&attempts, &at(2, "new session")).await.unwrap().right();
    assert!(asked.elapsed() <= FIVE, "{:?}", asked.elapsed());
    for guess in crowd {
        guess.await.unwrap();
    }
    attempts.forget(&Id::new("anna"));
    assert!(!attempts.0.lock().known.has(&at(2, "owner"), Instant::now()));

    // A session with an earlier right code comes first, even from the guesser's address.
    wrong(&attempts, &at(1, "bad"), 8).await;
    let guess = waiting(&attempts, [at(1, "fresh")]).remove(0);
    settle().await;
    let owner = Guesser { is_proven: true, ..at(1, "owner") };
    wrong(&attempts, &owner, 1).await;
    assert!(!guess.is_finished());
}

#[tokio::test(start_paused = true)]
async fn one_code_of_a_session_waits() {
    let attempts = Attempts::default();
    wrong(&attempts, &at(1, "s"), 8).await;
    let waiting = tokio::spawn({
        let attempts = attempts.clone();
        async move { attempt(&attempts, &at(1, "s")).await.is_ok() }
    });
    settle().await;
    assert_eq!(attempt(&attempts, &at(1, "s")).await.unwrap_err(), FIVE);
    assert!(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_gives_his_place_up() {
    let attempts = Attempts::default();
    wrong(&attempts, &at(1, "s"), 8).await;
    let gone = at(1, "s");
    for _ in 0..ALL_WAITING {
        let waiting = attempt(&attempts, &gone);
        tokio::time::timeout(Duration::from_millis(1), waiting).await.unwrap_err();
    }
    assert_eq!(attempts.0.lock().waiting.strangers, 0);
    attempt(&attempts, &at(1, "s")).await.unwrap().right();
    tokio::time::advance(Duration::from_secs(9 * 3600)).await;
    attempt(&attempts, &at(1, "s")).await.unwrap().right();
    assert!(attempts.0.lock().by_owner.is_empty(), "nothing is left to remember");
}

#[tokio::test(start_paused = true)]
async fn few_wait_of_all_identities_and_the_others_need_not() {
    let attempts = Attempts::default();
    let of = |number: usize| Guesser { identity: Id::new(&number.to_string()), ..at(1, "s") };
    let guessers: Vec<_> = (0..ALL_WAITING).map(of).collect();
    futures::future::join_all(guessers.iter().map(|it| wrong(&attempts, it, 8))).await;
    let waiting: Vec<_> = guessers
        .into_iter()
        .map(|guesser| {
            let attempts = attempts.clone();
            tokio::spawn(async move { attempt(&attempts, &guesser).await.is_ok() })
        })
        .collect();
    settle().await;
    let held = attempt(&attempts, &of(1000)).now_or_never().unwrap().unwrap();
    let other = Guesser { session: Id::new("t"), ..of(1000) };
    assert!(attempt(&attempts, &other).now_or_never().unwrap().is_err());
    held.right();
    for each in waiting {
        assert!(each.await.unwrap());
    }
    attempt(&attempts, &other).await.unwrap().right();
}

#[tokio::test(start_paused = true)]
async fn after_many_wrong_codes_two_right_ones_are_needed() {
    let attempts = Attempts::default();
    wrong(&attempts, &at(1, "bad"), 29).await;
    let trusted = attempt(&attempts, &at(2, "owner")).await.unwrap();
    assert!(trusted.believes("111111"));
    trusted.right();
    wrong(&attempts, &at(1, "bad"), 1).await;

    let first = attempt(&attempts, &at(2, "owner")).await.unwrap();
    assert!(!first.believes("111111"));
    drop(first);
    let same = attempt(&attempts, &at(2, "owner")).await.unwrap();
    assert!(!same.believes("111111"), "the same one again says nothing");
    drop(same);
    let other = attempt(&attempts, &at(1, "bad")).await.unwrap();
    assert!(!other.believes("333333"), "the owner's code does not vouch for another session");
    drop(other);
    let again = attempt(&attempts, &at(2, "owner")).await.unwrap();
    assert!(!again.believes("444444"));
    drop(again);
    let second = attempt(&attempts, &at(2, "owner")).await.unwrap();
    assert!(second.believes("555555"));
    second.right();

    let late = attempt(&attempts, &at(2, "owner")).await.unwrap();
    assert!(!late.believes("666666"));
    drop(late);
    tokio::time::advance(Duration::from_secs(120)).await;
    let late = attempt(&attempts, &at(2, "owner")).await.unwrap();
    assert!(!late.believes("777777"), "too long after the first");
    late.neither();
    tokio::time::advance(Duration::from_secs(10 * 3600)).await;
    let forgiven = attempt(&attempts, &at(2, "owner")).await.unwrap();
    assert!(forgiven.believes("888888"));
    forgiven.right();
}
