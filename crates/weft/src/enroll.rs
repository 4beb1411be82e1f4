//! `weft enroll`: from an enrollment token to an identity file.

use std::fs;
use std::path::{Path, PathBuf};

use weft_client::enroll::{
    self, OwnCertificate, enroll_certificate, enroll_ott, enroll_password, peek,
};
use weft_contract::json::Password;
use weft_contract::resource::enrollment::method;
use weft_identity::{
    ExternalLogin, IdentityFile, KeyAlgorithm, PrivateKey, text_of, write_private,
};

use crate::cli::EnrollArgs;
use crate::failure::{Failure, Result, chain};
use crate::{ask, input, output, weak};

/// Bytes of an identity file with many authorities.
const ROOM: usize = 256 << 10;

/// Enrolls and writes the identity file.
pub(crate) async fn enroll(args: EnrollArgs) -> Result<()> {
    let token = read_token(&args.jwt)?;
    let invited = peek(&token)?;
    if invited.em == method::UPDB {
        return choose_password(&args, &token).await;
    }
    let out = args.out.clone().unwrap_or_else(|| beside(&args.jwt));
    // The target is checked first, because a token can be used only once.
    check_target(&out, args.force)?;
    if invited.em == method::NETWORK {
        let token_file = args.token_file.as_deref().map(std::path::absolute).transpose();
        let token_file =
            token_file.map_err(|error| Failure::new(format!("--token-file: {error}")))?;
        join(&token, ExternalLogin { signer: args.signer.clone(), token_file }, &out).await?;
        output::line(format!(
            "identity file without a certificate, for logins at {}: {}",
            invited.iss,
            out.display()
        ));
        return Ok(());
    }
    if args.signer.is_some() || args.token_file.is_some() {
        return Err(Failure::usage(
            "--signer and --token-file are for the token of a network (`weft jwt network`), and this token enrolls an identity",
        ));
    }
    match own_certificate(&args)? {
        None => spend(&token, &out).await?,
        Some(own) => {
            let room = Room::beside(&out)?;
            let identity = enroll_certificate(&token, &own, args.name.as_deref()).await;
            let identity = identity.map_err(refused)?;
            drop(room);
            written(&identity, &out)?;
        }
    }
    match invited.em.as_str() {
        method::CA => output::line(format!("enrolled a new identity at {}", invited.iss)),
        _ => output::line(format!("enrolled identity {} at {}", invited.sub, invited.iss)),
    }
    output::line(format!("identity file: {}", out.display()));
    Ok(())
}

/// Enrolls with a password that the caller chooses.
async fn choose_password(args: &EnrollArgs, token: &str) -> Result<()> {
    let password = match &args.new_password {
        Some(password) => password.clone(),
        None => {
            let cannot = "the token wants a password: give --new-password or set WEFT_NEW_PASSWORD";
            ask::new_password("the identity", cannot).await?
        }
    };
    let chosen = Password::try_from(password.clone());
    let chosen = chosen.map_err(|error| Failure::usage(format!("the password: {error}")))?;
    let username = enroll_password(token, chosen).await.map_err(refused)?;
    weak::warn(&username, &password);
    output::line(format!("the password of {username} is set: weft login -u {username}"));
    Ok(())
}

/// The certificate of the flags, as an identity file names it.
fn own_certificate(args: &EnrollArgs) -> Result<Option<OwnCertificate>> {
    let (Some(cert), Some(key)) = (&args.cert, &args.key) else { return Ok(None) };
    Ok(Some(OwnCertificate { cert: file_url(cert)?, key: file_url(key)? }))
}

/// A file that exists, as an identity file names it. Links stay: who renews certificates leads them to the new files.
fn file_url(path: &Path) -> Result<String> {
    let wrong = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    fs::metadata(path).map_err(wrong)?;
    Ok(format!("file://{}", std::path::absolute(path).map_err(wrong)?.display()))
}

/// Writes the identity file of somebody who logs in with tokens of an identity provider.
async fn join(token: &str, login: ExternalLogin, out: &Path) -> Result<()> {
    let identity = enroll::join(token, login).await?;
    identity.write(out).map_err(|error| Failure::caused_by(&error))
}

/// Enrolls with a token and writes the identity file, which must not exist. That of a network enrolls nothing.
pub(crate) async fn enroll_beside(token: &str, out: &Path) -> Result<()> {
    check_target(out, false)?;
    match peek(token)?.em.as_str() {
        method::NETWORK => join(token, ExternalLogin::default(), out).await,
        _ => spend(token, out).await,
    }
}

async fn spend(token: &str, out: &Path) -> Result<()> {
    let room = Room::beside(out)?;
    let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
    let identity = enroll_ott(token, &key).await.map_err(refused)?;
    drop(room);
    written(&identity, out)
}

fn written(identity: &IdentityFile, out: &Path) -> Result<()> {
    identity.write(out).map_err(|error| {
        Failure::caused_by(&error).during("the token is spent, but the identity cannot be written")
    })
}

/// A file of the size of a large identity file, removed when the value is dropped. If this file can be
/// written, the identity file can be, too: the disk has room, and the folder permits it.
struct Room(PathBuf);

impl Room {
    fn beside(out: &Path) -> Result<Self> {
        // A link is followed when the identity is written.
        let target = fs::canonicalize(out).unwrap_or_else(|_| out.to_owned());
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}.room", std::process::id()));
        let path = target.with_file_name(name);
        write_private(&path, &vec![b' '; ROOM]).map_err(|error| {
            Failure::caused_by(&error)
                .during(format!("{} cannot be written, the token was not used", out.display()))
        })?;
        Ok(Self(path))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Errors are ignored: the file holds only spaces.
        let _ = fs::remove_file(&self.0);
    }
}

/// Adds possible reasons to the refusal of a token, as the controller gives none.
fn refused(error: weft_client::Error) -> Failure {
    let spent = error.api().is_some_and(|api| api.code() == "INVALID_ENROLLMENT_TOKEN");
    if !spent {
        return error.into();
    }
    Failure::refused(chain(&error)).during(
        "the controller does not know this token: it was used already, or withdrawn; make a new one",
    )
}

/// The text of a token file.
pub(crate) fn read_token(path: &Path) -> Result<String> {
    let wrong = |error: String| Failure::new(format!("{}: {error}", path.display()));
    let text = input::read(path).map_err(|error| wrong(error.to_string()))?;
    let text = text_of(text).map_err(|error| wrong(chain(&error)))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(Failure::new(format!("{}: the file is empty", path.display())));
    }
    Ok(token.to_owned())
}

/// `laptop.jwt` becomes `laptop.json`.
fn beside(token: &Path) -> PathBuf {
    token.with_extension("json")
}

fn check_target(out: &Path, force: bool) -> Result<()> {
    if out.is_dir() {
        return Err(Failure::usage(format!("{} is a folder; name a file", out.display())));
    }
    if out.exists() && !force {
        return Err(Failure::new(format!(
            "{} exists; the token was not used. Name another file with --out, or overwrite it with \
             --force",
            out.display()
        )));
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            Err(Failure::new(format!("the folder {} does not exist", folder.display())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_lies_beside_its_token() {
        assert_eq!(beside(Path::new("a/laptop.jwt")), Path::new("a/laptop.json"));
        assert_eq!(beside(Path::new("token")), Path::new("token.json"));
    }

    #[test]
    fn nothing_is_overwritten_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.json");
        check_target(&file, false).unwrap();
        fs::write(&file, "{}").unwrap();
        assert!(check_target(&file, false).is_err());
        check_target(&file, true).unwrap();
        assert!(check_target(folder.path(), true).is_err());
        assert!(check_target(&folder.path().join("no/x.json"), true).is_err());
    }

    #[test]
    fn there_is_room_before_a_token_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::beside(&folder.path().join("x.json")).unwrap();
        let held = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
        assert_eq!(held.metadata().unwrap().len(), ROOM as u64);
        drop(room);
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_certificate_behind_a_link_is_named_by_the_link() {
        let folder = tempfile::tempdir().unwrap();
        let (first, link) = (folder.path().join("cert-1.pem"), folder.path().join("cert.pem"));
        std::os::unix::fs::symlink(&first, &link).unwrap();
        let error = file_url(&link).unwrap_err().to_string();
        assert!(error.contains("cert.pem"), "{error}");
        fs::write(&first, "PEM").unwrap();
        assert_eq!(file_url(&link).unwrap(), format!("file://{}", link.display()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_token_is_kept_where_nothing_can_be_written() {
        // No user can create a file in /proc.
        let out = Path::new("/proc/weft-identity.json");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(spend("no token", out)).unwrap_err().to_string();
        assert!(error.contains("the token was not used"), "{error}");
    }

    #[test]
    fn an_empty_token_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.jwt");
        fs::write(&file, " \n").unwrap();
        assert!(read_token(&file).unwrap_err().to_string().contains("x.jwt"));
        fs::write(&file, " a.b.c \n").unwrap();
        assert_eq!(read_token(&file).unwrap(), "a.b.c");
    }
}
