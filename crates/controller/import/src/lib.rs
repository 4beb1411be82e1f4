//! Reads the network that a controller of OpenZiti keeps in its database, as entities of weft's model. Ids stay; what
//! weft cannot keep is listed, with the entity and the reason. Nothing is written.
//!
//! ```text
//!  Bolt ──version──> Layout ──sections: a bucket for each kind──> entities ──> Snapshot
//!                                    |                               |
//!                                    └──> losses                     ├──> missing references, repeated names,
//!                                                                         rights that differ
//! ```
//!
//! Derived data is never taken: role attributes and role lists of policies decide again who may do what. The lists of
//! services and routers that the database keeps for each identity are only compared with the result.
//!
//! ```no_run
//! use weft_bolt::Bolt;
//! use weft_import::Import;
//!
//! let database = Bolt::open("ctrl.db".as_ref())?;
//! let import = Import::read(&database)?;
//! for section in &import.sections {
//!     println!("{}: {} of {} taken", section.name, section.taken, section.found);
//! }
//! for loss in &import.losses {
//!     println!("{} {}: {}", loss.kind, loss.id, loss.reason);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod auth_rules;
mod authorities;
mod credentials;
mod error;
mod fields;
mod identities;
mod import;
mod json;
mod layout;
mod losses;
mod policies;
mod posture_checks;
mod raft_log;
mod routers;
mod section;
mod sections;
mod services;
mod sessions;
mod signers;
#[cfg(test)]
mod tests;
mod time;
mod whole;

pub use error::ImportError;
pub use import::Import;
pub use layout::Layout;
pub use losses::{Loss, MAX_LOSSES, Reported};
pub use raft_log::LogRest;
pub use section::Section;
pub use signers::MAX_SIGNERS;
