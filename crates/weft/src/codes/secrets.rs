//! The secrets that make codes, and the identity of each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_client::TotpSecret;

use crate::failure::{Failure, Result};

/// The ending of the file with the secret of an identity, in a folder of secrets.
const ENDING: &str = "totp";

/// The secrets of a command.
#[derive(Default)]
pub(crate) struct Secrets(Vec<Owned>);

/// A secret, and the identity that it belongs to; none if the command has one identity at most.
struct Owned {
    identity: Option<PathBuf>,
    secret: Arc<TotpSecret>,
}

impl Secrets {
    /// Reads the files that the command line names: a file (`laptop.totp`), the file of an identity
    /// (`laptop.json=laptop.totp`), or a folder with a file for each identity (`laptop.totp` for `laptop.json`).
    /// `identities` are the files or tokens of all identities of the command.
    ///
    /// # Errors
    /// When a file cannot be read or understood, or it is not clear whose secret it has.
    pub(crate) fn read(values: &[PathBuf], identities: &[PathBuf]) -> Result<Self> {
        let mut secrets = Self::default();
        for value in values {
            if value.is_dir() {
                secrets.read_folder(value, identities)?;
            } else if let Some((name, file)) = named(value) {
                let identity = which(name, identities)?;
                secrets.add(Some(identity.to_owned()), Path::new(file))?;
            } else if let [] | [_] = identities {
                secrets.add(identities.first().cloned(), value)?;
            } else {
                return Err(nobodys(value, identities));
            }
        }
        Ok(secrets)
    }

    /// The secret of an identity, by the file or token that was given to [`Secrets::read`]; without one, that of a
    /// command without identities.
    pub(crate) fn of(&self, identity: Option<&Path>) -> Option<Arc<TotpSecret>> {
        let own = self.0.iter().find(|it| it.identity.as_deref() == identity);
        own.map(|it| Arc::clone(&it.secret))
    }

    fn read_folder(&mut self, folder: &Path, identities: &[PathBuf]) -> Result<()> {
        let mut seen = Vec::new();
        for identity in identities {
            let Some(stem) = identity.file_stem() else { continue };
            let mut name = stem.to_owned();
            name.push(format!(".{ENDING}"));
            let file = folder.join(name);
            if !file.exists() {
                continue;
            }
            if seen.contains(&stem) {
                let text = format!(
                    "--totp-secret-file {}: several identities are called {}: name the file of each, \
                     {}=FILE",
                    folder.display(),
                    stem.display(),
                    identity.display()
                );
                return Err(Failure::usage(text));
            }
            seen.push(stem);
            self.add(Some(identity.clone()), &file)?;
        }
        if seen.is_empty() {
            let wanted = identities.first().and_then(|identity| identity.file_stem());
            let wanted = wanted.unwrap_or_else(|| "NAME".as_ref()).display();
            let text = format!(
                "--totp-secret-file: the folder {} has no secret of an identity, such as {wanted}.{ENDING}",
                folder.display()
            );
            return Err(Failure::usage(text));
        }
        Ok(())
    }

    fn add(&mut self, identity: Option<PathBuf>, file: &Path) -> Result<()> {
        if self.0.iter().any(|known| known.identity == identity) {
            let whose = identity.map_or_else(String::new, |it| format!(" for {}", it.display()));
            return Err(Failure::usage(format!("--totp-secret-file is given twice{whose}")));
        }
        self.0.push(Owned { identity, secret: Arc::new(TotpSecret::read(file)?) });
        Ok(())
    }
}

/// The parts of `IDENTITY=FILE`; none for the name of a file that exists.
fn named(value: &Path) -> Option<(&str, &str)> {
    if value.exists() {
        return None;
    }
    value.to_str()?.split_once('=').filter(|(name, _)| !name.is_empty())
}

/// The identity that a name means: its path, its file name, or that without the ending.
fn which<'i>(name: &str, identities: &'i [PathBuf]) -> Result<&'i Path> {
    let meant = Path::new(name);
    let is_one = |path: &Path| {
        let is_file = meant.extension().is_some_and(|it| it == "json" || it == "jwt");
        path == meant
            || path.file_name() == Some(meant.as_os_str())
            || path.file_stem() == Some(meant.as_os_str())
            || (is_file && path.with_extension("") == meant.with_extension(""))
    };
    let found: Vec<&PathBuf> = identities.iter().filter(|path| is_one(path)).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Failure::usage(format!(
            "--totp-secret-file: `{name}` is none of the identities{}",
            listed(identities)
        ))),
        several => {
            let paths: Vec<PathBuf> = several.iter().map(|path| (*path).clone()).collect();
            let text =
                format!("--totp-secret-file: `{name}` may be several identities{}", listed(&paths));
            Err(Failure::usage(text))
        }
    }
}

fn nobodys(file: &Path, identities: &[PathBuf]) -> Failure {
    let first = identities.first().map(|path| path.display().to_string()).unwrap_or_default();
    Failure::usage(format!(
        "--totp-secret-file {}: a secret is that of one identity, and several are given",
        file.display()
    ))
    .and(format!(
        "hint: say whose it is, --totp-secret-file {first}={}, or name a folder with a file NAME.{ENDING} for each \
         identity NAME.json",
        file.display()
    ))
}

/// The identities in words, as the end of a sentence.
fn listed(identities: &[PathBuf]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> =
        identities.iter().take(SHOWN).map(|path| path.display().to_string()).collect();
    match (shown.is_empty(), identities.len() > SHOWN) {
        (true, _) => String::new(),
        (false, more) => format!(": {}{}", shown.join(", "), if more { ", ..." } else { "" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "JBSWY3DPEHPK3PXP";

    /// A folder with these secrets.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(folder.path().join(name), SECRET).unwrap();
        }
        folder
    }

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    /// The identities with a secret; none if the values are refused.
    fn read(values: &[String], identities: &[&str]) -> Option<Vec<bool>> {
        let values: Vec<PathBuf> = values.iter().map(PathBuf::from).collect();
        let all = paths(identities);
        let secrets = Secrets::read(&values, &all).ok()?;
        Some(all.iter().map(|path| secrets.of(Some(path)).is_some()).collect())
    }

    #[test]
    fn each_identity_has_the_secret_that_is_named_for_it() {
        let home = folder(&["a.totp", "b.totp", "d=e.totp"]);
        let at = |name: &str| home.path().join(name).display().to_string();
        let of = |who: &str, name: &str| format!("{who}={}", at(name));
        let ids = ["x/a.json", "x/b.jwt", "y/c.json"];
        let some = |values: &[String]| read(values, &ids);
        assert_eq!(some(&[of("a", "a.totp")]), Some(vec![true, false, false]));
        assert_eq!(some(&[of("a.json", "a.totp")]), Some(vec![true, false, false]));
        let two = [of("x/a.json", "a.totp"), of("x/b.json", "b.totp")];
        assert_eq!(some(&two), Some(vec![true, true, false]));
        assert_eq!(some(&[home.path().display().to_string()]), Some(vec![true, true, false]));
        // A name with an equals sign is that of a file if there is one.
        assert_eq!(read(&[at("d=e.totp")], &["x/a.json"]), Some(vec![true]));
        assert_eq!(read(&[at("a.totp")], &["x/a.json"]), Some(vec![true]));
        let alone = Secrets::read(&[home.path().join("a.totp")], &[]).unwrap();
        assert!(alone.of(None).is_some());
    }

    #[test]
    fn a_secret_of_nobody_or_of_several_is_refused() {
        let home = folder(&["a.totp", "other.totp"]);
        let at = |name: &str| home.path().join(name).display().to_string();
        let of = |who: &str, name: &str| format!("{who}={}", at(name));
        let ids = ["x/a.json", "y/a.json", "y/c.json"];
        for values in [
            vec![at("a.totp")],
            vec![of("a", "a.totp")],
            vec![of("q", "a.totp")],
            vec![of("c", "none.totp")],
            vec![of("c", "a.totp"), of("y/c.json", "other.totp")],
            vec![home.path().display().to_string()],
        ] {
            assert_eq!(read(&values, &ids), None, "{values:?}");
        }
        assert_eq!(read(&[home.path().display().to_string()], &["x/q.json"]), None);
        assert!(Secrets::read(&[home.path().to_owned()], &[]).is_err());
    }
}
