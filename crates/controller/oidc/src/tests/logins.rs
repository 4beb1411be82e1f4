//! The table of logins: codes, callbacks, devices, bounds.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::browser::visitor;
use crate::client::Client;
use crate::device::{DeviceCodes, DeviceRequest};
use crate::login::{CallerData, Granted, LoginRefused, Visitor};
use crate::logins::{Callback, LOGIN_LIFE, NoDevice, Redeemed};
use crate::problem::OidcErrorCode;
use crate::scopes::Scopes;

fn complete(logins: &mut PendingLogins<()>, id: &str, visitor: Visitor, now: Instant) {
    let primary = primary("a", "a1", Missing::default());
    let missing = logins.step(id, now, |login| login.primary(visitor, primary, ())).unwrap();
    assert!(missing.is_nothing());
}

fn code_of(callback: Result<Callback, LoginRefused>) -> String {
    let Ok(Callback::Code(to)) = callback else { panic!("{callback:?}") };
    let url = url::Url::parse(&to).unwrap();
    let code = url.query_pairs().find(|(name, _)| name == "code").unwrap().1;
    code.into_owned()
}

fn redeem(logins: &mut PendingLogins<()>, code: &str, now: Instant) -> Redeemed<()> {
    logins.redeem(code, Client::OpenZiti, REDIRECT, VERIFIER, now)
}

fn refused(redeemed: Redeemed<()>) -> String {
    match redeemed {
        Redeemed::Refused(problem) => {
            assert_eq!(problem.code, OidcErrorCode::InvalidGrant);
            problem.description
        }
        other => panic!("{other:?}"),
    }
}

/// A login by JSON up to its code.
fn code(logins: &mut PendingLogins<()>, next: &mut u32, now: Instant) -> String {
    let begun = begin(logins, next, now);
    complete(logins, &begun.id, Visitor::Json, now);
    code_of(logins.callback(&begun.id, Visitor::Json, &random(next), now))
}

#[test]
fn a_code_is_good_once_for_who_began() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let code = code(&mut logins, &mut next, now);
    for (client, redirect, verifier) in [
        (Client::Native, REDIRECT, VERIFIER),
        (Client::OpenZiti, "http://localhost:8081/auth/callback", VERIFIER),
        (Client::OpenZiti, REDIRECT, "another-verifier-another-verifier-another-verifier"),
        (Client::OpenZiti, REDIRECT, ""),
    ] {
        refused(logins.redeem(&code, client, redirect, verifier, now));
    }
    let Redeemed::Granted(granted) = redeem(&mut logins, &code, now) else {
        panic!("a refusal used it up")
    };
    assert_eq!(granted.session, "session-2");
    for _ in 0..2 {
        let Redeemed::Again { session, problem } = redeem(&mut logins, &code, now) else {
            panic!()
        };
        assert_eq!((session.as_str(), problem.code), ("session-2", OidcErrorCode::InvalidGrant));
    }
    refused(redeem(&mut logins, "unknown", now));
}

#[test]
fn a_code_ends_after_a_minute() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let code = code(&mut logins, &mut next, now);
    refused(redeem(&mut logins, &code, now + Duration::from_secs(60)));
    let Redeemed::Granted(_) = redeem(&mut logins, &code, now + Duration::from_secs(59)) else {
        panic!()
    };
}

#[test]
fn the_callback_works_once() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let begun = begin(&mut logins, &mut next, now);
    complete(&mut logins, &begun.id, Visitor::Json, now);
    code_of(logins.callback(&begun.id, Visitor::Json, &random(&mut next), now));
    let again = logins.callback(&begun.id, Visitor::Json, &random(&mut next), now);
    assert_eq!(again, Err(LoginRefused::Unknown));
    assert_eq!(logins.get(&begun.id, now).map(drop), Err(LoginRefused::Unknown));
}

#[test]
fn a_login_on_pages_gives_its_code_to_its_browser_only() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let begun = begin(&mut logins, &mut next, now);
    complete(&mut logins, &begun.id, visitor(Some(&begun.browser)), now);
    let other = begin(&mut logins, &mut next, now);
    for cookie in [None, Some("x"), Some(other.browser.as_str())] {
        let stolen = logins.callback(&begun.id, visitor(cookie), &random(&mut next), now);
        assert_eq!(stolen, Err(LoginRefused::Elsewhere));
    }
    let by_json = logins.callback(&begun.id, Visitor::Json, &random(&mut next), now);
    assert_eq!(by_json, Err(LoginRefused::Elsewhere));
    code_of(logins.callback(&begun.id, visitor(Some(&begun.browser)), &random(&mut next), now));
}

#[test]
fn a_login_by_json_gives_no_code_to_a_page() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let begun = begin(&mut logins, &mut next, now);
    complete(&mut logins, &begun.id, Visitor::Json, now);
    for cookie in [None, Some(begun.browser.as_str())] {
        let page = logins.callback(&begun.id, visitor(cookie), &random(&mut next), now);
        assert_eq!(page, Err(LoginRefused::Elsewhere));
    }
    code_of(logins.callback(&begun.id, Visitor::Json, &random(&mut next), now));
}

#[test]
fn a_callback_before_the_end_ends_the_login() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let begun = begin(&mut logins, &mut next, now);
    let wanted = Missing { totp: None, signer: Some("s".into()) };
    let primary = primary("a", "a1", wanted);
    logins.step(&begun.id, now, |login| login.primary(Visitor::Json, primary, ())).unwrap();
    let Ok(Callback::NotFinished(to)) =
        logins.callback(&begun.id, Visitor::Json, &random(&mut next), now)
    else {
        panic!()
    };
    assert!(to.starts_with("http://localhost:8080/auth/callback?error=interaction_required&"));
    assert!(to.contains("&state=s&iss="));
    let step = logins.step(&begun.id, now, |login| login.token(Visitor::Json, "a", "s"));
    assert_eq!(step, Err(LoginRefused::Unknown));
}

#[test]
fn a_login_takes_ten_minutes_at_most() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let begun = begin(&mut logins, &mut next, now);
    let late = now + LOGIN_LIFE;
    assert!(logins.get(&begun.id, late - Duration::from_secs(1)).is_ok());
    assert_eq!(logins.get(&begun.id, late).map(drop), Err(LoginRefused::Unknown));
    let step = logins.step(&begun.id, late, |_| Ok(()));
    assert_eq!(step, Err(LoginRefused::Unknown));
    assert_eq!(
        logins.callback(&begun.id, Visitor::Json, &random(&mut next), late),
        Err(LoginRefused::Unknown)
    );
    logins.expire(late);
    assert!(logins.is_empty());
}

#[test]
fn another_identity_takes_the_login_out_of_the_table() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let begun = begin(&mut logins, &mut next, now);
    complete(&mut logins, &begun.id, Visitor::Json, now);
    let other = primary("b", "b1", Missing::default());
    let result = logins.step(&begun.id, now, |login| login.primary(Visitor::Json, other, ()));
    assert_eq!(result, Err(LoginRefused::OtherIdentity));
    assert!(logins.is_empty());
}

#[test]
fn a_browser_keeps_its_secret_for_several_logins() {
    let (mut logins, mut next, now) = (PendingLogins::<()>::default(), 0, Instant::now());
    let first = begin(&mut logins, &mut next, now);
    let fresh = [random(&mut next), random(&mut next)];
    let cookie = Some(first.browser.as_str());
    let second = logins.begin(request(1), "s".into(), cookie, address(1), &fresh, now);
    assert_eq!(first.browser, second.browser);
    assert_ne!(first.id, second.id);
    let fresh = [random(&mut next), random(&mut next)];
    let third = logins.begin(request(1), "s".into(), Some("guessed"), address(1), &fresh, now);
    assert_ne!(third.browser, "guessed");
}

#[test]
fn a_flood_displaces_itself_first() {
    let (mut logins, mut next, now) = (PendingLogins::<()>::new(64, 16), 0, Instant::now());
    let begun = begin(&mut logins, &mut next, now);
    for number in 0..1000_u32 {
        let fresh = [random(&mut next), random(&mut next)];
        let from = address(2 + (number % 3) as u8);
        logins.begin(request(4000), "s".into(), None, from, &fresh, now);
    }
    assert!(logins.get(&begun.id, now).is_ok());
    assert!(logins.places() <= 64);
    for _ in 0..100 {
        begin(&mut logins, &mut next, now);
    }
    assert!(logins.get(&begun.id, now).is_err(), "its own source displaced it");
}

/// What a caller keeps, of a size.
struct Large(usize);

impl CallerData for Large {
    fn bytes(&self) -> usize {
        self.0
    }
}

#[test]
fn what_a_caller_keeps_takes_places() {
    let (mut logins, mut next, now) = (PendingLogins::<Large>::new(64, 32), 0, Instant::now());
    let mut ids = Vec::new();
    for _ in 0..4 {
        let fresh = [random(&mut next), random(&mut next)];
        ids.push(logins.begin(request(1), "s".into(), None, address(1), &fresh, now).id);
    }
    for id in &ids[1..] {
        let primary = primary("a", "a1", Missing::default());
        logins
            .step(id, now, |login| login.primary(Visitor::Json, primary, Large(14 << 10)))
            .unwrap();
    }
    assert!(logins.get(&ids[0], now).is_err() && logins.get(&ids[1], now).is_err());
    assert!(logins.get(&ids[2], now).is_ok() && logins.get(&ids[3], now).is_ok());
    assert!(logins.places() <= 32);
}

#[test]
fn sessions_that_wait_lose_their_place_and_are_named() {
    let (mut logins, mut next, now) = (PendingLogins::<()>::new(8, 4), 0, Instant::now());
    logins.hold("half", address(1), 1, now);
    logins.hold("done", address(1), 1, now);
    logins.release("done");
    assert_eq!(logins.take_ended(), [""; 0]);
    for _ in 0..4 {
        begin(&mut logins, &mut next, now);
    }
    assert_eq!(logins.take_ended(), [""; 0], "nobody has shown a factor in the others");
    let others = ["second", "third", "fourth", "fifth"];
    others.iter().for_each(|session| logins.hold(session, address(1), 1, now));
    assert_eq!(logins.take_ended(), ["half"]);
    others.iter().for_each(|session| logins.release(session));
    // A large one takes the places of others, and time takes none.
    logins.hold("large", address(2), 3 << 10, now);
    logins.hold("small", address(2), 1, now);
    logins.expire(now + Duration::from_secs(1_000_000));
    assert_eq!((logins.places(), logins.take_ended().len()), (4, 0));
    logins.hold("small", address(2), 1, now);
    assert!(logins.take_ended().is_empty(), "one that is held again is not lost");
    logins.hold("next", address(2), 1, now);
    assert_eq!(logins.take_ended(), ["large"]);
}

fn device(logins: &mut PendingLogins<()>, next: &mut u32, now: Instant) -> DeviceCodes {
    let request = DeviceRequest {
        client: Client::Native,
        scopes: Scopes::parse("openid"),
        program: "weft/1".into(),
        address: address(9),
    };
    logins.begin_device(request, &[random(next), random(next)], now)
}

fn enter(
    logins: &mut PendingLogins<()>,
    next: &mut u32,
    code: &str,
    now: Instant,
) -> Result<Begun, NoDevice> {
    let fresh = [random(next), random(next)];
    logins.enter(code, format!("session-{next}"), None, address(1), &fresh, now)
}

fn ask(
    logins: &mut PendingLogins<()>,
    codes: &DeviceCodes,
    now: Instant,
) -> Result<Granted<()>, &'static str> {
    let answer = logins.ask(&codes.device_code, Client::Native, now);
    answer.map_err(|problem| problem.code.word())
}

#[test]
fn a_device_gets_its_tokens_when_the_person_agrees() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let codes = device(&mut logins, &mut next, now);
    assert_eq!(ask(&mut logins, &codes, now), Err("authorization_pending"));
    let begun = enter(&mut logins, &mut next, &codes.user_code.shown(), now).unwrap();
    assert_eq!(logins.device(&begun.id, now).unwrap().program, "weft/1");
    let cookie = Some(begun.browser.as_str());
    assert_eq!(logins.decide(&begun.id, cookie, true, now), Err(LoginRefused::NoPrimary));
    let by_json = primary("a", "a1", Missing::default());
    let by_json = logins.step(&begun.id, now, |login| login.primary(Visitor::Json, by_json, ()));
    assert_eq!(by_json, Err(LoginRefused::Elsewhere), "a device's login is on pages");
    complete(&mut logins, &begun.id, visitor(cookie), now);
    assert_eq!(
        ask(&mut logins, &codes, now + Duration::from_secs(5)),
        Err("authorization_pending")
    );
    let callback = logins.callback(&begun.id, visitor(cookie), &random(&mut next), now);
    assert_eq!(callback, Err(LoginRefused::NotWanted), "no code without a client");
    assert_eq!(logins.decide(&begun.id, None, true, now), Err(LoginRefused::Elsewhere));
    assert_eq!(logins.decide(&begun.id, cookie, true, now), Ok(()));
    assert_eq!(logins.decide(&begun.id, cookie, true, now), Err(LoginRefused::Unknown));
    let granted = ask(&mut logins, &codes, now + Duration::from_secs(5)).unwrap();
    assert_eq!((granted.client, granted.owner), (Client::Native, owner("a", "a1")));
    assert_eq!(ask(&mut logins, &codes, now + Duration::from_secs(6)), Err("invalid_grant"));
    assert!(logins.is_empty());
}

#[test]
fn a_device_that_is_refused_is_told() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let codes = device(&mut logins, &mut next, now);
    let code = codes.user_code.shown();
    let [first, second] = [(); 2].map(|()| enter(&mut logins, &mut next, &code, now).unwrap());
    assert_eq!(logins.decide(&first.id, Some(&first.browser), false, now), Ok(()));
    assert!(logins.device(&second.id, now).is_none());
    complete(&mut logins, &second.id, visitor(Some(&second.browser)), now);
    let late = logins.decide(&second.id, Some(&second.browser), true, now);
    assert_eq!(late, Err(LoginRefused::Unknown), "the first decision counts");
    assert_eq!(enter(&mut logins, &mut next, &code, now), Err(NoDevice::Wrong));
    assert_eq!(ask(&mut logins, &codes, now), Err("access_denied"));
    assert_eq!(ask(&mut logins, &codes, now), Err("access_denied"));
}

#[test]
fn a_device_that_asks_too_often_is_slowed_down() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let codes = device(&mut logins, &mut next, now);
    let mut at = |secs| ask(&mut logins, &codes, now + Duration::from_secs(secs)).map(drop);
    assert_eq!(at(0), Err("authorization_pending"));
    assert_eq!(at(4), Err("slow_down"));
    assert_eq!(at(13), Err("slow_down"), "within the 10 s that it was told");
    assert_eq!(at(28), Err("authorization_pending"));
    assert_eq!(at(300), Err("expired_token"));
    assert_eq!(at(359), Err("expired_token"));
    assert_eq!(at(360), Err("invalid_grant"));
    let other = logins.ask(&codes.device_code, Client::OpenZiti, now);
    assert_eq!(other.unwrap_err().code, OidcErrorCode::InvalidGrant);
}

#[test]
fn five_wrong_user_codes_of_a_source_are_too_many() {
    let (mut logins, mut next, now) = (PendingLogins::default(), 0, Instant::now());
    let codes = device(&mut logins, &mut next, now);
    let wrong = if codes.user_code.shown() == "BBBB-BBBB" { "CCCC-CCCC" } else { "BBBB-BBBB" };
    for text in [wrong, "", "x", wrong, wrong] {
        assert_eq!(enter(&mut logins, &mut next, text, now), Err(NoDevice::Wrong));
    }
    let right = codes.user_code.shown();
    assert_eq!(enter(&mut logins, &mut next, &right, now), Err(NoDevice::TooOften));
    let fresh = [random(&mut next), random(&mut next)];
    let elsewhere = logins.enter(&right, "s".into(), None, address(2), &fresh, now);
    assert!(elsewhere.is_ok());
    // The owner of a network of IPv6 has three times as many tries, whatever sources he takes for them.
    let site = |number: u16| [0x2001, 0xdb8, 1, number << 8, 0, 0, 0, 1].into();
    let tries = (0..200).map(|number| {
        let fresh = [random(&mut next), random(&mut next)];
        logins.enter(wrong, "s".into(), None, site(number), &fresh, now)
    });
    assert_eq!(tries.filter(|tried| *tried == Err(NoDevice::Wrong)).count(), 15);
    let late = now + Duration::from_secs(300);
    assert_eq!(enter(&mut logins, &mut next, &right, late), Err(NoDevice::Wrong), "too old");
}

proptest! {
    /// Whatever is begun and done: no code is exchanged twice, and the table keeps its bounds.
    #[test]
    fn codes_are_good_once(steps in prop::collection::vec((0u8..6, any::<prop::sample::Index>(), 0u64..40), 1..80)) {
        let start = Instant::now();
        let (mut logins, mut next, mut now) = (PendingLogins::<()>::new(24, 12), 0, start);
        let (mut ids, mut codes, mut used) = (Vec::<String>::new(), Vec::new(), std::collections::HashSet::new());
        for (step, which, pause) in steps {
            now += Duration::from_secs(pause);
            match step {
                0 | 1 => ids.push(begin(&mut logins, &mut next, now).id),
                2 if !ids.is_empty() => {
                    let primary = primary("a", "a1", Missing::default());
                    _ = logins.step(which.get(ids.as_slice()).as_str(), now, |login| login.primary(Visitor::Json, primary, ()));
                }
                3 if !ids.is_empty() => {
                    let made = logins.callback(which.get(ids.as_slice()).as_str(), Visitor::Json, &random(&mut next), now);
                    if matches!(made, Ok(Callback::Code(_))) {
                        codes.push((code_of(made), now));
                    }
                }
                4 | 5 if !codes.is_empty() => {
                    let (code, made) = which.get(codes.as_slice());
                    let redeemed = redeem(&mut logins, code, now);
                    if matches!(redeemed, Redeemed::Granted(_)) {
                        prop_assert!(now < *made + Duration::from_secs(60));
                        prop_assert!(used.insert(code.clone()), "a code was exchanged twice");
                    }
                    if matches!(redeemed, Redeemed::Again { .. }) {
                        prop_assert!(used.contains(code));
                    }
                }
                _ => {}
            }
            prop_assert!(logins.places() <= 24);
        }
    }
}
