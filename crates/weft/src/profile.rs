//! The section `profile`: processor time and memory, in files for viewers of pprof.
//!
//! * `cpu.path`: call stacks, sampled 99 times per second of processor time from the start on;
//!   written every minute and at the end.
//! * `memory.path`: the parts of the process' memory as the system reports them
//!   (`/proc/self/smaps`), without call stacks, which the allocator does not keep: resident bytes
//!   of each part, and private ones; written every `memory.intervalMs` and at the end.

mod format;
mod memory;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use format::ProfileBuilder;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weft_config::Debugging;

use crate::failure::{Failure, Result};

/// Samples per second of processor time. 99 instead of 100, so that samples do not fall into step with
/// work that repeats every 10 ms.
const FREQUENCY: i32 = 99;
/// Most frames of the sampler in a stack.
#[cfg(unix)]
const MOST_OF_SAMPLER: usize = 8;
/// Interval of writing the processor's profile.
const CPU_INTERVAL: Duration = Duration::from_secs(60);

/// Profiles that are being recorded.
pub(crate) struct Profiles {
    stop: CancellationToken,
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl Profiles {
    /// Begins the profiles that the file asks for.
    pub(crate) fn start(asked: &Debugging) -> Result<Self> {
        let mut profiles = Self { stop: CancellationToken::new(), tasks: Vec::new() };
        if let Some(path) = &asked.cpu_profile {
            let cpu = Cpu::start().map_err(|problem| problem.during("profile.cpu"))?;
            check(path).map_err(|problem| problem.during("profile.cpu.path"))?;
            profiles.every(CPU_INTERVAL, path, move || cpu.profile());
        }
        if let Some(path) = &asked.memory_profile {
            check(path).map_err(|problem| problem.during("profile.memory.path"))?;
            profiles.every(asked.memory_interval, path, memory::profile);
        }
        Ok(profiles)
    }

    /// Writes a profile periodically, and at the end.
    fn every(
        &mut self,
        interval: Duration,
        path: &Path,
        make: impl Fn() -> Result<Vec<u8>, String> + Send + 'static,
    ) {
        let (stop, path) = (self.stop.clone(), path.to_owned());
        tracing::info!(path = %path.display(), ?interval, "a profile is being made");
        self.tasks.push(AbortOnDropHandle::new(tokio::spawn(async move {
            let mut make = Some(make);
            loop {
                let is_last = tokio::time::timeout(interval, stop.cancelled()).await.is_ok();
                let (own, to) = (make.take(), path.clone());
                let Some(own) = own else { return };
                let written = tokio::task::spawn_blocking(move || {
                    let written = own().and_then(|bytes| write(&to, &bytes));
                    (own, written)
                });
                let Ok((own, written)) = written.await else { return };
                make = Some(own);
                if let Err(problem) = written {
                    tracing::warn!(path = %path.display(), problem, "the profile could not be written");
                }
                if is_last {
                    return;
                }
            }
        })));
    }

    /// Writes every profile for the last time.
    pub(crate) async fn finish(self) {
        self.stop.cancel();
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// Checks that the file can be written, so that a problem shows at the start.
fn check(path: &Path) -> Result<()> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Replaces a file as a whole.
fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = std::fs::File::create(&beside).and_then(|mut file| file.write_all(bytes));
    written.and_then(|()| std::fs::rename(&beside, path)).map_err(|error| error.to_string())
}

/// Samples call stacks.
struct Cpu {
    #[cfg(unix)]
    guard: pprof::ProfilerGuard<'static>,
}

#[cfg(unix)]
impl Cpu {
    fn start() -> Result<Self> {
        // No sample is taken inside these libraries, which may hold a lock that unwinding needs.
        let guard = pprof::ProfilerGuardBuilder::default()
            .frequency(FREQUENCY)
            .blocklist(&["libc", "libgcc", "pthread", "vdso"])
            .build();
        guard.map(|guard| Self { guard }).map_err(Failure::new)
    }

    fn profile(&self) -> Result<Vec<u8>, String> {
        let report = self.guard.report().build().map_err(|error| error.to_string())?;
        let period = 1_000_000_000 / i64::from(FREQUENCY);
        let mut writer = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        writer.period("cpu", "nanoseconds", period);
        for (stack, count) in &report.data {
            // A frame may stand for several functions because of inlining.
            let names =
                |frame: &Vec<pprof::Symbol>| frame.iter().map(pprof::Symbol::name).collect();
            let frames: Vec<Vec<String>> = stack.frames.iter().map(names).collect();
            let functions = own(&frames).concat();
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let label = Some(("thread", stack.thread_name.as_str()));
            writer.sample(&functions, &[count, count.saturating_mul(period)], label);
        }
        Ok(writer.bytes())
    }
}

/// The frames of a stack, innermost first, without those of the sampler: it runs in a signal handler,
/// on the stack that it looks at.
#[cfg(unix)]
fn own(frames: &[Vec<String>]) -> &[Vec<String>] {
    let is_sampler = |name: &String| {
        let path = name.trim_start_matches('<');
        path.starts_with("pprof::") || path.starts_with("backtrace::")
    };
    let innermost = &frames[..frames.len().min(MOST_OF_SAMPLER)];
    let last = innermost.iter().rposition(|frame| frame.iter().any(is_sampler));
    &frames[last.map_or(0, |last| last + 1)..]
}

#[cfg(not(unix))]
impl Cpu {
    fn start() -> Result<Self> {
        Err(Failure::new("this system offers no way to look at call stacks"))
    }

    fn profile(&self) -> Result<Vec<u8>, String> {
        let _ = (FREQUENCY, ProfileBuilder::new(&[]));
        Err(String::new())
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[tokio::test]
    async fn both_profiles_are_there_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(folder.path().join(name));
        let asked = Debugging {
            cpu_profile: path("cpu.pb"),
            memory_profile: path("memory.pb"),
            memory_interval: Duration::from_secs(3600),
            ..Debugging::default()
        };
        let profiles = Profiles::start(&asked).unwrap();
        work();
        profiles.finish().await;
        for name in ["cpu.pb", "memory.pb"] {
            let bytes = std::fs::read(folder.path().join(name)).unwrap();
            let profile = format::Profile::decode(&bytes[..]).unwrap();
            assert_eq!(profile.sample_type.len(), 2, "{name}");
            assert!(!profile.sample.is_empty(), "{name}");
            assert_eq!(profile.string_table.first().map(String::as_str), Some(""));
            let all = profile.string_table.len() as i64;
            assert!(profile.function.iter().all(|one| (1..all).contains(&one.name)), "{name}");
            for sample in &profile.sample {
                assert_eq!(sample.value.len(), 2);
                let known = |id: &u64| profile.location.iter().any(|one| one.id == *id);
                assert!(sample.location_id.iter().all(known), "{name}");
            }
        }
        let bytes = std::fs::read(folder.path().join("cpu.pb")).unwrap();
        let stacks = stacks(&format::Profile::decode(&bytes[..]).unwrap());
        let first = |stack: &Vec<String>| stack.iter().take(1).cloned().collect::<Vec<_>>();
        let of_sampler = stacks.iter().find(|stack| own(&[first(stack)]).is_empty());
        assert_eq!(of_sampler, None);
        let innermost = |stack: &Vec<String>| stack.iter().take(4).any(|it| it.ends_with("::work"));
        assert!(stacks.iter().any(innermost), "{stacks:?}");
    }

    /// Works until stacks were sampled.
    #[inline(never)]
    fn work() {
        let spent = std::time::Instant::now();
        let mut sum = 0_u64;
        while spent.elapsed() < Duration::from_millis(500) {
            for _ in 0..10_000 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
        }
    }

    /// The names of the functions of each sample, innermost first.
    fn stacks(profile: &format::Profile) -> Vec<Vec<String>> {
        let name = |location: &u64| {
            let location = profile.location.iter().find(|it| it.id == *location).unwrap();
            let id = location.line[0].function_id;
            let function = profile.function.iter().find(|it| it.id == id).unwrap();
            profile.string_table[function.name as usize].clone()
        };
        let samples = profile.sample.iter();
        samples.map(|sample| sample.location_id.iter().map(name).collect()).collect()
    }

    #[test]
    fn the_sampler_is_no_part_of_a_stack() {
        let stack = |names: &[&str]| -> Vec<Vec<String>> {
            names.iter().map(|name| vec![(*name).to_owned()]).collect()
        };
        let sampler = ["backtrace::trace", "<pprof::Trace as Trace>::trace", "pprof::profiler::x"];
        let router = ["weft_router::read", "backtrace_of::x", "main"];
        for (before, after) in [(3, 3), (0, 3), (3, 0), (2, 2)] {
            let all = [&sampler[3 - before..], &router[..after]].concat();
            assert_eq!(own(&stack(&all)), stack(&router[..after]), "{all:?}");
        }
        let deep = [&["a"; 8][..], &["pprof::report::build"]].concat();
        assert_eq!(own(&stack(&deep)), stack(&deep));
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_is_named_at_the_start() {
        let path = Some(PathBuf::from("/nowhere/at/all/memory.pb"));
        let asked = Debugging { memory_profile: path, ..Debugging::default() };
        let problem = Profiles::start(&asked).err().unwrap().to_string();
        assert!(
            problem.contains("profile.memory.path") && problem.contains("/nowhere"),
            "{problem}"
        );
    }
}
