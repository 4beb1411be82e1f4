//! Changes of the system by which traffic gets here, and their removal.
//!
//! All of them have the instance's name, or numbers of its slot, and the rules have a note with both. The rules
//! are added first and removed last, so that a later start that finds the note finds everything else.

mod command;
mod diverter;
mod iptables;
mod nft;
mod routes;
mod setup;

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use ipnet::IpNet;

pub use self::command::CommandError;
use self::diverter::Diverter;
pub use self::diverter::trusted_program;
pub(crate) use self::diverter::{Diversion, Diversions};
use self::iptables::Iptables;
use self::nft::Nft;
use self::routes::Routes;
pub use self::setup::DIVERT_MARK;
use self::setup::Note;
pub(crate) use self::setup::{Listeners, Setup};
use crate::options::FirewallKind;
use crate::state::Changes;

/// Most elements that are removed one by one. The system takes some 16 ms for each element of a set of
/// 10,000, and a second to add all of them again.
const MOST_GONE: usize = 64;

/// The range of names in the note of an interceptor.
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
    /// True if the rules have the exclusions of `setup`.
    excludes: bool,
}

impl Firewall {
    /// Removes everything that an earlier instance of the same name left, and adds the rules of an
    /// instance without services. `remembered` is the earlier instance's note in the lock file, needed
    /// if its tables were emptied.
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
            tracing::info!(
                %note, instance = %setup.instance,
                "removing rules, routes and addresses of an earlier run"
            );
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

    /// True if each source of a group is a rule for each of its networks.
    pub(crate) fn is_per_source(&self) -> bool {
        matches!(self.rules, Rules::Iptables(_))
    }

    /// True if a program diverts packets in place of rules.
    pub(crate) fn is_diverted(&self) -> bool {
        self.rules.are_diverted()
    }

    /// Brings the calls of a diverting program in line with `wanted`, if there is such a program. A
    /// call that fails is repeated with the next change.
    pub(crate) async fn divert(&mut self, wanted: &Diversions) -> Result<(), CommandError> {
        match &mut self.rules {
            Rules::Diverter(diverter) => diverter.set(wanted).await,
            Rules::Nft(_) | Rules::Iptables(_) => Ok(()),
        }
    }

    /// The addresses for which all calls of a diverting program failed.
    pub(crate) fn undiverted(&self, wanted: &Diversions) -> HashSet<IpAddr> {
        match &self.rules {
            Rules::Diverter(diverter) => diverter.missing(wanted),
            Rules::Nft(_) | Rules::Iptables(_) => HashSet::new(),
        }
    }

    /// True if a change costs more than adding everything again.
    pub(crate) fn is_much(changes: &Changes) -> bool {
        changes.gone.len() > MOST_GONE
    }

    /// Applies a change. With `everything`, which is the resulting state, all rules are added again.
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

    /// True if all rules that do not depend on services are still there: other programs may empty all
    /// tables.
    pub(crate) async fn is_intact(&self) -> bool {
        let rules = match &self.rules {
            Rules::Nft(nft) => nft.is_intact().await,
            Rules::Iptables(iptables) => iptables.is_intact().await,
            // The program cannot be asked for its state.
            Rules::Diverter(_) => true,
        };
        rules && self.routes.are_intact().await
    }

    /// Adds everything again.
    pub(crate) async fn rebuild(&mut self, everything: &Changes) -> Result<(), CommandError> {
        self.rules.install(&self.setup, self.routes.note(), everything).await?;
        self.excludes = !self.is_diverted();
        self.routes.clear().await;
        self.routes.install().await?;
        self.routes.change(&everything.gone_routes, &everything.new_routes).await
    }

    /// Sets the destinations that are never intercepted. A change that fails is repeated with the next
    /// call.
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

    /// The note for a later start.
    pub(crate) fn note(&self) -> String {
        format!("{} {}", self.routes.note(), self.rules.kind())
    }

    /// Removes everything.
    pub(crate) async fn close(mut self) {
        self.routes.remove().await;
        if let Err(error) = self.rules.remove().await {
            tracing::warn!(%error, "rules could not be removed");
        }
    }
}

/// Removes rules of the other kind that an earlier instance of the same name left. They are listed
/// only after a crash, because listing alone makes tables on some systems.
async fn remove_others(rules: &Rules, setup: &Setup, remembered: &str) {
    if Note::find(remembered).is_none() || remembered.contains(rules.kind()) {
        return;
    }
    let mut others = match rules {
        // The calls of a diverting program were undone before.
        _ if remembered.contains(DIVERTER) => return,
        Rules::Diverter(_) if remembered.contains(NFTABLES) => {
            Rules::Nft(Nft::new(&setup.instance))
        }
        Rules::Nft(_) | Rules::Diverter(_) => Rules::Iptables(Iptables::new(setup)),
        Rules::Iptables(_) => Rules::Nft(Nft::new(&setup.instance)),
    };
    match others.remove().await {
        Ok(()) => tracing::info!(kind = others.kind(), "removed rules of an earlier run"),
        Err(error) if error.is_absent() => {}
        Err(error) => tracing::warn!(%error, "rules of an earlier run could not be removed"),
    }
}

/// The parts of notes that name the kind of the rules.
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

    /// The part of the note that names the kind of these rules.
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

/// This machine's IPv6 addresses.
pub(crate) fn own_addresses() -> BTreeSet<Ipv6Addr> {
    let found = if_addrs::get_if_addrs().unwrap_or_default();
    let v6 = found.into_iter().filter_map(|interface| match interface.ip() {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    });
    v6.collect()
}
