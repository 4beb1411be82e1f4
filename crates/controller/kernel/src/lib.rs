//! The base of every part of a controller, without any kind of entity.
//!
//! ```text
//!  call ──> gate ──> prepared on the caller's task ──> writer: decided on the tip, judged by rank
//!                                                         │ a batch of change sets
//!  readers <── snapshot <── published <── on the disk <── store
//!                               └──> the callers are answered, then the subscriptions are told
//! ```
//!
//! [`Kernel`] is a handle that all parts share; a clone costs little. Readers take a snapshot and
//! never lock. A change of the model is *prepared* on the caller's task and *decided* by the one
//! [`writer`].
//!
//! - [`caller`], [`gate`], [`rank`]: the caller, whether it may run an operation, and what it may
//!   do to other identities;
//! - [`call`]: an operation and its reply without HTTP; [`list`]: lists; [`convert`]: converts
//!   values of the APIs and of the model; [`failure`]: refusals;
//! - [`decision`], [`writer`], [`subscription`], [`view`]: how a change is decided, made durable
//!   and published, and how the model is read; `held`, `holding`: changes that count before
//!   they are durable;
//! - [`settings`], [`clock`], [`random`], [`key_source`]: the settings of the start;
//! - [`online`]: connected routers and identities; [`events`]: events of the network; [`measures`],
//!   [`traces`]: measured values, and detailed logs; [`work_limiter`]: permits for work that keeps
//!   processors busy; [`aside()`]: the reading of large messages.
//!
//! ```
//! use weft_contract::{Api, resource};
//! use weft_kernel::{Caller, Origin, gate};
//!
//! let create = resource::operation(Api::Management, "createService").unwrap();
//! assert!(gate::pass(&Caller::system(), create).is_ok());
//! let refusal = gate::pass(&Caller::nobody(Origin::default()), create).unwrap_err();
//! assert_eq!(refusal.status(), 401);
//! ```

mod aside;
pub mod call;
pub mod caller;
pub mod clock;
pub mod convert;
pub mod decision;
pub mod events;
pub mod failure;
pub mod gate;
mod held;
mod holding;
mod kernel;
pub mod key_source;
pub mod list;
mod load;
pub mod measures;
pub mod online;
pub mod random;
pub mod rank;
pub mod settings;
mod standing;
pub mod subscription;
pub mod traces;
pub mod view;
mod wait;
pub mod work_limiter;
pub mod writer;

pub use aside::aside;
pub use call::{Call, Content, QueryParameters, Reply};
pub use caller::{Caller, CallerTokens, CountedProofs, Login, Origin, SessionRef, Via, Who};
pub use failure::{Challenge, Failure, Result};
pub use held::{HeldChange, HeldTeller};
pub use kernel::Kernel;
pub use key_source::{KeySource, NoKeySource};
pub use load::{ModelLoadError, load};
pub use settings::{Addresses, BuildInfo, Durations, GuessLimits, Keys, NetworkSecrets, Settings};
pub use subscription::{Notice, Published, Subscription};
pub use wait::Wait;
pub use writer::{Done, Health};
