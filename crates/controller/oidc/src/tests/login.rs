//! One login: the table at the head of `login`, row by row, and any order of steps.

use proptest::prelude::*;

use super::*;
use crate::browser::visitor;
use crate::login::{Login, LoginRefused, Purpose, Totp, Visitor};
use crate::secret::Hash;

const COOKIE: &str = "cookie";

fn login() -> Login<()> {
    Login::new(Purpose::Code(request(1)), "session".to_owned(), Hash::of(COOKIE))
}

fn wants(totp: Option<Totp>, signer: Option<&str>) -> Missing {
    Missing { totp, signer: signer.map(str::to_owned) }
}

fn both() -> Missing {
    wants(Some(Totp::Enrolled), Some("signer"))
}

#[test]
fn a_login_without_second_factors_is_complete() {
    let mut login = login();
    assert!(!login.is_complete() && login.missing().is_none());
    let missing = login.primary(Visitor::Json, primary("a", "a1", Missing::default()), ()).unwrap();
    assert!(missing.is_nothing() && login.is_complete());
    assert_eq!(login.next("x"), format!("{ISSUER}/authorize/callback?id=x"));
    let granted = login.into_granted().unwrap();
    assert_eq!(granted.owner, owner("a", "a1"));
    assert_eq!(granted.amr, ["password"]);
    assert_eq!((granted.session.as_str(), granted.nonce.as_deref()), ("session", Some("n")));
}

#[test]
fn second_factors_complete_it_in_any_order() {
    for totp_first in [true, false] {
        let mut login = login();
        assert_eq!(login.primary(Visitor::Json, primary("a", "a1", both()), ()).unwrap(), both());
        if totp_first {
            let missing = login.totp(Visitor::Json, "a").unwrap();
            assert_eq!(missing, wants(None, Some("signer")));
            assert_eq!(
                login.totp(Visitor::Json, "a"),
                Err(LoginRefused::NotWanted),
                "given already"
            );
        }
        let missing = login.token(Visitor::Json, "a", "signer").unwrap();
        assert_eq!(missing.is_nothing(), totp_first);
        if !totp_first {
            assert!(login.totp(Visitor::Json, "a").unwrap().is_nothing());
        }
        assert_eq!(login.into_granted().unwrap().amr, ["password", "totp", "ejs:signer"]);
    }
}

#[test]
fn second_factors_come_after_the_first() {
    let mut login = login();
    assert_eq!(login.totp(Visitor::Json, "a"), Err(LoginRefused::NoPrimary));
    assert_eq!(login.token(Visitor::Json, "a", "signer"), Err(LoginRefused::NoPrimary));
    assert_eq!(login.enrollment_started(Visitor::Json, "a"), Err(LoginRefused::NoPrimary));
    assert_eq!(login.enrolled(Visitor::Json, "a"), Err(LoginRefused::NoPrimary));
    login.primary(Visitor::Json, primary("a", "a1", wants(None, Some("signer"))), ()).unwrap();
    assert_eq!(login.totp(Visitor::Json, "a"), Err(LoginRefused::NotWanted));
    assert_eq!(login.token(Visitor::Json, "a", "other"), Err(LoginRefused::NotWanted));
    assert!(login.into_granted().is_none());
}

#[test]
fn an_enrollment_belongs_to_the_login_that_started_it() {
    let mut login = login();
    let wanted = wants(Some(Totp::NotEnrolled), None);
    login.primary(Visitor::Json, primary("a", "a1", wanted.clone()), ()).unwrap();
    assert_eq!(login.enrolled(Visitor::Json, "a"), Err(LoginRefused::NotEnrolling));
    assert_eq!(login.enrollment_removed(Visitor::Json, "a"), Err(LoginRefused::NotEnrolling));
    login.enrollment_started(Visitor::Json, "a").unwrap();
    login.enrollment_removed(Visitor::Json, "a").unwrap();
    assert_eq!(login.enrolling(Visitor::Json), Err(LoginRefused::NotEnrolling));
    login.enrollment_started(Visitor::Json, "a").unwrap();
    assert_eq!(login.enrolling(Visitor::Json), Ok(&owner("a", "a1")));
    assert!(login.enrolled(Visitor::Json, "a").unwrap().is_nothing());
    assert_eq!(login.into_granted().unwrap().amr, ["password", "totp"]);
}

/// The step after a primary factor of identity `a` with the authenticator `a1` that the table of the next test mixes.
type Step = fn(&mut Login<()>, &str) -> Result<Missing, LoginRefused>;

#[test]
fn every_pair_of_factors_of_two_identities_is_refused() {
    let steps: [(&str, Step); 4] = [
        ("primary", |login, who| login.primary(Visitor::Json, primary(who, "a1", both()), ())),
        ("totp", |login, who| login.totp(Visitor::Json, who)),
        ("token", |login, who| login.token(Visitor::Json, who, "signer")),
        ("enrollment", |login, who| {
            login.enrollment_started(Visitor::Json, who).map(|()| Missing::default())
        }),
    ];
    for (name, step) in steps {
        for (before, other) in steps {
            let mut mixed = login();
            mixed.primary(Visitor::Json, primary("a", "a1", both()), ()).unwrap();
            // Some factors were given by the owner before the other identity comes.
            _ = other(&mut mixed, "a");
            let is_given = mixed.missing().unwrap();
            let result = step(&mut mixed, "b");
            let is_missing = match name {
                "totp" | "enrollment" => is_given.totp.is_some(),
                "token" => is_given.signer.is_some(),
                _ => true,
            };
            let wanted =
                if is_missing { LoginRefused::OtherIdentity } else { LoginRefused::NotWanted };
            assert_eq!(result, Err(wanted), "{before}, then {name}");
            assert_eq!(mixed.is_ended(), is_missing);
            assert_eq!(mixed.owner(), Some(&owner("a", "a1")));
            if is_missing {
                for (_, step) in steps {
                    assert_eq!(step(&mut mixed, "a"), Err(LoginRefused::Unknown), "it has ended");
                }
                assert!(mixed.into_granted().is_none());
            }
        }
    }
}

#[test]
fn another_authenticator_of_the_same_identity_ends_it_too() {
    let mut login = login();
    login.primary(Visitor::Json, primary("a", "a1", both()), ()).unwrap();
    let other = login.primary(Visitor::Json, primary("a", "a2", Missing::default()), ());
    assert_eq!(other, Err(LoginRefused::OtherIdentity));
    assert!(login.into_granted().is_none());
}

#[test]
fn a_primary_factor_that_is_repeated_keeps_the_second_ones() {
    let mut login = login();
    login.primary(Visitor::Json, primary("a", "a1", both()), ()).unwrap();
    login.totp(Visitor::Json, "a").unwrap();
    let missing = login.primary(Visitor::Json, primary("a", "a1", both()), ()).unwrap();
    assert_eq!(missing, wants(None, Some("signer")));
    login.token(Visitor::Json, "a", "signer").unwrap();
    let other = wants(None, Some("other"));
    let missing = login.primary(Visitor::Json, primary("a", "a1", other.clone()), ()).unwrap();
    assert_eq!(missing, other, "a token of another signer does not count");
}

#[test]
fn pages_work_in_the_browser_that_began_only() {
    let (own, other) = (visitor(Some(COOKIE)), visitor(Some("other")));
    let mut login = login();
    for stranger in [other, visitor(None)] {
        assert_eq!(login.admit(stranger), Err(LoginRefused::Elsewhere));
        let primary = primary("a", "a1", Missing::default());
        assert_eq!(login.primary(stranger, primary, ()), Err(LoginRefused::Elsewhere));
    }
    assert_eq!((login.admit(own), login.admit(Visitor::Json)), (Ok(()), Ok(())));
    login.primary(own, primary("a", "a1", both()), ()).unwrap();
    for stranger in [other, visitor(None), Visitor::Json] {
        assert_eq!(login.totp(stranger, "a"), Err(LoginRefused::Elsewhere));
        assert_eq!(login.token(stranger, "a", "signer"), Err(LoginRefused::Elsewhere));
        assert_eq!(login.enrollment_started(stranger, "a"), Err(LoginRefused::Elsewhere));
        assert_eq!(
            login.primary(stranger, primary("a", "a1", both()), ()),
            Err(LoginRefused::Elsewhere)
        );
    }
    assert_eq!(login.admit(own), Ok(()));
}

#[test]
fn a_login_by_json_never_continues_on_a_page() {
    let mut login = login();
    login.primary(Visitor::Json, primary("a", "a1", both()), ()).unwrap();
    assert_eq!(login.admit(visitor(Some(COOKIE))), Err(LoginRefused::Elsewhere));
    assert_eq!(login.totp(visitor(Some(COOKIE)), "a"), Err(LoginRefused::Elsewhere));
    assert_eq!(login.admit(Visitor::Json), Ok(()), "its clients show no cookie");
}

proptest! {
    /// Whatever the steps and whoever takes them: a login that is complete has an owner who gave every factor himself, in
    /// one browser or by JSON only.
    #[test]
    fn a_complete_login_was_given_by_its_owner(
        steps in prop::collection::vec((0u8..7, 0usize..2, 0usize..2, 0usize..4), 0..24),
        totp in prop::option::of(prop::bool::ANY),
        signer in prop::option::of(0usize..2),
    ) {
        let (names, signers) = (["a", "b"], ["s", "t"]);
        let visitors = [visitor(Some(COOKIE)), Visitor::Json, visitor(None), visitor(Some("other"))];
        let totp = totp.map(|enrolled| if enrolled { Totp::Enrolled } else { Totp::NotEnrolled });
        let wanted = wants(totp, signer.map(|at| signers[at]));
        let mut login = login();
        let mut given: Vec<(&str, String, usize)> = Vec::new();
        for (step, who, which, from) in steps {
            let (name, visitor) = (names[who], visitors[from]);
            let authenticator = format!("{name}{which}");
            let (kind, result) = match step {
                0 | 1 => {
                    let primary = primary(name, &authenticator, wanted.clone());
                    (format!("primary {authenticator}"), login.primary(visitor, primary, ()).map(drop))
                }
                2 => ("totp".to_owned(), login.totp(visitor, name).map(drop)),
                3 => (format!("token {}", signers[which]), login.token(visitor, name, signers[which]).map(drop)),
                4 => ("start".to_owned(), login.enrollment_started(visitor, name)),
                5 => ("totp".to_owned(), login.enrolled(visitor, name).map(drop)),
                _ => ("remove".to_owned(), login.enrollment_removed(visitor, name)),
            };
            if result.is_ok() {
                given.push((name, kind, from));
            }
        }
        if let Some(first) = given.first() {
            prop_assert!(first.1.starts_with("primary"));
            for (name, kind, from) in &given {
                prop_assert_eq!(*name, first.0);
                prop_assert!(!kind.starts_with("primary") || *kind == first.1);
                prop_assert_eq!(*from, first.2);
                prop_assert!(*from < 2, "a stranger took a step");
            }
        }
        let was_given = |kind: &str| given.iter().any(|(_, one, _)| one == kind);
        if let Some(granted) = login.into_granted() {
            prop_assert_eq!(wanted.totp.is_some(), was_given("totp"));
            prop_assert_eq!(granted.amr.contains(&"totp".to_owned()), was_given("totp"));
            if let Some(signer) = &wanted.signer {
                let token = format!("token {signer}");
                prop_assert!(was_given(&token));
            }
        }
    }
}
