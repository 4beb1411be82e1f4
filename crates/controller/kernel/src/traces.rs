//! Traces: identities whose circuits are logged in detail for a time
//! (docs/protocol/management-api.md 7.1, trace). They are kept in memory only, begun by an
//! administrator, and forgotten when their time is over.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use weft_model::{Id, Timestamp};

/// The parts of making a circuit that can be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The choice of terminator and path.
    SelectPath,
    /// The answers of the routers on the path.
    EstablishPath,
}

impl Channel {
    const ALL: [Self; 2] = [Self::SelectPath, Self::EstablishPath];

    /// The channels with these names. Unknown names are ignored; no name, and `all`, mean all
    /// channels.
    pub fn named(names: &[String]) -> Vec<Self> {
        if names.is_empty() || names.iter().any(|name| name == "all") {
            return Self::ALL.to_vec();
        }
        let is_named = |channel: &Self| {
            let own = match channel {
                Self::SelectPath => "selectPath",
                Self::EstablishPath => "establishPath",
            };
            names.iter().any(|name| name == own)
        };
        Self::ALL.into_iter().filter(is_named).collect()
    }
}

/// The trace of one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The name of the trace in the log.
    pub id: String,
    /// When the trace ends.
    pub until: Timestamp,
    /// The channels to log.
    pub channels: Vec<Channel>,
}

/// All traces. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Traces(Arc<RwLock<HashMap<Id, Trace>>>);

impl Traces {
    /// Begins a trace; it replaces an earlier one of the identity.
    pub fn begin(&self, identity: &Id, trace: Trace) {
        self.0.write().insert(identity.clone(), trace);
    }

    /// Ends a trace.
    pub fn end(&self, identity: &Id) {
        self.0.write().remove(identity);
    }

    /// The name of the identity's trace, if it includes the channel.
    pub fn of(&self, identity: &Id, channel: Channel, now: Timestamp) -> Option<String> {
        let traces = self.0.read();
        let trace = traces.get(identity).filter(|trace| trace.until > now)?;
        trace.channels.contains(&channel).then(|| trace.id.clone())
    }

    /// Forgets traces whose time is over.
    pub fn sweep(&self, now: Timestamp) {
        if !self.0.read().is_empty() {
            self.0.write().retain(|_, trace| trace.until > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_names() {
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(Channel::named(&[]), Channel::ALL);
        assert_eq!(Channel::named(&names(&["all", "x"])), Channel::ALL);
        assert_eq!(Channel::named(&names(&["establishPath", "x"])), [Channel::EstablishPath]);
        assert_eq!(Channel::named(&names(&["x"])), []);
    }

    #[test]
    fn traces_end_by_themselves() {
        let (traces, id, at) = (Traces::default(), Id::new("a"), Timestamp::from_secs);
        let channels = vec![Channel::SelectPath];
        traces.begin(&id, Trace { id: "t".into(), until: at(10), channels });
        assert_eq!(traces.of(&id, Channel::SelectPath, at(9)).as_deref(), Some("t"));
        assert_eq!(traces.of(&id, Channel::EstablishPath, at(9)), None);
        assert_eq!(traces.of(&id, Channel::SelectPath, at(10)), None);
        traces.sweep(at(10));
        assert_eq!(traces.of(&id, Channel::SelectPath, at(9)), None);
    }
}
