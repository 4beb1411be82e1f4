//! The programs of a network: weft's, or those of the original.

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Command, Stdio};

use crate::program;

/// Who made the programs of a network.
pub(crate) struct Makes {
    pub(crate) controller: Make,
    pub(crate) routers: Make,
}

impl Makes {
    /// A network whose programs are all of one make.
    pub(crate) fn all(make: Make) -> Self {
        Self { controller: make.clone(), routers: make }
    }
}

/// Who made a program.
#[derive(Debug, Clone)]
pub(crate) enum Make {
    Weft,
    /// The original's program is at this path.
    Original(PathBuf),
}

impl Make {
    /// The original, if `WEFT_BENCH_ZITI` names its program.
    pub(crate) fn original() -> Option<Self> {
        std::env::var_os("WEFT_BENCH_ZITI").map(|path| Self::Original(path.into()))
    }

    /// The program.
    ///
    /// # Errors
    /// When weft is not built.
    pub(crate) fn program(&self) -> io::Result<PathBuf> {
        match self {
            Self::Weft => program::weft(),
            Self::Original(path) => Ok(path.clone()),
        }
    }

    /// The command that makes a network in a folder and runs it: a controller, for an administrator with this
    /// name and password, and a router, each at its port of localhost.
    pub(crate) fn quickstart(
        &self,
        home: &FilePath,
        [user, password]: [&str; 2],
        [control, router]: [u16; 2],
    ) -> io::Result<Command> {
        let mut command = Command::new(self.program()?);
        match self {
            Self::Weft => command.args(["quickstart"]),
            Self::Original(_) => command
                .args(["edge", "quickstart"])
                .args(["--ctrl-address", "localhost", "--router-address", "localhost"])
                .env("HOME", home),
        };
        command
            .args(["--username", user, "--password", password])
            .args(["--ctrl-port", &control.to_string(), "--router-port", &router.to_string()])
            .arg("--home")
            .arg(home)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if let Self::Original(_) = self {
            std::fs::create_dir_all(home)?;
            command.stderr(std::fs::File::create(home.with_extension("log"))?);
        }
        Ok(command)
    }
}
