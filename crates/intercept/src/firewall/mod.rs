//! What is changed in the system so that traffic comes here, and how it is changed back.
//!
//! Everything has the instance's name or numbers of its slot, and the rules carry a note with both.
//! They are put in first and taken out last, so that whoever finds the note finds the rest.

mod command;
mod diverter;
mod iptables;
mod nft;
mod routes;
mod setup;

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
    path::Path,
};

use ipnet::IpNet;

pub use self::{command::CommandError, diverter::trusted_program, setup::DIVERT_MARK};
use self::{diverter::Diverter, iptables::Iptables, nft::Nft, routes::Routes, setup::Note};
pub(crate) use self::{
    diverter::{Diversion, Diversions},
    setup::{Listeners, Setup},
};
use crate::{options::FirewallKind, state::Changes};

/// More elements than this are not taken out one by one: the system needs some 16 ms for each of a
/// set of 10,000, and a second for putting in all of them.
const MOST_GONE: usize = 64;

/// The range of names in what an interceptor noted.
pub(crate) fn names_in(note: &str) -> Option<IpNet> {
    Note::find(note).map(|note| note.names)
}

#[derive(Debug)]
enum Rules {
    Nft(Nft),
    Iptables(Iptables),
    Diverter(Box<Diverter>),
}

/// The rules, routes and addresses of one interceptor.
#[derive(Debug)]
pub(crate) struct Firewall {
    rules: Rules,
    routes: Routes,
    setup: Setup,
    /// Whether the rules have what is excluded as `setup` has it.
    excludes: bool,
}

impl Firewall {
    /// Removes what an earlier instance of the same name left, and puts in what belongs to an
    /// empty one. `remembered` is what that instance noted elsewhere: somebody may have emptied its
    /// tables.
    pub(crate) async fn open(
        kind: FirewallKind,
        setup: Setup,
        remembered: &str,
    ) -> Result<Self, CommandError> {
        diverter::clean_up(&setup.record).await;
        let mut rules = match kind {
            _ if setup.diverter.is_some() => Rules::divert(&setup).await?,
            FirewallKind::Nftables => Rules::Nft(Nft::new(&setup.instance)),
            FirewallKind::Iptables => Rules::Iptables(Iptables::new(&setup)),
            FirewallKind::Any => match command::run("nft", &["--version"], "").await {
                Err(error) if error.is_absent() => Rules::Iptables(Iptables::new(&setup)),
                _ => Rules::Nft(Nft::new(&setup.instance)),
            },
        };
        let v6 = setup.listeners.v6.is_some();
        remove_others(&rules, &setup, remembered).await;
        if let Some(note) = rules.note().await?.or_else(|| Note::find(remembered)) {
            tracing::info!(%note, instance = %setup.instance, "removing what an earlier run left");
            Routes::of(note, v6).by_destination(remembered.contains(DIVERTER)).remove().await;
            rules.remove().await?;
        }
        let note = routes::unused(setup.names, v6).await?;
        let routes = Routes::of(note, v6).by_destination(rules.are_diverted());
        rules.install(&setup, note, &Changes::default()).await?;
        let excludes = !rules.are_diverted();
        let mut opened = Self { rules, routes, setup, excludes };
        if let Err(error) = opened.routes.install().await {
            opened.close().await;
            return Err(error);
        }
        Ok(opened)
    }

    /// Whether each source of a group is a rule for each of its networks.
    pub(crate) fn is_per_source(&self) -> bool {
        matches!(self.rules, Rules::Iptables(_))
    }

    /// Whether a program is told what to divert, and not which packets.
    pub(crate) fn is_diverted(&self) -> bool {
        self.rules.are_diverted()
    }

    /// Tells the program that diverts what it is to divert, if there is one. What failed is done again
    /// with the next call.
    pub(crate) async fn divert(&mut self, wanted: &Diversions) -> Result<(), CommandError> {
        match &mut self.rules {
            Rules::Diverter(diverter) => diverter.set(wanted).await,
            Rules::Nft(_) | Rules::Iptables(_) => Ok(()),
        }
    }

    /// Whether a change costs more than putting everything in anew.
    pub(crate) fn is_much(changes: &Changes) -> bool {
        changes.gone.len() > MOST_GONE
    }

    /// Puts a change in. With `everything`, which is what there is to be then, all rules are put in
    /// anew.
    pub(crate) async fn apply(
        &mut self,
        changes: &Changes,
        everything: Option<&Changes>,
    ) -> Result<(), CommandError> {
        if let Some(everything) = everything {
            self.rules.install(&self.setup, self.routes.note(), everything).await?;
            self.excludes = !self.is_diverted();
        } else {
            match &mut self.rules {
                Rules::Nft(nft) => nft.apply(changes).await?,
                Rules::Iptables(iptables) => iptables.apply(changes).await?,
                Rules::Diverter(_) => {}
            }
        }
        self.routes.change(&changes.gone_routes, &changes.new_routes).await
    }

    /// Whether everything that does not change with services is still there: other programs may
    /// empty all tables.
    pub(crate) async fn is_intact(&self) -> bool {
        let rules = match &self.rules {
            Rules::Nft(nft) => nft.is_intact().await,
            Rules::Iptables(iptables) => iptables.is_intact().await,
            // The program cannot be asked.
            Rules::Diverter(_) => true,
        };
        rules && self.routes.are_intact().await
    }

    /// Puts everything in anew.
    pub(crate) async fn rebuild(&mut self, everything: &Changes) -> Result<(), CommandError> {
        self.rules.install(&self.setup, self.routes.note(), everything).await?;
        self.excludes = !self.is_diverted();
        self.routes.clear().await;
        self.routes.install().await?;
        self.routes.change(&everything.gone_routes, &everything.new_routes).await
    }

    /// Which destinations are not intercepted, whatever services say. What failed is done again
    /// with the next call.
    pub(crate) async fn exclude(
        &mut self,
        exclude: BTreeSet<(IpAddr, Option<u16>)>,
        own: BTreeSet<Ipv6Addr>,
    ) -> Result<(), CommandError> {
        if self.excludes && self.setup.exclude == exclude && self.setup.own == own {
            return Ok(());
        }
        (self.setup.exclude, self.setup.own) = (exclude, own);
        self.excludes = false;
        match &self.rules {
            Rules::Nft(nft) => nft.exclude(&self.setup).await?,
            Rules::Iptables(iptables) => iptables.exclude(&self.setup).await?,
            Rules::Diverter(_) => {
                let left = self.setup.exclude.iter().map(|(address, _)| *address);
                self.routes.leave_alone(left).await?;
            }
        }
        self.excludes = true;
        Ok(())
    }

    /// What a later start has to know.
    pub(crate) fn note(&self) -> String {
        format!("{} {}", self.routes.note(), self.rules.kind())
    }

    /// Takes everything out.
    pub(crate) async fn close(mut self) {
        self.routes.remove().await;
        if let Err(error) = self.rules.remove().await {
            tracing::warn!(%error, "rules could not be removed");
        }
    }
}

/// Removes rules of the other kind that an earlier instance of the same name left. They are looked
/// for only if there was one that did not end in order: looking alone makes tables on some systems.
async fn remove_others(rules: &Rules, setup: &Setup, remembered: &str) {
    if Note::find(remembered).is_none() || remembered.contains(rules.kind()) {
        return;
    }
    let mut others = match rules {
        // What a program diverted was taken out already.
        _ if remembered.contains(DIVERTER) => return,
        Rules::Diverter(_) if remembered.contains(NFTABLES) => {
            Rules::Nft(Nft::new(&setup.instance))
        }
        Rules::Nft(_) | Rules::Diverter(_) => Rules::Iptables(Iptables::new(setup)),
        Rules::Iptables(_) => Rules::Nft(Nft::new(&setup.instance)),
    };
    match others.remove().await {
        Ok(()) => tracing::info!(kind = others.kind(), "removed rules that an earlier run left"),
        Err(error) if error.is_absent() => {}
        Err(error) => tracing::warn!(%error, "rules that an earlier run left may be there still"),
    }
}

/// What notes say of how the rules were made.
const NFTABLES: &str = "by=nftables";
const IPTABLES: &str = "by=iptables";
const DIVERTER: &str = "by=diverter";

impl Rules {
    async fn divert(setup: &Setup) -> Result<Self, CommandError> {
        let program = setup.diverter.as_deref().unwrap_or(Path::new(""));
        let record = setup.record.clone();
        let opened = Diverter::open(program, setup.listeners, record).await?;
        Ok(Self::Diverter(Box::new(opened)))
    }

    fn are_diverted(&self) -> bool {
        matches!(self, Self::Diverter(_))
    }

    /// What a note says of how the rules were made.
    fn kind(&self) -> &'static str {
        match self {
            Self::Nft(_) => NFTABLES,
            Self::Iptables(_) => IPTABLES,
            Self::Diverter(_) => DIVERTER,
        }
    }

    async fn note(&self) -> Result<Option<Note>, CommandError> {
        match self {
            Self::Nft(nft) => nft.note().await,
            Self::Iptables(iptables) => iptables.note().await,
            Self::Diverter(_) => Ok(None),
        }
    }

    async fn install(
        &mut self,
        setup: &Setup,
        note: Note,
        everything: &Changes,
    ) -> Result<(), CommandError> {
        match self {
            Self::Nft(nft) => nft.install(setup, note, everything).await,
            Self::Iptables(iptables) => iptables.install(setup, note, everything).await,
            Self::Diverter(_) => Ok(()),
        }
    }

    async fn remove(&mut self) -> Result<(), CommandError> {
        match self {
            Self::Nft(nft) => nft.remove().await,
            Self::Iptables(iptables) => iptables.remove().await,
            Self::Diverter(diverter) => diverter.remove().await,
        }
    }
}

/// This machine's addresses of IPv6.
pub(crate) fn own_addresses() -> BTreeSet<Ipv6Addr> {
    let found = if_addrs::get_if_addrs().unwrap_or_default();
    let v6 = found.into_iter().filter_map(|interface| match interface.ip() {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    });
    v6.collect()
}
