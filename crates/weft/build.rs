//! Tells the program from which commit it was built, and the time of that commit.
//!
//! The same sources give the same program: the time is that of the commit, or `SOURCE_DATE_EPOCH`
//! if it is set, never the time of the build. Sources without git, such as those of an archive,
//! have neither unless the environment names them (`WEFT_COMMIT`, `SOURCE_DATE_EPOCH`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Environment variable with the time of the commit, in seconds since 1970.
const DATE: &str = "SOURCE_DATE_EPOCH";
/// Environment variable with the commit, in hexadecimal digits.
const COMMIT: &str = "WEFT_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in [DATE, COMMIT] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let repository = Repository::of_these_sources();
    if let Some(repository) = &repository {
        repository.watch();
    }
    let of_git = |format: &str| repository.as_ref().and_then(|found| found.head(format));
    let commit = given(COMMIT, |text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let date = given(DATE, |text| text.parse::<u32>().is_ok());
    println!(
        "cargo::rustc-env=WEFT_BUILD_COMMIT={}",
        commit.or_else(|| of_git("%H")).unwrap_or_default()
    );
    println!(
        "cargo::rustc-env=WEFT_BUILD_DATE={}",
        date.or_else(|| of_git("%ct")).unwrap_or_default()
    );
}

/// The value of an environment variable, if it is valid.
fn given(name: &str, makes_sense: impl Fn(&str) -> bool) -> Option<String> {
    let text = env::var(name).ok()?.trim().to_owned();
    if text.is_empty() {
        return None;
    }
    if !makes_sense(&text) {
        println!("cargo::warning={name} is not understood and ignored: `{text}`");
        return None;
    }
    Some(text)
}

/// The repository that these sources are checked out of.
struct Repository {
    sources: PathBuf,
    /// Folder with the state of this checkout.
    own: PathBuf,
    /// Folder with the branches.
    shared: PathBuf,
}

impl Repository {
    /// The repository of these sources; `None` if there is none, or if the sources are inside
    /// another project's repository.
    fn of_these_sources() -> Option<Self> {
        let sources = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?)
            .ancestors()
            .nth(2)?
            .canonicalize()
            .ok()?;
        let asked =
            git(&sources, &["rev-parse", "--show-toplevel", "--git-dir", "--git-common-dir"])?;
        let mut lines = asked.lines().map(|line| sources.join(line));
        let (top, own, shared) = (lines.next()?, lines.next()?, lines.next()?);
        (top.canonicalize().ok()? == sources).then_some(Self { sources, own, shared })
    }

    /// Makes cargo build again after another commit is checked out. Missing files must not be
    /// named, as cargo would then build every time.
    fn watch(&self) {
        let head = self.own.join("HEAD");
        let branch = fs::read_to_string(&head).ok();
        let branch = branch.as_deref().and_then(|text| text.trim().strip_prefix("ref: "));
        let branch = branch.map(|name| self.shared.join(name));
        // The log of HEAD changes with every commit, even where branches are packed.
        let log = Some(self.own.join("logs/HEAD"));
        let packed = Some(self.shared.join("packed-refs"));
        for file in [Some(head), log, branch, packed].into_iter().flatten() {
            if file.is_file() {
                println!("cargo::rerun-if-changed={}", file.display());
            }
        }
    }

    /// A property of the commit that is checked out.
    fn head(&self, format: &str) -> Option<String> {
        git(&self.sources, &["log", "-1", &format!("--format={format}")])
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // The build may run in a hook of another repository.
    command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
    let done = command.arg("-C").arg(folder).args(arguments).output().ok()?;
    let said = String::from_utf8(done.stdout).ok()?.trim().to_owned();
    (done.status.success() && !said.is_empty()).then_some(said)
}
