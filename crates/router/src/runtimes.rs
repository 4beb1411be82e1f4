//! The runtimes of a router: one for payloads, one for everything else.

use tokio::runtime;

/// The runtimes of a router. Payloads move on one; control channels, decisions on access and reports
/// have another, so that they do not delay payloads.
#[derive(Debug)]
pub struct Runtimes {
    pub(crate) data: runtime::Handle,
    pub(crate) control: runtime::Handle,
    /// Runtimes that end with the router.
    own: Vec<runtime::Runtime>,
}

impl Runtimes {
    /// Makes runtimes of the router's own: as many threads for data as there are processors, and one
    /// or two for control.
    ///
    /// # Errors
    /// When threads cannot be made.
    pub fn own() -> std::io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let make = |name: &str, threads: usize| {
            runtime::Builder::new_multi_thread()
                .thread_name(name)
                .worker_threads(threads)
                .enable_all()
                .build()
        };
        let data = make("weft-data", processors)?;
        let control = make("weft-control", if processors > 8 { 2 } else { 1 })?;
        let handles = (data.handle().clone(), control.handle().clone());
        Ok(Self { data: handles.0, control: handles.1, own: vec![data, control] })
    }

    /// Uses runtimes of the calling program.
    #[must_use]
    pub fn given(data: runtime::Handle, control: runtime::Handle) -> Self {
        Self { data, control, own: Vec::new() }
    }
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        // The router may be dropped on a runtime's thread, which must not wait for other threads.
        self.own.drain(..).for_each(runtime::Runtime::shutdown_background);
    }
}
