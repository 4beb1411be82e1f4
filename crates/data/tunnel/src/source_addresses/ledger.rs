//! The addresses that weft has added to the loopback interface, recorded, so that each is removed by
//! the last process that needs it, or by the next start after a kill.
//!
//! A process that adds addresses has a number, and holds its lock as long as it lives; its list lies
//! beside the lock. A list whose lock is free is that of a killed process. All lists are read and
//! written under one lock.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use weft_intercept::leftovers::{self, Holder, Lock, beside};

use super::rule::Machine;
use crate::Network;

/// The folder of locks and lists.
const FOLDER: &str = "/run/weft";
/// Most processes with a list, on one machine.
const MOST: usize = 64;
/// The ending of a list's name.
const LIST: &str = "list";

/// Addresses of an interface.
pub(super) trait Interface {
    /// True if it has an address with this prefix.
    fn has(&mut self, network: &Network) -> Result<bool, String>;
    /// Adds an address; false if it has the address already.
    fn add(&mut self, network: &Network) -> Result<bool, String>;
    /// Removes an address, if it has the address.
    fn remove(&mut self, network: &Network) -> Result<(), String>;
}

/// The addresses that processes of weft have added to an interface.
pub(super) struct Ledger<I> {
    folder: PathBuf,
    interface: I,
    own: Option<Own>,
}

/// The list of this process.
struct Own {
    number: usize,
    list: PathBuf,
    networks: Vec<Network>,
    _lock: Lock,
}

impl Default for Ledger<System> {
    fn default() -> Self {
        Self { folder: FOLDER.into(), interface: System, own: None }
    }
}

impl<I: Interface> Ledger<I> {
    /// Adds an address. True if this process has to remove it: false if it is the machine's own. What its operator has
    /// not added must be such that `machine` goes on to reach others.
    pub(super) fn add(
        &mut self,
        network: &Network,
        machine: impl FnOnce() -> Machine,
    ) -> Result<bool, String> {
        let alone = Lock::of_all(Holder::Sources, &self.folder);
        let used = alone.as_ref().map_or_else(|_| Vec::new(), |_| self.used_by_others());
        if self.interface.has(network)? && !used.contains(network) && !self.records(network) {
            return Ok(false);
        }
        let machine = machine();
        if machine.has(network) {
            return Ok(false);
        }
        if let Some(refusal) = machine.refusal(network) {
            return Err(refusal);
        }
        // The lock is held to the end.
        let recorded = match &alone {
            Ok(_) => self.record(network),
            Err(problem) => Err(io::Error::new(problem.kind(), problem.to_string())),
        };
        if let Err(problem) = recorded {
            let folder = self.folder.display();
            tracing::warn!(
                %network, %folder, %problem,
                "an address that is added to the loopback interface cannot be recorded: if this \
                 program is killed, the address stays"
            );
        }
        if used.contains(network) {
            return Ok(true);
        }
        let added = self.interface.add(network);
        if !matches!(added, Ok(true)) {
            self.forget(network);
        }
        added
    }

    /// Gives an address up, which is removed if no other process needs it.
    pub(super) fn remove(&mut self, network: &Network) -> Result<(), String> {
        let alone = Lock::of_all(Holder::Sources, &self.folder);
        let used = alone.is_ok() && self.used_by_others().contains(network);
        if !used {
            self.interface.remove(network)?;
        }
        self.forget(network);
        Ok(())
    }

    /// Removes the addresses that killed processes have left.
    pub(super) fn clean_up(&mut self) {
        let is_there = |number| self.list_of(number).is_ok_and(|list| list.exists());
        if !(0..MOST).any(is_there) {
            return;
        }
        match Lock::of_all(Holder::Sources, &self.folder) {
            Ok(_alone) => drop(self.used_by_others()),
            Err(problem) => tracing::debug!(
                folder = %self.folder.display(), %problem,
                "addresses of killed tunnelers are not looked for"
            ),
        }
    }

    /// The addresses that other running processes need. Removes those of killed ones. To be called
    /// under the lock of all.
    fn used_by_others(&mut self) -> Vec<Network> {
        let (mut used, mut left) = (Vec::new(), Vec::new());
        for number in (0..MOST).filter(|number| !self.is_own(*number)) {
            let Ok(list) = self.list_of(number) else { continue };
            if !list.exists() {
                continue;
            }
            let networks = match leftovers::read(&list) {
                Ok(text) => text.lines().filter_map(Network::parse).collect::<Vec<_>>(),
                Err(problem) => {
                    tracing::debug!(list = %list.display(), %problem, "a list is not read");
                    continue;
                }
            };
            match Lock::of(Holder::Sources, &self.folder, &number.to_string()) {
                Ok(Some(lock)) => left.push((list, networks, lock)),
                Ok(None) | Err(_) => used.extend(networks),
            }
        }
        for (list, networks, _lock) in left {
            self.take_back(&list, networks, &used);
        }
        used
    }

    /// Removes the addresses of a killed process that nobody needs.
    fn take_back(&mut self, list: &Path, networks: Vec<Network>, used: &[Network]) {
        let mut stuck = Vec::new();
        for network in networks {
            if used.contains(&network) || self.records(&network) {
                continue;
            }
            match self.interface.remove(&network) {
                Ok(()) => tracing::info!(
                    %network,
                    "an address of the loopback interface was removed, which a killed process had left"
                ),
                Err(problem) => {
                    tracing::warn!(
                        %network, problem,
                        "an address of the loopback interface that a killed process has left could \
                         not be removed"
                    );
                    stuck.push(network);
                }
            }
        }
        if let Err(problem) = write(list, &stuck) {
            tracing::warn!(list = %list.display(), %problem, "a list could not be updated");
        }
    }

    fn list_of(&self, number: usize) -> io::Result<PathBuf> {
        beside(Holder::Sources, &self.folder, &number.to_string(), LIST)
    }

    fn is_own(&self, number: usize) -> bool {
        self.own.as_ref().is_some_and(|own| own.number == number)
    }

    fn records(&self, network: &Network) -> bool {
        self.own.as_ref().is_some_and(|own| own.networks.contains(network))
    }

    /// Puts an address on the list of this process. To be called under the lock of all.
    fn record(&mut self, network: &Network) -> io::Result<()> {
        let own = match &mut self.own {
            Some(own) => own,
            none => none.insert(Own::new(&self.folder)?),
        };
        if !own.networks.contains(network) {
            own.networks.push(*network);
        }
        write(&own.list, &own.networks)
    }

    fn forget(&mut self, network: &Network) {
        let Some(own) = &mut self.own else { return };
        own.networks.retain(|known| known != network);
        if let Err(problem) = write(&own.list, &own.networks) {
            tracing::warn!(list = %own.list.display(), %problem, "a list could not be updated");
        }
    }
}

impl Own {
    /// Takes the first free number.
    fn new(folder: &Path) -> io::Result<Self> {
        for number in 0..MOST {
            let name = number.to_string();
            if let Some(lock) = Lock::of(Holder::Sources, folder, &name)? {
                let list = beside(Holder::Sources, folder, &name, LIST)?;
                return Ok(Self { number, list, networks: Vec::new(), _lock: lock });
            }
        }
        Err(io::Error::other(format!("{MOST} other processes have lists")))
    }
}

/// Writes a list; an empty one is removed.
fn write(list: &Path, networks: &[Network]) -> io::Result<()> {
    if networks.is_empty() {
        return match std::fs::remove_file(list) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => Err(problem),
            _ => Ok(()),
        };
    }
    leftovers::write(
        list,
        &networks.iter().map(|network| format!("{network}\n")).collect::<String>(),
    )
}

/// The loopback interface, changed by `ip`.
pub(super) struct System;

impl Interface for System {
    fn has(&mut self, network: &Network) -> Result<bool, String> {
        let shown = succeeded(&ip(&["-o", "address", "show", "dev", "lo"])?)?;
        let all = shown.lines().filter_map(|line| line.split_whitespace().nth(3));
        Ok(all.filter_map(Network::parse).any(|known| known == *network))
    }

    fn add(&mut self, network: &Network) -> Result<bool, String> {
        match succeeded(&change("add", network)?) {
            Ok(_) => Ok(true),
            // The kernel's error (EEXIST), in the texts of both releases of iproute2.
            Err(said) if said.contains("File exists") || said.contains("already assigned") => {
                Ok(false)
            }
            Err(said) => Err(said),
        }
    }

    fn remove(&mut self, network: &Network) -> Result<(), String> {
        match succeeded(&change("del", network)?) {
            // The kernel's errors EADDRNOTAVAIL, and for IPv4 in newer releases of iproute2.
            Err(said)
                if said.contains("Cannot assign requested address")
                    || said.contains("address not found") =>
            {
                Ok(())
            }
            done => done.map(drop),
        }
    }
}

fn change(action: &str, network: &Network) -> Result<Output, String> {
    ip(&["address", action, &network.to_string(), "dev", "lo", "scope", "host"])
}

fn ip(arguments: &[&str]) -> Result<Output, String> {
    let made = Command::new("ip").args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).output();
    made.map_err(|error| format!("ip: {error}"))
}

/// The text that a command printed, or its error.
fn succeeded(output: &Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// An interface that several processes see.
    #[derive(Clone, Default)]
    struct Fake(Rc<RefCell<Vec<Network>>>);

    impl Interface for Fake {
        fn has(&mut self, network: &Network) -> Result<bool, String> {
            Ok(self.0.borrow().contains(network))
        }

        fn add(&mut self, network: &Network) -> Result<bool, String> {
            if network.prefix() == 24 {
                return Err("refused".to_owned());
            }
            self.0.borrow_mut().push(*network);
            Ok(true)
        }

        fn remove(&mut self, network: &Network) -> Result<(), String> {
            self.0.borrow_mut().retain(|known| known != network);
            Ok(())
        }
    }

    struct Lab {
        folder: tempfile::TempDir,
        interface: Fake,
    }

    impl Lab {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), interface: Fake::default() }
        }

        /// A process. As it is dropped without giving anything back, it is killed.
        fn process(&self) -> Ledger<Fake> {
            let (folder, interface) = (self.folder.path().to_owned(), self.interface.clone());
            Ledger { folder, interface, own: None }
        }

        fn has(&self) -> Vec<String> {
            self.interface.0.borrow().iter().map(ToString::to_string).collect()
        }
    }

    fn network(text: &str) -> Network {
        Network::parse(text).unwrap()
    }

    #[test]
    fn a_killed_process_leaves_nothing_after_the_next_start() {
        let lab = Lab::new();
        let (one, other) = (network("10.1.0.1"), network("10.2.0.0/16"));
        let mut killed = lab.process();
        assert_eq!(
            (killed.add(&one, Machine::default), killed.add(&other, Machine::default)),
            (Ok(true), Ok(true))
        );
        drop(killed);
        let mut next = lab.process();
        // An address that is wanted again becomes that of the next process.
        assert_eq!(next.add(&one, Machine::default), Ok(true));
        assert_eq!(lab.has(), ["10.1.0.1/32"]);
        next.remove(&one).unwrap();
        assert!(lab.has().is_empty());

        let mut killed = lab.process();
        assert_eq!(killed.add(&one, Machine::default), Ok(true));
        drop(killed);
        lab.process().clean_up();
        assert!(lab.has().is_empty(), "no service needs to be hosted for that");
    }

    #[test]
    fn the_last_process_removes_an_address() {
        let lab = Lab::new();
        let one = network("10.1.0.1");
        let (mut first, mut second) = (lab.process(), lab.process());
        assert_eq!(
            (first.add(&one, Machine::default), second.add(&one, Machine::default)),
            (Ok(true), Ok(true))
        );
        lab.process().clean_up();
        first.remove(&one).unwrap();
        assert_eq!(lab.has(), ["10.1.0.1/32"]);
        second.remove(&one).unwrap();
        assert!(lab.has().is_empty());
    }

    #[test]
    fn addresses_of_the_machine_stay() {
        let lab = Lab::new();
        let (one, wide) = (network("10.1.0.1"), network("10.1.0.0/24"));
        lab.interface.0.borrow_mut().push(one);
        let mut process = lab.process();
        assert_eq!(process.add(&one, Machine::default), Ok(false));
        assert_eq!(process.add(&wide, Machine::default), Err("refused".to_owned()));
        drop(process);
        lab.process().clean_up();
        assert_eq!(lab.has(), ["10.1.0.1/32"]);
        let lists = std::fs::read_dir(lab.folder.path()).unwrap();
        let lists = lists.filter(|file| file.as_ref().unwrap().path().extension().unwrap() == LIST);
        assert_eq!(lists.count(), 0);
    }

    #[test]
    fn a_wide_network_is_used_if_the_operator_has_added_it() {
        let lab = Lab::new();
        let wide = network("10.0.0.0/8");
        let mut process = lab.process();
        let refused = process.add(&wide, Machine::default).unwrap_err();
        assert!(refused.contains("ip address add 10.0.0.0/8 dev lo"), "{refused}");
        assert!(lab.has().is_empty());
        lab.interface.0.borrow_mut().push(wide);
        assert_eq!(process.add(&wide, Machine::default), Ok(false));
        assert_eq!(lab.has(), ["10.0.0.0/8"]);
    }

    #[test]
    fn without_a_folder_addresses_are_used_all_the_same() {
        let lab = Lab::new();
        let file = lab.folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut process = Ledger { folder: file, ..lab.process() };
        let one = network("10.1.0.1");
        assert_eq!(process.add(&one, Machine::default), Ok(true));
        process.clean_up();
        assert_eq!(lab.has(), ["10.1.0.1/32"]);
        process.remove(&one).unwrap();
        assert!(lab.has().is_empty());
    }

    #[test]
    fn addresses_of_this_machine_are_found() {
        // The machine of the test may have no `ip`.
        if let Ok(found) = System.has(&network("127.0.0.1/8")) {
            assert!(found);
            assert_eq!(System.has(&network("10.255.254.253/31")), Ok(false));
        }
    }
}
