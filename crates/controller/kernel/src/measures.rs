//! The measured values of this controller: times of requests, and values of the channels to
//! routers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_contract::{Api, Operation};
use weft_metrics::{Histogram, Registry, Report, Scope, process};

/// All measured values of a controller.
#[derive(Debug)]
pub struct Measures {
    registry: Arc<Registry>,
    /// The metrics that exist as long as the controller runs.
    scope: Mutex<Scope>,
    /// Times of requests, by name of the metric.
    times: Mutex<HashMap<String, Arc<Histogram>>>,
}

impl Default for Measures {
    fn default() -> Self {
        let registry = Registry::new(Instant::now());
        let mut scope = registry.scope();
        process::register(&mut scope);
        Self { registry, scope: Mutex::new(scope), times: Mutex::default() }
    }
}

impl Measures {
    /// Updates rates and windows.
    pub fn tick(&self) {
        self.registry.tick(Instant::now());
    }

    /// Names for metrics that exist as long as the scope.
    pub fn scope(&self) -> Scope {
        self.registry.scope()
    }

    /// The number of metrics that were refused because there are too many.
    pub fn refused(&self) -> u64 {
        self.registry.refused()
    }

    /// The present values.
    pub fn read(&self) -> Report {
        self.registry.read(Instant::now())
    }

    /// Notes the time of an operation. There is one name for each operation.
    pub fn request(&self, api: Api, operation: &Operation, took: Duration) {
        self.timer(request_name(api, operation)).took(took);
        let also = match (api, operation.id) {
            (Api::Client | Api::Management, "authenticate") => "api-session.create",
            (Api::Client, "createSession") => "session.create",
            (Api::Client, "listServices") => "services.list",
            _ => return,
        };
        self.timer(also.to_owned()).took(took);
    }

    fn timer(&self, name: String) -> Arc<Histogram> {
        let mut times = self.times.lock();
        if let Some(known) = times.get(&name) {
            return Arc::clone(known);
        }
        let made = Arc::new(Histogram::times());
        times.insert(name.clone(), Arc::clone(&made));
        // Readers hold the lock of the registry, and never this one.
        let cells = Arc::clone(&made);
        self.scope.lock().timer(name, move |all| cells.add_to(all));
        made
    }
}

/// The name of an operation's timer: its path with `:id` and `:subid` for ids, and its method.
fn request_name(api: Api, operation: &Operation) -> String {
    let mut name = api.base().to_owned();
    let mut ids = 0;
    for part in operation.path.split('/').filter(|part| !part.is_empty()) {
        name.push('/');
        if part.starts_with('{') {
            name.push_str(if ids == 0 { ":id" } else { ":subid" });
            ids += 1;
        } else {
            name.push_str(part);
        }
    }
    name.push('.');
    name.push_str(operation.method.as_str());
    name
}

#[cfg(test)]
mod tests {
    use weft_contract::resource;
    use weft_metrics::{MetricValue, names};

    use super::*;

    #[test]
    fn requests_are_told_under_the_names_of_the_original() {
        let measures = Measures::default();
        let row = |id| resource::operation(Api::Management, id).unwrap();
        let took = Duration::from_millis(3);
        measures.request(Api::Management, row("detailIdentity"), took);
        measures.request(Api::Management, row("detailIdentity"), took);
        measures.request(Api::Management, row("authenticate"), took);
        let report = measures.read();
        let name = "/edge/management/v1/identities/:id.GET";
        let Some(MetricValue::Timer(timer)) = report.get(name) else { panic!("{report:?}") };
        assert_eq!((timer.0.count, timer.0.mean), (2, 3_000_000.0));
        assert!(report.contains_key("api-session.create"));
        for name in report.keys() {
            assert!(names::find(names::CONTROLLER, name).is_some(), "{name}");
        }
    }
}
