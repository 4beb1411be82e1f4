//! What holds after each step, and what holds when all is quiet.

use std::collections::BTreeMap;

use super::routers::Mail;
use super::world::{CHURN, ROUTERS, World};
use super::*;

/// Fails with a text unless this holds.
macro_rules! holds {
    ($what:expr, $($text:tt)*) => {
        if !$what {
            return Err(format!($($text)*));
        }
    };
}

impl World {
    /// Whether a connection that comes now is to be refused.
    pub(super) fn expects_refusal(&self, router: usize, is_dialed: bool) -> bool {
        let Some(number) = self.registered.get(&router) else { return false };
        let registered = &self.connections[number];
        let is_young = self.now - registered.since < CHURN;
        let keeps = registered.is_dialed && self.routers[router].answers;
        !registered.is_closed && (is_young || is_dialed || keeps)
    }

    pub(super) fn check_connected(&self, router: usize, number: u64) -> Result<(), String> {
        let played = &self.routers[router];
        holds!(self.registered.get(&router) == Some(&number), "{} is not registered", played.id);
        let mut dialed = self.links.values().filter(|link| link.source == played.id);
        holds!(played.lists_links || dialed.next().is_none(), "{} keeps its links", played.id);
        let broken: Vec<_> = self.machine.broken.dialed_by(&played.id).collect();
        holds!(broken.is_empty(), "{} is here, and waited for: {broken:?}", played.id);
        self.check_tables()
    }

    pub(super) fn check_shut_out(&self, router: usize) -> Result<(), String> {
        let id = &self.routers[router].id;
        let has_circuit = self.circuits.values().any(|it| it.router == router);
        holds!(!has_circuit, "{id} is shut out and has circuits");
        let has_link = self.links.values().any(|link| link.has_end(id.as_str()));
        holds!(!has_link, "{id} is shut out and has links");
        Ok(())
    }

    /// The links that broke at a router before this time.
    pub(super) fn asked(&self, connection: &Connection, at: Instant) -> Vec<Arc<Link>> {
        let is_it = self.machine.of(connection).is_some();
        let broken = self.machine.broken.at(&connection.router);
        broken.filter(|it| is_it && it.broke_at < at).map(|it| Arc::clone(&it.link)).collect()
    }

    pub(super) fn links_are(&self, of: &Connection, state: State) -> bool {
        self.machine.of(of).is_some_and(|known| known.links.state == state)
    }

    /// A router is asked for a link that broke while the router that dialed it is not heard: nobody else says that the
    /// link is back.
    pub(super) fn check_judged(&self, of: &Connection, is_to_be_asked: bool) -> Result<(), String> {
        let is_right = !is_to_be_asked || self.links_are(of, State::Questioned);
        holds!(is_right, "{} is not asked for links that broke", of.router);
        Ok(())
    }

    /// Links of which a router has said whether it has them.
    pub(super) fn check_listed(
        &self,
        asked_at: Instant,
        broken: &[Arc<Link>],
        links: &HashSet<String>,
    ) -> Result<(), String> {
        for link in broken {
            let known = self.machine.broken.get(&link.destination, &link.id);
            match known {
                // It may just not have been dialed again yet.
                Some(known) if asked_at < known.broke_at + REDIALED => {}
                // It was dropped just now because of this answer.
                Some(known) if known.broke_at == self.now => {}
                Some(known) => {
                    let is_missing = known.state == State::Missing && !links.contains(&link.id);
                    holds!(is_missing, "{} is {known:?}", link.id);
                }
                None => holds!(self.links.contains_key(&link.id), "{} is not back", link.id),
            }
        }
        Ok(())
    }

    /// A link broke just now, by the word of a router.
    pub(super) fn check_broke(&self, router: &Id, link: &str) -> Result<(), String> {
        let known = self.machine.broken.get(router, link);
        let is_broken = |it: &BrokenLink| it.state == State::Broken && it.broke_at == self.now;
        holds!(known.is_none_or(is_broken), "{link} broke just now: {known:?}");
        Ok(())
    }

    pub(super) fn is_named_by(&self, connection: &Connection, source: Source) -> bool {
        self.machine.of(connection).is_some_and(|known| known.is_named_by(source))
    }

    /// A part was not taken: another connection is registered, the router has named all, or reports by itself.
    pub(super) fn check_not_taken(&self, of: &Connection, source: Source) -> Result<(), String> {
        let state = self.machine.of(of).map(|known| known.circuits.state);
        let is_right = match state {
            None | Some(State::Reported) => true,
            Some(State::Reporting) => source == Source::Answer,
            Some(_) => false,
        };
        holds!(is_right, "{of:?} names circuits to nobody: {state:?}");
        self.check_tables()
    }

    /// What holds after each step.
    pub(super) fn check_tables(&self) -> Result<(), String> {
        let known = self.machine.routers.values();
        let known: BTreeMap<usize, u64> =
            known.map(|it| (self.index(&it.connection.router), it.connection.number)).collect();
        holds!(known == self.registered, "registered {:?}, known {known:?}", self.registered);
        holds!(known == self.online, "online {:?}, known {known:?}", self.online);
        holds!(known.keys().copied().eq(self.told.iter().copied()), "told {:?}", self.told);
        for (number, connection) in self.connections.iter().filter(|(_, it)| !it.is_closed) {
            let is_registered = self.registered.get(&connection.router) == Some(number);
            holds!(is_registered, "{number} of {} is open", connection.router);
        }
        let mut due = BTreeSet::new();
        for known in self.machine.routers.values() {
            self.check_router(known)?;
            let of = &known.connection.router;
            let parts = [(Subject::Circuits, &known.circuits), (Subject::Links, &known.links)];
            let waits = parts.into_iter().filter_map(|(subject, part)| part.due.zip(Some(subject)));
            due.extend(waits.map(|(at, subject)| (at, of.clone(), subject)));
        }
        let routers = self.routers.iter();
        let broken = routers.flat_map(|it| self.machine.broken.at(&it.id));
        due.extend(broken.map(|it| {
            (it.broke_at + RETURN, it.link.destination.clone(), Subject::Link(it.link.id.clone()))
        }));
        holds!(due == self.machine.due, "due {:?}, and waits for {due:?}", self.machine.due);
        let latest = self.now + SELDOM;
        holds!(due.iter().all(|(at, ..)| *at <= latest), "a wait that does not end: {due:?}");
        Ok(())
    }

    /// Each state of a router waits for something that comes.
    fn check_router(&self, known: &OnlineRouter) -> Result<(), String> {
        let of = &known.connection;
        let has_mail = |is_it: &dyn Fn(&Mail) -> bool| self.mail.values().any(is_it);
        let circuits = match known.circuits.state {
            State::Unreported | State::Reporting => known.circuits.due.is_some(),
            State::Asked => has_mail(&|mail| match mail {
                Mail::CircuitsQuestion(it) | Mail::CircuitsUnanswered(it) => it == of,
                Mail::Parts { of: it, source, .. } => it == of && *source == Source::Answer,
                _ => false,
            }),
            State::Answering => has_mail(&|mail| match mail {
                Mail::Parts { of: it, source, .. } | Mail::Handled { of: it, source, .. } => {
                    it == of && *source == Source::Answer
                }
                _ => false,
            }),
            State::Reported => {
                known.circuits.due.is_none() && known.missing.is_empty() && known.ended.is_empty()
            }
            _ => false,
        };
        let is_asked = matches!(known.circuits.state, State::Asked | State::Answering);
        holds!(circuits && !(is_asked && known.circuits.due.is_some()), "circuits of {known:?}");
        let links = match known.links.state {
            State::Doubtful => known.links.due.is_some_and(|at| at <= self.now + CHECK),
            State::Judged | State::Questioned if known.links.due.is_some() => false,
            State::Judged => has_mail(&|mail| matches!(mail, Mail::Judge(it, _) if it == of)),
            State::Questioned => has_mail(&|mail| match mail {
                Mail::LinksQuestion(it, ..) | Mail::LinksAnswer(it, ..) => it == of,
                Mail::LinksUnanswered(it) => it == of,
                _ => false,
            }),
            State::Calm => {
                let has_broken = self.machine.broken.at(&of.router).next().is_some();
                known.links.due.is_none() && !has_broken
            }
            _ => false,
        };
        holds!(links, "links of {known:?}");
        Ok(())
    }

    /// All that routers have said is known, and all that is known is so.
    pub(super) fn check_quiet(&self) -> Result<(), String> {
        for router in (0..ROUTERS).filter(|router| self.registered.contains_key(router)) {
            let played = &self.routers[router];
            holds!(self.machine.has_reported(&played.id), "{} has not reported", played.id);
            let known = self.circuits.iter().filter(|(_, it)| it.router == router);
            let known: BTreeSet<String> = known.map(|(id, _)| id.clone()).collect();
            let gone: Vec<_> = known.difference(&played.circuits).collect();
            holds!(gone.is_empty(), "{} has lost {gone:?}", played.id);
        }
        for (id, link) in &self.links {
            let played = &self.true_links[id];
            let ends = [played.source, played.destination];
            // A router that does not report what broke is asked while the other end is not heard.
            let is_told = ends.iter().any(|end| self.registered.contains_key(end));
            holds!(played.is_up || !is_told, "{link:?} is not there");
        }
        holds!(self.machine.broken.is_empty(), "{:?}", self.machine.broken);
        if self.registered.len() == ROUTERS {
            holds!(self.machine.due.is_empty(), "{:?}", self.machine.due);
        }
        Ok(())
    }

    /// Nothing is left of routers that have gone.
    pub(super) fn check_empty(&self) -> Result<(), String> {
        let machine = &self.machine;
        holds!(machine.routers.is_empty() && machine.due.is_empty(), "{machine:?}");
        holds!(machine.broken.is_empty(), "{machine:?}");
        Ok(())
    }
}
