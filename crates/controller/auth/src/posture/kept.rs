//! Bounds the posture data in memory: a fixed amount for each device, and a shared amount for all.
//! Clients choose this data, and there may be many of them.

use hashbrown::HashMap;
use weft_limits::{Budget, Grant};
use weft_model::{Id, Timestamp};

use super::{DevicePosture, PostureReport, ReportedValue, size_of_process};

/// Bytes for all devices, beyond the fixed amount of each.
const BYTES_OF_ALL: u64 = 64 << 20;
/// Bytes reserved for each device. An ordinary device needs no more, so that long reports of others
/// cannot keep it from passing its checks.
const BYTES_OF_ONE: u64 = 4 << 10;

/// The devices of identities.
#[derive(Debug)]
pub(super) struct Devices {
    of: HashMap<Id, (DevicePosture, Grant)>,
    budget: Budget,
    /// Whether the lack of room was logged.
    is_full: bool,
}

impl Default for Devices {
    fn default() -> Self {
        Self { of: HashMap::new(), budget: Budget::new(BYTES_OF_ALL), is_full: false }
    }
}

impl Devices {
    /// Keeps a report. True if it changed anything; a report without room is dropped.
    pub(super) fn put(
        &mut self,
        identity: &Id,
        check: String,
        report: PostureReport,
        at: Timestamp,
    ) -> bool {
        let empty = || (DevicePosture::default(), self.budget.empty());
        let (device, held) = self.of.entry(identity.clone()).or_insert_with(empty);
        let bytes = device.bytes() - device.bytes_replaced_by(&report) + size(&check, &report);
        let beyond = (bytes as u64).saturating_sub(BYTES_OF_ONE);
        let more = beyond.saturating_sub(held.bytes());
        if !held.try_grow(more) {
            if !std::mem::replace(&mut self.is_full, true) {
                tracing::warn!(
                    identity = %identity,
                    "posture data of all clients takes {} MiB: data beyond {} KiB of \
                     one device is not kept until there is room",
                    BYTES_OF_ALL >> 20,
                    BYTES_OF_ONE >> 10
                );
            }
            return false;
        }
        self.is_full &= self.budget.free() < BYTES_OF_ALL / 2;
        let is_new = device.put(check, report, at);
        let beyond = (device.bytes() as u64).saturating_sub(BYTES_OF_ONE);
        held.shrink(held.bytes().saturating_sub(beyond));
        is_new
    }

    /// Keeps a report that another controller has had first at a time, if it counts. True if it changed anything.
    pub(super) fn take_over(
        &mut self,
        identity: &Id,
        check: String,
        report: PostureReport,
        since: Timestamp,
    ) -> bool {
        let known = self.of.get_mut(identity);
        known.is_none_or(|(device, _)| device.wants(&report, since))
            && self.put(identity, check, report, since)
    }

    /// The posture data of an identity.
    pub(super) fn of(&self, identity: &Id) -> Option<&DevicePosture> {
        self.of.get(identity).map(|(device, _)| device)
    }

    /// The identities with posture data.
    pub(super) fn identities(&self) -> impl Iterator<Item = &Id> {
        self.of.keys()
    }

    /// Forgets the posture data of an identity.
    pub(super) fn forget(&mut self, identity: &Id) {
        self.of.remove(identity);
    }
}

/// Bytes of a report for a check.
fn size(check: &str, report: &PostureReport) -> usize {
    let value = match report {
        PostureReport::Os(os) => os.os_type.len() + os.version.len() + os.build.len(),
        PostureReport::Mac(addresses) => addresses.iter().map(|one| one.len() + ITEM).sum(),
        PostureReport::Domain(domain) => domain.len(),
        PostureReport::Process(path, report) => size_of_process(path, report) + ITEM,
        PostureReport::EndpointState { .. } => 0,
    };
    ITEM + check.len() + value
}

/// Estimated bytes of a text or an entry beside its contents.
const ITEM: usize = 64;

impl DevicePosture {
    fn bytes(&self) -> usize {
        fn of<T: Clone>(
            told: &Option<ReportedValue<T>>,
            report: impl Fn(T) -> PostureReport,
        ) -> usize {
            told.as_ref().map_or(0, |told| size(&told.check, &report(told.value.clone())))
        }
        let processes = self
            .processes
            .iter()
            .map(|(path, told)| 2 * ITEM + told.check.len() + size_of_process(path, &told.value));
        of(&self.os, PostureReport::Os)
            + of(&self.mac, PostureReport::Mac)
            + of(&self.domain, PostureReport::Domain)
            + processes.sum::<usize>()
    }

    /// Bytes of the data that a report replaces.
    fn bytes_replaced_by(&self, report: &PostureReport) -> usize {
        let mut without = Self::default();
        match report {
            PostureReport::Os(_) => without.os.clone_from(&self.os),
            PostureReport::Mac(_) => without.mac.clone_from(&self.mac),
            PostureReport::Domain(_) => without.domain.clone_from(&self.domain),
            PostureReport::Process(path, _) => {
                let known = self.processes.get_key_value(path);
                without.processes.extend(known.map(|(path, told)| (path.clone(), told.clone())));
            }
            PostureReport::EndpointState { .. } => {}
        }
        without.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn macs(count: usize) -> PostureReport {
        PostureReport::Mac((0..count).map(|number| format!("{number:0512}")).collect())
    }

    #[test]
    fn many_words_of_many_clients_have_a_limit_and_keep_nobody_else_out() {
        let (mut devices, at) = (Devices::default(), Timestamp::default());
        let mut kept = 0_u64;
        for number in 0..3000 {
            let id = Id::new(&format!("flood{number}"));
            kept += u64::from(devices.put(&id, "check".into(), macs(128), at));
        }
        assert!((800..1200).contains(&kept), "{kept}");
        assert!(devices.budget.used() <= BYTES_OF_ALL);
        // A short report of another device is kept although the shared amount is used up.
        let (honest, domain) = (Id::new("honest"), PostureReport::Domain("corp.example".into()));
        assert!(devices.put(&honest, "check".into(), domain, at));
        assert!(!devices.put(&honest, "check".into(), macs(128), at));
        assert!(devices.put(&honest, "check".into(), macs(2), at));
        assert_eq!(devices.of(&honest).unwrap().mac.as_ref().unwrap().value.len(), 2);
        for number in 0..3000 {
            devices.forget(&Id::new(&format!("flood{number}")));
        }
        assert_eq!(devices.budget.used(), 0);
    }

    #[test]
    fn what_is_said_again_takes_the_place_of_what_was_said() {
        let (mut devices, at, id) = (Devices::default(), Timestamp::default(), Id::new("a"));
        for _ in 0..10_000 {
            devices.put(&id, "check".into(), macs(128), at);
            devices.put(&id, "check".into(), macs(127), at);
        }
        assert!(devices.budget.used() < 100_000, "{}", devices.budget.used());
        devices.put(&id, "check".into(), macs(1), at);
        assert_eq!(devices.budget.used(), 0);
    }
}
