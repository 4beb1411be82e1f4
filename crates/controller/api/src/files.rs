//! Single page applications, served from the disk
//! (docs/protocol/config.md 3.6; docs/protocol/operations.md 9.2).
//!
//! A path without a file is answered with the application's index, because the application handles
//! the paths below its root itself. A file is read while it is sent, and never held in memory as a
//! whole. Compressed forms of files that every client loads are kept.

mod body;
mod conditions;
mod disk;
mod inline;
mod place;
mod policy;
mod reply;
mod serve;

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

pub(crate) use body::FileBody;
use parking_lot::Mutex;
pub(crate) use policy::Origins;
use policy::Policy;
pub(crate) use serve::LEAST_RATE;
use weft_config::{FileOptions, WebApi};
use weft_contract::Api;
use weft_limits::LogLines;

use crate::paths::unescape;
use crate::site::Site;
use crate::urls::served;

/// Files in this folder are also served at the root.
const ASSETS: &str = "assets";

/// An application.
#[derive(Debug)]
pub(crate) struct Files {
    root: String,
    location: PathBuf,
    index: PathBuf,
    assets_at_root: bool,
    policy: Arc<Policy>,
    /// Lines of the log about files that cannot be sent, for which anybody can ask.
    complaints: Mutex<LogLines>,
}

/// An application among the APIs of a bind point.
#[derive(Debug)]
pub(crate) struct Mount {
    pub(crate) files: Files,
    /// The number of APIs that are asked before the application.
    after: usize,
    /// Whether the application answers paths that no API or application claims.
    is_default: bool,
}

impl Files {
    fn new(options: &FileOptions) -> Self {
        Self {
            root: options.path.clone(),
            location: options.location.clone(),
            index: options.index_file.clone().into(),
            assets_at_root: options.assets_at_root,
            policy: Arc::new(Policy::new(options.policy.clone())),
            complaints: Mutex::new(LogLines::new(Instant::now())),
        }
    }

    /// Logs why a file is not sent.
    fn complain(&self, path: &str, problem: &dyn Display) {
        const TEXT: &str = "a file of an application is not sent; its client gets an error";
        let location = self.location.display();
        match self.complaints.lock().due(Instant::now()) {
            Some(left_out) => tracing::warn!(%location, path, %problem, left_out, "{TEXT}"),
            None => tracing::debug!(%location, path, %problem, "{TEXT}"),
        }
    }

    /// The first segment of the application's paths.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    fn is_root(&self, segment: &str) -> bool {
        segment == self.root || unescape(segment).is_some_and(|name| name == self.root)
    }

    /// Whether the application answers a request path.
    fn claims(&self, path: &str) -> bool {
        let first = segments(path).next();
        first.is_some_and(|first| self.is_root(first) || self.assets_at_root && first == ASSETS)
    }

    /// The segments of a path below the root.
    fn below<'p>(&self, path: &'p str) -> impl Iterator<Item = &'p str> {
        let mut segments = segments(path).peekable();
        segments.next_if(|first| self.is_root(first));
        segments
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

/// The applications of a server with these APIs.
pub(crate) fn mounts(bindings: &[WebApi], apis: &[Api]) -> Arc<[Mount]> {
    let bound = bindings.iter().filter_map(served).count();
    // weft's own API comes first, and has no binding.
    let mut after = apis.len().saturating_sub(bound);
    let mut mounts = Vec::new();
    for (index, binding) in bindings.iter().enumerate() {
        if let WebApi::Files(options) = binding {
            let is_last = index + 1 == bindings.len();
            let is_default = is_last && !apis.contains(&Api::Client);
            mounts.push(Mount { files: Files::new(options), after, is_default });
        } else if served(binding).is_some() {
            after += 1;
        }
    }
    mounts.into()
}

impl Site {
    /// The application that answers a path: the first one in the configuration that claims it,
    /// unless an API before it does.
    pub(crate) fn application(&self, path: &str) -> Option<&Files> {
        let plain = crate::paths::normal(path);
        let nobody = |apis: &[Api]| !apis.iter().any(|api| api.claims(&plain));
        let claims = |mount: &&Mount| {
            mount.files.claims(path) && nobody(self.apis.get(..mount.after).unwrap_or_default())
        };
        let default = || self.mounts.last().filter(|last| last.is_default && nobody(&self.apis));
        self.mounts.iter().find(claims).or_else(default).map(|mount| &mount.files)
    }
}

#[cfg(test)]
mod tests {
    use weft_config::ContentPolicy;

    use super::*;

    fn files(path: &str, assets_at_root: bool) -> Files {
        Files::new(&FileOptions {
            path: path.into(),
            location: "/nowhere".into(),
            index_file: "index.html".into(),
            assets_at_root,
            policy: ContentPolicy::default(),
        })
    }

    #[test]
    fn paths_are_claimed_by_their_first_segment() {
        let (console, other) = (files("zac", true), files("a b", false));
        for path in ["/zac", "/zac/", "/zac/x/y", "//zac//x", "/%7aac/x", "/assets", "/assets/x"] {
            assert!(console.claims(path), "{path}");
        }
        for path in ["/", "", "/zacx", "/zac..", "/x/zac", "/assetsx", "/%61ssets"] {
            assert!(!console.claims(path), "{path}");
        }
        assert!(other.claims("/a%20b/x") && !other.claims("/assets/x"));
        let below = |path| console.below(path).collect::<Vec<_>>().join("/");
        assert_eq!(below("/zac/assets/x"), "assets/x");
        assert_eq!(below("/assets/x"), "assets/x");
        assert_eq!(below("/zac/zac"), "zac");
    }

    #[test]
    fn applications_have_their_place_among_the_apis() {
        let app = |path: &str| {
            WebApi::Files(FileOptions {
                path: path.into(),
                location: "/nowhere".into(),
                index_file: "index.html".into(),
                assets_at_root: false,
                policy: ContentPolicy::default(),
            })
        };
        let own = Api::Weft;
        let bindings = [WebApi::EdgeManagement, app("a"), WebApi::Fabric, app("b")];
        let apis = [own, Api::Management, Api::Fabric];
        let seen = |mounts: Arc<[Mount]>| {
            mounts.iter().map(|mount| (mount.after, mount.is_default)).collect::<Vec<_>>()
        };
        assert_eq!(seen(mounts(&bindings, &apis)), [(2, false), (3, true)]);
        let bindings = [WebApi::EdgeClient, app("a")];
        assert_eq!(seen(mounts(&bindings, &[Api::Client])), [(1, false)]);
        assert_eq!(seen(mounts(&[app("a")], &[])), [(0, true)]);
    }
}
