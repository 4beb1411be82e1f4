//! `weft controller move`: a network goes from a file into etcd, where several controllers share it, or back.

use std::path::Path;

use weft_config::controller::ClusterConfig;
use weft_config::{ClusterTemplate, ControllerConfig, Loaded, ProcessEnvironment};
use weft_identity::{Location, write_for_owner};
use weft_store::{Hold, sync_folder_of};

use super::new_file::absolute;
use crate::check::{self, Purpose};
use crate::cli::ControllerMoveArgs;
use crate::compose::cluster::{self, NotPublished};
use crate::compose::etcd::new_network_key;
use crate::failure::{Failure, Result};
use crate::home::text;
use crate::restore::keep_owner;
use crate::{output, pki};

/// Moves the network of a controller that is stopped.
pub(super) async fn moved(args: &ControllerMoveArgs) -> Result<()> {
    let loaded = checked(&args.file)?;
    let held = Hold::take(&loaded.config.storage.database).map_err(|error| {
        Failure::caused_by(&error).during("nothing was moved").and("stop the controller first")
    })?;
    drop(held);
    match args.to_file {
        true => Box::pin(to_file(&args.file, &loaded)).await,
        false => Box::pin(to_etcd(args, loaded)).await,
    }
}

fn checked(file: &Path) -> Result<Loaded<ControllerConfig>> {
    let mut examined = ControllerConfig::examine_path(file)?;
    check::controller(&mut examined, Purpose::Advice);
    check::accept(examined)
}

async fn to_etcd(args: &ControllerMoveArgs, loaded: Loaded<ControllerConfig>) -> Result<()> {
    let file = &args.file;
    let config = match (&loaded.config.storage.cluster, args.etcd.is_empty()) {
        (Some(_), true) => loaded.config,
        (Some(_), false) => {
            return Err(Failure::usage(format!(
                "{} has a section `cluster`, which names etcd: leave --etcd out",
                file.display()
            )));
        }
        (None, true) => {
            return Err(Failure::usage("name the members of etcd with --etcd, or move --to-file"));
        }
        (None, false) => return with_section(args, &loaded.config).await,
    };
    if let Some(cluster) = &config.storage.cluster {
        let published = publish(cluster, &config).await;
        published.map_err(|it| it.failure.during("the network was not moved"))?;
        next_steps(file);
    }
    Ok(())
}

/// Moves the network of a file that does not name etcd yet, and adds the section that does.
async fn with_section(args: &ControllerMoveArgs, config: &ControllerConfig) -> Result<()> {
    let file = &args.file;
    if config.ctrl.advertise_address.is_none() {
        return Err(Failure::usage(format!(
            "{}: ctrl.options.advertiseAddress: name the address at which routers and other controllers reach this one",
            file.display()
        )));
    }
    let before = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    let folder = keys_folder(config)?;
    let key = folder.join(pki::NETWORK_KEY);
    if !key.exists() {
        write_for_owner(&key, new_network_key().as_bytes())?;
    }
    let root = [pki::ROOT_CERT, pki::ROOT_KEY].map(|name| folder.join(name));
    let root = root.iter().all(|file| file.exists()).then(|| root.map(|file| text(&file)));
    let section = ClusterTemplate {
        etcd: &args.etcd,
        prefix: "/weft/",
        key: &text(&key),
        ca: args.etcd_ca.as_deref().map(absolute).transpose()?.as_deref(),
        root: root.as_ref().map(|[cert, key]| [cert.as_str(), key]),
        login: None,
    }
    .to_text();
    let after = format!("{}\n{section}", before.trim_end());
    // What is written is read as the controller would read it.
    let loaded = ControllerConfig::from_str(&after, file, &ProcessEnvironment)?;
    let Some(cluster) = &loaded.config.storage.cluster else {
        return Err(Failure::usage(format!(
            "{}: nothing can be added at its end: write the section `cluster` by hand (docs/cluster.md), and call this again \
             without --etcd",
            file.display()
        )));
    };
    // The file comes first: with it, a controller starts only when the network is in etcd.
    rewrite(file, &after)?;
    if let Err(NotPublished { failure, is_certain }) = publish(cluster, &loaded.config).await {
        if is_certain {
            rewrite(file, &before)?;
            return Err(failure.during("the network stays in its file"));
        }
        return Err(failure.and(format!(
            "{} names etcd now: find out with `weft controller move {0}`",
            file.display()
        )));
    }
    output::line(format_args!("{} has a section `cluster` now", file.display()));
    output::line(format_args!(
        "the network's key is {}: keep it as you keep the keys of the authorities",
        key.display()
    ));
    next_steps(file);
    Ok(())
}

/// The folder of the signing key, where the other keys of a controller lie.
fn keys_folder(config: &ControllerConfig) -> Result<std::path::PathBuf> {
    let none = || {
        Failure::usage(
            "edge.enrollment.signingCert.key is no file, beside which the network's key could lie: write the section \
             `cluster` by hand (docs/cluster.md), and call this again without --etcd",
        )
    };
    let edge = config.edge.as_ref().ok_or_else(none)?;
    let signing = Location::parse(&edge.enrollment.signing_cert.key)?;
    let folder = signing.path().and_then(Path::parent).ok_or_else(none)?;
    Ok(match folder.as_os_str().is_empty() {
        true => Path::new(&absolute(Path::new("."))?).to_owned(),
        false => Path::new(&absolute(folder)?).to_owned(),
    })
}

async fn publish(
    cluster: &ClusterConfig,
    config: &ControllerConfig,
) -> std::result::Result<(), NotPublished> {
    output::note("moving the network into etcd");
    let head = cluster::publish(cluster, config).await?;
    output::line(format_args!(
        "the network is in etcd, at revision {}, with all sessions; {} is this controller's copy",
        head.revision,
        config.storage.database.display()
    ));
    Ok(())
}

fn next_steps(file: &Path) {
    output::line("Next:");
    output::line(format_args!("  weft controller run {}", file.display()));
    output::line("  weft cluster invite NAME    for each further controller");
}

async fn to_file(file: &Path, loaded: &Loaded<ControllerConfig>) -> Result<()> {
    let Some(section) = &loaded.config.storage.cluster else {
        return Err(Failure::usage(format!(
            "{} has no section `cluster`: the network is in its file already",
            file.display()
        )));
    };
    let before = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    let after = without_section(&before);
    let alone = ControllerConfig::from_str(&after, file, &ProcessEnvironment)?;
    if alone.config.storage.cluster.is_some() {
        return Err(Failure::usage(format!(
            "{}: the section `cluster` cannot be made a comment here: write it in lines of its own; nothing was moved",
            file.display()
        )));
    }
    let database = loaded.config.storage.database.display();
    // A move that was interrupted had taken everything out already.
    match cluster::is_taken_back(section, &loaded.config).await? {
        true => {}
        false => {
            output::note("moving the network out of etcd");
            let head = cluster::take_back(section, &loaded.config).await.map_err(|failure| {
                failure
                    .during("the network was not moved")
                    .and("if etcd has not answered, call this again")
            })?;
            output::line(format_args!(
                "the network is in {database}, at revision {}, with all sessions; etcd has nothing of it any more",
                head.revision
            ));
        }
    }
    rewrite(file, &after).map_err(|failure| {
        failure.during("the network is in its file, and the section `cluster` was not made a comment: call this again")
    })?;
    output::line(format_args!("the section `cluster` of {} is a comment now", file.display()));
    output::line("Next:");
    output::line(format_args!("  weft controller run {}", file.display()));
    Ok(())
}

/// Replaces the text of a configuration file, at once; owner and mode stay.
fn rewrite(file: &Path, text: &str) -> Result<()> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", file.display()));
    // A link stays a link.
    let file = &std::fs::canonicalize(file).map_err(failed)?;
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = Path::new(&fresh);
    write_for_owner(fresh, text.as_bytes())?;
    let replaced = keep_owner(file, fresh).and_then(|()| std::fs::rename(fresh, file));
    if replaced.is_err() {
        // The file may be mounted by itself. Nothing depends on what a leftover holds.
        let _ = std::fs::remove_file(fresh);
        return std::fs::write(file, text).map_err(failed);
    }
    sync_folder_of(file).map_err(failed)
}

/// The text of a file with the section `cluster` as comments.
fn without_section(text: &str) -> String {
    let mut is_inside = false;
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let begins =
            line.starts_with(|first: char| !first.is_whitespace() && first != '#' && first != '}');
        if begins {
            let key = line.trim_start_matches(['"', '\'']);
            let rest =
                key.strip_prefix("cluster").map(|rest| rest.trim_start_matches(['"', '\'', ' ']));
            is_inside = rest.is_some_and(|rest| rest.starts_with(':'));
        }
        if is_inside && !line.trim().is_empty() && !line.starts_with('#') {
            out.push('#');
        }
        out.push_str(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_becomes_comments_and_nothing_else_does() {
        for (text, wanted) in [
            (
                "db: x\ncluster:\n  etcd: [a]\n\n  # why\n  key: k\nweb:\n  - a\n",
                "db: x\n#cluster:\n#  etcd: [a]\n\n#  # why\n#  key: k\nweb:\n  - a\n",
            ),
            (
                "cluster: {etcd: [a],\n  key: k\n}\ndb: x",
                "#cluster: {etcd: [a],\n#  key: k\n#}\ndb: x",
            ),
            ("\"cluster\" : {key: k}\n# end", "#\"cluster\" : {key: k}\n# end"),
            ("clusters:\n  a: 1\ndb: cluster:\n", "clusters:\n  a: 1\ndb: cluster:\n"),
        ] {
            assert_eq!(without_section(text), wanted);
        }
    }
}
