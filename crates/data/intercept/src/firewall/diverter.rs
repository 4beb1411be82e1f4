//! An external program that diverts packets in place of weft's own rules (docs/protocol/tunnel.md 5.3). It
//! is called once for each combination of a service's networks, protocols, ranges of ports, sources and
//! interfaces, and once more to undo that call. Each call is recorded before it is made, so that the next
//! start after a crash can undo it.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ipnet::Ipv4Net;

use super::command::{CommandError, run_for};
use super::setup::Listeners;
use crate::leftovers::{self, OTHERS_WRITE};
use crate::ports::Range;
use crate::service::Protocol;

/// Time limit of one call.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bit of a folder's mode with which only owners of files may rename them.
const STICKY: u32 = 0o1000;

/// One call of the program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Diversion {
    pub(crate) net: Ipv4Net,
    pub(crate) protocol: Protocol,
    pub(crate) source: Ipv4Net,
    pub(crate) ports: Range,
    pub(crate) interface: Option<Arc<str>>,
}

/// All calls, each with its service.
pub(crate) type Diversions = BTreeMap<Diversion, Arc<str>>;

impl Diversion {
    /// The network of all sources.
    pub(crate) const ANY: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0);

    /// The arguments of a call: with a port and a service to divert, without them to undo the call.
    fn arguments(&self, divert: Option<(u16, &str)>) -> Vec<String> {
        let verb = if divert.is_some() { "-I" } else { "-D" };
        let (low, high) = self.ports;
        let mut arguments = vec![verb.to_owned()];
        let mut put = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
        put("-c", self.net.network().to_string());
        put("-m", self.net.prefix_len().to_string());
        put("-p", self.protocol.to_string());
        put("-o", self.source.network().to_string());
        put("-n", self.source.prefix_len().to_string());
        put("-l", low.to_string());
        put("-h", high.to_string());
        if let Some((port, service)) = divert {
            put("-t", port.to_string());
            put("-s", service.to_owned());
        }
        if let Some(interface) = &self.interface {
            put("-N", interface.to_string());
        }
        arguments
    }
}

/// The program, and the calls that were made.
#[derive(Debug)]
pub(crate) struct Diverter {
    program: PathBuf,
    tcp: u16,
    udp: u16,
    /// The file of the record.
    record: PathBuf,
    told: Diversions,
}

impl Diverter {
    /// Asks the program for its version, which shows that the program can be run.
    pub(super) async fn open(
        program: &Path,
        listeners: Listeners,
        record: PathBuf,
    ) -> Result<Self, CommandError> {
        let program = trusted_program(program).map_err(|why| CommandError::Run {
            program: program.display().to_string(),
            problem: io::Error::new(io::ErrorKind::PermissionDenied, why),
        })?;
        let version = call(&program, &["-V".to_owned()]).await?;
        let version: String = version.trim().chars().take(200).collect();
        tracing::info!(program = %program.display(), version, "packets are diverted by a program");
        let (tcp, udp) = (listeners.tcp4, listeners.udp4);
        Ok(Self { program, tcp, udp, record, told: Diversions::new() })
    }

    /// Makes new calls and undoes old ones. A call that fails is logged and repeated with the next change.
    pub(super) async fn set(&mut self, wanted: &Diversions) -> Result<(), CommandError> {
        let mut failed = None;
        let differs = |(diversion, service): &(&Diversion, &Arc<str>)| {
            wanted.get(*diversion) != Some(*service)
        };
        let gone: Vec<Diversion> =
            self.told.iter().filter(differs).map(|(diversion, _)| diversion.clone()).collect();
        for diversion in gone {
            match call(&self.program, &diversion.arguments(None)).await {
                Ok(_) => drop(self.told.remove(&diversion)),
                Err(problem) => failed = Some(problem),
            }
        }
        let new: Vec<_> =
            wanted.iter().filter(|(diversion, _)| !self.told.contains_key(*diversion)).collect();
        let both = self.told.keys().chain(new.iter().map(|(diversion, _)| *diversion));
        let written = write(&self.record, &self.program, both);
        if let Err(problem) = written {
            let program = self.record.display().to_string();
            return Err(CommandError::Run { program, problem });
        }
        for (diversion, service) in new {
            let port = match diversion.protocol {
                Protocol::Tcp => self.tcp,
                Protocol::Udp => self.udp,
            };
            match call(&self.program, &diversion.arguments(Some((port, &**service)))).await {
                Ok(_) => drop(self.told.insert(diversion.clone(), Arc::clone(service))),
                Err(problem) => failed = Some(problem),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The addresses for which calls are wanted and none was made.
    pub(super) fn missing(&self, wanted: &Diversions) -> HashSet<IpAddr> {
        let address = |diversion: &Diversion| diversion.net.network().into();
        let mut missing: HashSet<IpAddr> = wanted.keys().map(address).collect();
        for diversion in self.told.keys().filter(|diversion| wanted.contains_key(*diversion)) {
            missing.remove(&address(diversion));
        }
        missing
    }

    /// Undoes all calls.
    pub(super) async fn remove(&mut self) -> Result<(), CommandError> {
        self.set(&Diversions::new()).await?;
        let _ = std::fs::remove_file(&self.record);
        Ok(())
    }
}

async fn call(program: &Path, arguments: &[String]) -> Result<String, CommandError> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run_for(PATIENCE, &program.display().to_string(), &arguments, "").await
}

/// Undoes the calls of an earlier run that did not end in order.
pub(super) async fn clean_up(record: &Path) {
    let text = match leftovers::read(record) {
        Ok(text) => text,
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return,
        Err(problem) => {
            let record = record.display();
            return tracing::warn!(
                %record, %problem,
                "the record of diverted packets cannot be read; diversions of an earlier run may \
                 be left"
            );
        }
    };
    let mut lines = text.lines();
    let program = lines.next().unwrap_or_default();
    match trusted_program(Path::new(program)) {
        Ok(program) => {
            tracing::info!(
                program = %program.display(),
                "undoing the diversions of an earlier run"
            );
            for line in lines.filter(|line| line.starts_with("-D ")) {
                let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
                // A call that was never made, or is forgotten, needs no undoing.
                if let Err(problem) = call(&program, &arguments).await {
                    tracing::info!(%problem, "a diversion of an earlier run could not be undone");
                }
            }
        }
        Err(why) => {
            tracing::warn!(program, why, "the diversions of an earlier run cannot be undone");
        }
    }
    let _ = std::fs::remove_file(record);
}

/// Writes the record: the program, then the arguments that undo each call.
fn write<'a>(
    record: &Path,
    program: &Path,
    told: impl Iterator<Item = &'a Diversion>,
) -> io::Result<()> {
    let mut text = format!("{}\n", program.display());
    for diversion in told {
        let _ = writeln!(text, "{}", diversion.arguments(None).join(" "));
    }
    leftovers::write(record, &text)
}

/// The program's real path, if only root and the user of this process can replace the program.
///
/// # Errors
/// The reason why the program is not run.
pub fn trusted_program(program: &Path) -> Result<PathBuf, String> {
    if !program.is_absolute() {
        return Err("the path has to be absolute".into());
    }
    let shown = |path: &Path| path.display().to_string();
    let path = program.canonicalize().map_err(|problem| problem.to_string())?;
    if path.to_str().is_none_or(|text| text.contains('\n')) {
        return Err("the path has control characters or is not UTF-8".into());
    }
    let known = path.metadata().map_err(|problem| problem.to_string())?;
    if !known.is_file() || known.mode() & 0o111 == 0 {
        return Err("it is not an executable file".into());
    }
    let user = rustix::process::geteuid().as_raw();
    for (place, part) in path.ancestors().enumerate() {
        let known = part.metadata().map_err(|problem| format!("{}: {problem}", shown(part)))?;
        if known.uid() != 0 && known.uid() != user {
            return Err(format!(
                "{} belongs neither to root nor to the user of this process",
                shown(part)
            ));
        }
        let renamed_by_owners = place > 0 && known.mode() & STICKY != 0;
        if known.mode() & OTHERS_WRITE != 0 && !renamed_by_owners {
            return Err(format!(
                "users other than the owner may write to {}: chmod go-w",
                shown(part)
            ));
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("divert");
        // Another process writes the file: otherwise a process that this one starts meanwhile could
        // have it open for writing.
        let script = r#"printf %s "$2" >"$1" && chmod 755 "$1""#;
        let mut writing = std::process::Command::new("sh");
        writing.args(["-c", script, "sh"]).arg(&path).arg(text);
        assert!(writing.status().unwrap().success());
        path
    }

    fn diversion(net: &str, protocol: Protocol, interface: Option<&str>) -> Diversion {
        Diversion {
            net: net.parse().unwrap(),
            protocol,
            source: Diversion::ANY,
            ports: (80, 90),
            interface: interface.map(Arc::from),
        }
    }

    #[test]
    fn only_what_nobody_else_can_change_is_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), "#!/bin/sh\n");
        assert_eq!(trusted_program(&path).unwrap(), path.canonicalize().unwrap());
        let refused = |path: &Path| trusted_program(path).unwrap_err();
        for (mode, why) in
            [(0o775, "may write"), (0o757, "may write"), (0o644, "not an executable")]
        {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(refused(&path).contains(why), "{mode:o}: {}", refused(&path));
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&path).contains("may write"), "the folder");
        assert!(refused(Path::new("bin/sh")).contains("absolute"));
        assert!(refused(folder.path()).contains("not an executable"));
        assert!(!refused(&folder.path().join("missing")).is_empty());
    }

    /// A program that writes down its calls, and fails for one network while a file is there.
    struct Lab {
        folder: tempfile::TempDir,
        diverter: Diverter,
    }

    impl Lab {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let here = folder.path().display();
            let text = format!(
                "#!/bin/sh\necho \"$@\" >>{here}/calls\n\
                 if [ \"$3\" = 10.9.0.0 ] && [ -e {here}/broken ]; then echo no room >&2; exit 3; fi\n"
            );
            let program = program(folder.path(), &text);
            let listeners = Listeners { tcp4: 1001, udp4: 1002, v6: None };
            let record = folder.path().join("record");
            let diverter = Diverter::open(&program, listeners, record).await.unwrap();
            Self { folder, diverter }
        }

        fn calls(&self) -> Vec<String> {
            let path = self.folder.path().join("calls");
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let _ = std::fs::remove_file(path);
            text.lines().map(str::to_owned).collect()
        }

        fn record(&self) -> PathBuf {
            self.folder.path().join("record")
        }
    }

    #[tokio::test]
    async fn the_program_is_called_as_the_original_calls_it() {
        let mut lab = Lab::new().await;
        assert_eq!(lab.calls(), ["-V"]);
        let mut sourced = diversion("10.9.0.0/16", Protocol::Udp, Some("eth0"));
        sourced.source = "192.168.0.0/24".parse().unwrap();
        let wanted = Diversions::from([
            (diversion("100.64.0.2/32", Protocol::Tcp, None), "s1".into()),
            (sourced.clone(), "s2".into()),
        ]);
        lab.diverter.set(&wanted).await.unwrap();
        let mut calls = lab.calls();
        calls.sort();
        assert_eq!(
            calls,
            [
                "-I -c 10.9.0.0 -m 16 -p udp -o 192.168.0.0 -n 24 -l 80 -h 90 -t 1002 -s s2 -N eth0",
                "-I -c 100.64.0.2 -m 32 -p tcp -o 0.0.0.0 -n 0 -l 80 -h 90 -t 1001 -s s1",
            ]
        );
        lab.diverter.set(&wanted).await.unwrap();
        assert!(lab.calls().is_empty(), "nothing changed");
        // Another service has the network now.
        let others = Diversions::from([(sourced.clone(), Arc::from("s3"))]);
        lab.diverter.set(&others).await.unwrap();
        assert_eq!(
            lab.calls(),
            [
                "-D -c 10.9.0.0 -m 16 -p udp -o 192.168.0.0 -n 24 -l 80 -h 90 -N eth0",
                "-D -c 100.64.0.2 -m 32 -p tcp -o 0.0.0.0 -n 0 -l 80 -h 90",
                "-I -c 10.9.0.0 -m 16 -p udp -o 192.168.0.0 -n 24 -l 80 -h 90 -t 1002 -s s3 -N eth0",
            ]
        );
        lab.diverter.remove().await.unwrap();
        assert_eq!(lab.calls().len(), 1);
        assert!(!lab.record().exists());
    }

    #[tokio::test]
    async fn what_fails_is_told_and_tried_again_and_a_crash_leaves_nothing() {
        let mut lab = Lab::new().await;
        let broken = lab.folder.path().join("broken");
        std::fs::write(&broken, "").unwrap();
        let wanted = Diversions::from([
            (diversion("10.8.0.0/16", Protocol::Tcp, None), "s1".into()),
            (diversion("10.9.0.0/16", Protocol::Tcp, None), "s2".into()),
        ]);
        let problem = lab.diverter.set(&wanted).await.unwrap_err().to_string();
        assert!(problem.contains("10.9.0.0") && problem.contains("no room"), "{problem}");
        assert_eq!(lab.diverter.missing(&wanted), HashSet::from([[10, 9, 0, 0].into()]));
        std::fs::remove_file(broken).unwrap();
        lab.calls();
        lab.diverter.set(&wanted).await.unwrap();
        assert_eq!(lab.diverter.missing(&wanted), HashSet::new());
        assert_eq!(lab.calls().len(), 1, "only what was missing");
        // The record is left over, as after a kill.
        clean_up(&lab.record()).await;
        let calls = lab.calls();
        assert_eq!(calls.len(), 2);
        assert!(calls.iter().all(|call| call.starts_with("-D -c 10.")), "{calls:?}");
        assert!(!lab.record().exists());
        clean_up(&lab.record()).await;
        assert!(lab.calls().is_empty());
        // Commands that other users may have written are not run; only removals are.
        let program = lab.diverter.program.display();
        let text = format!("{program}\n-I -c 10.0.0.0\n-D -c 10.0.0.1\n");
        let write = |mode| {
            std::fs::write(lab.record(), &text).unwrap();
            std::fs::set_permissions(lab.record(), Permissions::from_mode(mode)).unwrap();
        };
        write(0o666);
        clean_up(&lab.record()).await;
        assert!(lab.calls().is_empty());
        write(0o600);
        clean_up(&lab.record()).await;
        assert_eq!(lab.calls(), ["-D -c 10.0.0.1"]);
    }
}
