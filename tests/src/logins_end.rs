//! The ends of logins: whatever a session rests on goes, and the session loses its circuits, its terminators and its idle
//! connections at routers, in both forms of tokens (docs/protocol/auth.md 16).

mod ground;
mod many;
mod person;

use std::time::{Duration, Instant};

use self::ground::Ground;
use self::person::Form;

/// How long a session may keep something after its end on a busy machine. Without any rule it keeps it for ever.
const DEADLINE: Duration = Duration::from_secs(30);

/// The credentials of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Login {
    Password,
    /// A certificate that the network issued.
    Certificate,
    /// A certificate of a third-party CA.
    CaCertificate,
    /// A token of an external signer.
    Token,
}

/// What goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndCause {
    IdentityDisabled,
    IdentityDeleted,
    AuthenticatorDeleted,
    PasswordChanged,
    SessionDeleted,
    LoggedOut,
    AccessTokenRevoked,
    RefreshTokenRevoked,
    LoggedOutByBrowser,
    SignerDisabled,
    SignerDeleted,
    SignerWithOtherKey,
    CaDisabled,
    CaDeleted,
    MethodForbidden,
    SignerForbidden,
    OtherPolicy,
    FactorDemanded,
}

const CASES: [(EndCause, Login); 22] = [
    (EndCause::IdentityDisabled, Login::Certificate),
    (EndCause::IdentityDeleted, Login::Certificate),
    (EndCause::AuthenticatorDeleted, Login::Certificate),
    (EndCause::AuthenticatorDeleted, Login::Password),
    (EndCause::AuthenticatorDeleted, Login::CaCertificate),
    (EndCause::PasswordChanged, Login::Password),
    (EndCause::SessionDeleted, Login::Certificate),
    (EndCause::LoggedOut, Login::Password),
    (EndCause::AccessTokenRevoked, Login::Certificate),
    (EndCause::RefreshTokenRevoked, Login::Certificate),
    (EndCause::LoggedOutByBrowser, Login::Token),
    (EndCause::SignerDisabled, Login::Token),
    (EndCause::SignerDeleted, Login::Token),
    (EndCause::SignerWithOtherKey, Login::Token),
    (EndCause::CaDisabled, Login::CaCertificate),
    (EndCause::CaDeleted, Login::CaCertificate),
    (EndCause::MethodForbidden, Login::Certificate),
    (EndCause::MethodForbidden, Login::Password),
    (EndCause::MethodForbidden, Login::Token),
    (EndCause::SignerForbidden, Login::Token),
    (EndCause::OtherPolicy, Login::CaCertificate),
    (EndCause::FactorDemanded, Login::Certificate),
];

impl EndCause {
    /// Whether a session of this form can end so.
    fn is_for(self, form: Form) -> bool {
        let is_of_tokens = matches!(
            self,
            Self::AccessTokenRevoked | Self::RefreshTokenRevoked | Self::LoggedOutByBrowser
        );
        form == Form::Signed || !is_of_tokens
    }

    /// Whether the controller knows the session afterwards: one that lacks a factor may still give it.
    fn leaves(self, form: Form) -> bool {
        self == Self::FactorDemanded && form == Form::Opaque
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_loses_everything_with_what_it_rests_on() {
    let ground = Box::pin(Ground::new()).await;
    let mut held = Vec::new();
    for (gone, login) in CASES {
        for form in [Form::Opaque, Form::Signed].into_iter().filter(|form| gone.is_for(*form)) {
            held.push((gone, ground.open(&format!("{gone:?}"), login, form).await));
        }
    }
    let untouched = [
        ground.open("untouched", Login::Certificate, Form::Opaque).await,
        ground.open("untouched", Login::Token, Form::Signed).await,
    ];
    let mut slowest = Duration::ZERO;
    for (gone, one) in &held {
        assert_eq!(one.left(&ground).await, one.everything(), "{} before its end", one.name);
        ground.take_away(*gone, one).await;
        let begun = Instant::now();
        loop {
            let left = one.left(&ground).await;
            if left.is_empty() {
                break;
            }
            assert!(begun.elapsed() < DEADLINE, "{} keeps {left:?}", one.name);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        slowest = slowest.max(begun.elapsed());
        assert_eq!(one.session.is_known().await, gone.leaves(one.session.form), "{}", one.name);
    }
    // A router waits for the session of a token that it does not know yet.
    let shown = held.iter().map(async |(_, one)| (&one.name, one.is_taken().await));
    for (name, is_taken) in futures::future::join_all(shown).await {
        assert!(!is_taken, "{name}: the router takes the token again");
    }
    println!("the slowest of {} ends took {slowest:?}", held.len());
    for one in &untouched {
        assert_eq!(one.left(&ground).await, one.everything(), "{}", one.name);
        one.talk().await;
    }
}
