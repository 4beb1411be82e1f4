//! What every part of a controller stands on, and nothing of what a network is made of.
//!
//! [`Kernel`] is a cheap handle that all parts share. Readers take a snapshot and never lock; whatever
//! changes the model is *prepared* on the caller's task and *decided* by the one [`writer`].
//!
//! - [`caller`], [`gate`], [`rank`]: who asks, whether he may, and what he may do to whom;
//! - [`call`]: an operation and its reply without HTTP; [`list`]: what lists have in common;
//!   [`convert`]: between the words of the APIs and those of the model; [`failure`]: why not;
//! - [`decision`], [`writer`], [`subscription`], [`view`]: how a change is decided, made durable and
//!   told, and how the model is looked at;
//! - [`settings`], [`clock`], [`random`]: what a controller is started with;
//! - [`online`]: who is connected; [`events`]: what happens; [`measures`], [`traces`]: what is measured
//!   and written about it; [`turns`]: who is next where processors are kept busy.

pub mod call;
pub mod caller;
pub mod clock;
pub mod convert;
pub mod decision;
pub mod events;
pub mod failure;
pub mod gate;
mod kernel;
pub mod list;
pub mod measures;
pub mod online;
pub mod random;
pub mod rank;
pub mod settings;
pub mod subscription;
pub mod traces;
pub mod turns;
pub mod view;
pub mod writer;

pub use call::{Call, Content, Query, Reply};
pub use caller::{Caller, Login, Origin, SessionRef, Via, Who};
pub use failure::{Challenge, Failure};
pub use kernel::Kernel;
pub use settings::{Addresses, Build, Durations, GuessLimits, Keys, Settings};
pub use subscription::{Notice, Published, Subscription};
pub use writer::{Done, Health};
