//! Terminators that routers report (protocol: edge-control-plane 14). The router chooses the id,
//! which is also the address; creating the same one again is answered like the first time.

use std::collections::BTreeMap;

use bytes::Bytes;
use weft_model::entity::{Precedence, Router, Service, Terminator};
use weft_model::{Base, Id, Kind};

use super::caller::Caller;
use crate::Controller;
use crate::failure::Failure;

/// What a router says of a terminator it hosts.
#[derive(Debug, Clone)]
pub struct Reported {
    /// Id and address, chosen by the router.
    pub id: Id,
    /// The router.
    pub router: Id,
    /// The service.
    pub service: Id,
    /// `edge`, `tunnel`, `transport`, ...
    pub binding: String,
    /// Where the router dials; the id for `edge`.
    pub address: String,
    /// Instance id; empty if the host has none.
    pub instance_id: String,
    /// Proves the right to the instance id.
    pub instance_secret: Bytes,
    /// Data handed to dialers.
    pub peer_data: BTreeMap<u32, Bytes>,
    /// Cost.
    pub cost: u16,
    /// Precedence.
    pub precedence: Precedence,
    /// The hosting identity; empty if there is none.
    pub host: Id,
}

/// Why a report was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A terminator of this id belongs to another service, router or host.
    #[error("terminator {0} belongs to another service, router or host")]
    Conflict(Id),
    /// The router or service is gone.
    #[error("{0}")]
    Gone(String),
    /// The terminator is not there, or not this router's.
    #[error("terminator {0} is not one of this router")]
    Unknown(Id),
    /// The writer refused.
    #[error("{0}")]
    Write(#[from] Failure),
}

impl Refused {
    /// Whether trying again later may help: too much to do, or nobody can write now.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Write(failure) if matches!(failure.status(), 429 | 503))
    }
}

/// Changes of a terminator by its router.
#[derive(Debug, Clone, Copy, Default)]
pub struct Update {
    /// The new cost.
    pub cost: Option<u16>,
    /// The new precedence.
    pub precedence: Option<Precedence>,
}

impl Controller {
    /// Creates a terminator for its router, or brings an existing one up to date.
    pub async fn put_terminator(&self, reported: Reported) -> Result<(), Refused> {
        let source: std::sync::Arc<str> = self.settings().id.as_str().into();
        let snapshot = self.snapshot();
        if snapshot.get::<Router>(&reported.router).is_none() {
            return Err(Refused::Gone(format!("there is no router {}", reported.router)));
        }
        if snapshot.get::<Service>(&reported.service).is_none() {
            return Err(Refused::Gone(format!("there is no service {}", reported.service)));
        }
        if let Some(current) = snapshot.get::<Terminator>(&reported.id) {
            let same = current.binding.as_ref() == reported.binding
                && current.service_id == reported.service
                && current.router_id == reported.router
                && current.host_id == reported.host;
            if !same {
                return Err(Refused::Conflict(reported.id));
            }
            if current.cost == reported.cost && current.precedence == reported.precedence {
                return Ok(());
            }
        }
        let id = reported.id.clone();
        let done = self
            .decide(&Caller::system(), move |decision| {
                let now = decision.now();
                let base = match decision.tip().get::<Terminator>(&reported.id) {
                    Some(current) if current.router_id != reported.router => {
                        return Err(Failure::field("id", "is taken", reported.id.as_str()));
                    }
                    Some(current) => Base { updated_at: now, ..current.base.clone() },
                    None => Base { is_system: true, ..Base::new(reported.id.clone(), now) },
                };
                decision.put(Terminator {
                    base,
                    service_id: reported.service.clone(),
                    router_id: reported.router.clone(),
                    binding: reported.binding.as_str().into(),
                    address: reported.address.as_str().into(),
                    instance_id: reported.instance_id.as_str().into(),
                    instance_secret: reported.instance_secret.clone(),
                    cost: reported.cost,
                    precedence: reported.precedence,
                    saved_precedence: None,
                    peer_data: reported.peer_data.clone(),
                    host_id: reported.host.clone(),
                    source_ctrl: source.clone(),
                });
                Ok(())
            })
            .await;
        match done {
            Ok(_) => Ok(()),
            Err(failure) if failure.field_name() == Some("id") => Err(Refused::Conflict(id)),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Changes cost or precedence of a terminator of this router.
    pub async fn update_terminator(
        &self,
        router: &Id,
        id: &Id,
        update: Update,
    ) -> Result<(), Refused> {
        let mine = |terminator: &Terminator, router: &Id| terminator.router_id == *router;
        match self.snapshot().get::<Terminator>(id) {
            Some(current) if mine(current, router) => {}
            _ => return Err(Refused::Unknown(id.clone())),
        }
        let (router, id) = (router.clone(), id.clone());
        self.decide(&Caller::system(), move |decision| {
            let current = decision.tip().get::<Terminator>(&id).filter(|it| mine(it, &router));
            let Some(current) = current else { return Ok(()) };
            let mut changed = (**current).clone();
            changed.cost = update.cost.unwrap_or(changed.cost);
            changed.precedence = update.precedence.unwrap_or(changed.precedence);
            if changed != **current {
                changed.base.updated_at = decision.now();
                decision.put(changed);
            }
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Removes terminators of this router; those that are gone or another's are passed over.
    pub async fn remove_terminators(&self, router: &Id, ids: &[Id]) -> Result<(), Refused> {
        let (router, ids) = (router.clone(), ids.to_vec());
        self.decide(&Caller::system(), move |decision| {
            for id in &ids {
                let current = decision.tip().get::<Terminator>(id);
                if current.is_some_and(|current| current.router_id == router) {
                    decision.delete(Kind::Terminator, id)?;
                }
            }
            Ok(())
        })
        .await?;
        Ok(())
    }
}
