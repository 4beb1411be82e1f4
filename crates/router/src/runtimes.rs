//! The runtimes of a router: threads for payloads, and a runtime for everything else.

use tokio::runtime;
use weft_channel::Threads;

/// The runtimes of a router. Payloads move on threads of their own. Control channels, decisions on
/// access and reports have another runtime, so that they do not delay payloads.
#[derive(Debug)]
pub struct Runtimes {
    pub(crate) data: Threads,
    pub(crate) control: runtime::Handle,
    /// Runtimes that end with the router.
    own: Vec<runtime::Runtime>,
}

impl Runtimes {
    /// Makes runtimes of the router's own: as many threads for data as there are processors, and one
    /// thread for control, or two with more than 8 processors.
    ///
    /// # Errors
    /// When threads cannot be made.
    pub fn own() -> std::io::Result<Self> {
        keep_freed_memory();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let make = |name: &str, threads: usize| {
            runtime::Builder::new_multi_thread()
                .thread_name(name)
                .worker_threads(threads)
                .enable_all()
                .build()
        };
        let mut own = (0..processors)
            .map(|_| make("weft-data", 1))
            .collect::<std::io::Result<Vec<runtime::Runtime>>>()?;
        let data = Threads::new(own.iter().map(|one| one.handle().clone()).collect());
        let control = make("weft-control", if processors > 8 { 2 } else { 1 })?;
        let handle = control.handle().clone();
        own.push(control);
        Ok(Self { data, control: handle, own })
    }

    /// Uses runtimes of the calling program.
    #[must_use]
    pub fn given(data: runtime::Handle, control: runtime::Handle) -> Self {
        Self { data: Threads::of(data), control, own: Vec::new() }
    }
}

/// Bytes of a block that is allocated once and freed.
const BLOCK: usize = 2 << 20;

/// Has the allocator keep a few MiB of freed memory instead of giving it back to the system at once.
///
/// Payloads of 32 KiB come and go thousands of times a second. The allocator of glibc gives memory back as
/// soon as 128 KiB at the end of its heap are free, and the next payload finds missing pages: this took a
/// tenth of a busy router's time. The allocator raises this limit to twice the size of the largest block that
/// a program has freed (mallopt(3), "dynamic mmap threshold"), so that one block freed at the start is
/// enough. Other allocators are not affected.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        // The router may be dropped on a runtime's thread, which must not wait for other threads.
        self.own.drain(..).for_each(runtime::Runtime::shutdown_background);
    }
}
