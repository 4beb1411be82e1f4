//! An identity that follows its files.
//!
//! The contents of the files are compared, so that every way of replacing a file is noticed:
//! written in place, renamed over, or a symbolic link moved (docs/protocol/config.md 2.4). TLS
//! configurations of a live identity use new material for new handshakes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::digest;

use crate::error::{Error, Result};
use crate::file::{Access, Beside};
use crate::identity::{Identity, IdentitySection};
use crate::location::Location;

/// An identity that can be loaded again while it is used.
#[derive(Debug)]
pub struct LiveIdentity {
    section: IdentitySection,
    current: ArcSwap<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    identity: Arc<Identity>,
    /// Digest of the contents of all files.
    contents: Vec<u8>,
}

/// New certificates on the disk, beside the files that they are to replace. When dropped, they are
/// removed.
#[derive(Debug)]
#[must_use]
pub struct PreparedCertificates(Vec<(&'static str, Beside)>);

/// New material of a live identity, loaded and not yet used.
#[derive(Debug)]
pub struct Changed(Loaded);

impl Changed {
    /// The identity with the new material.
    #[must_use]
    pub fn identity(&self) -> &Arc<Identity> {
        &self.0.identity
    }
}

impl LiveIdentity {
    /// Loads the identity of a section.
    ///
    /// # Errors
    /// As [`Identity::load`].
    pub fn load(section: IdentitySection) -> Result<Arc<Self>> {
        // Read before the identity, so that the next look notices a change in between.
        let contents = contents(&section)?;
        let identity = Arc::new(Identity::load(&section)?);
        let current = ArcSwap::from_pointee(Loaded { identity, contents });
        Ok(Arc::new(Self { section, current }))
    }

    /// A live identity of loaded parts; only [`LiveIdentity::replace`] changes it.
    #[must_use]
    pub fn fixed(identity: Identity) -> Arc<Self> {
        let current =
            ArcSwap::from_pointee(Loaded { identity: Arc::new(identity), contents: Vec::new() });
        Arc::new(Self { section: IdentitySection::default(), current })
    }

    /// The present identity.
    #[must_use]
    pub fn current(&self) -> Arc<Identity> {
        Arc::clone(&self.current.load().identity)
    }

    /// The section that the identity was loaded from.
    #[must_use]
    pub fn section(&self) -> &IdentitySection {
        &self.section
    }

    /// Replaces the identity.
    pub fn replace(&self, identity: Identity) {
        let contents = self.current.load().contents.clone();
        self.current.store(Arc::new(Loaded { identity: Arc::new(identity), contents }));
    }

    /// Loads the files again if any has changed; to be called from time to time. Returns true if
    /// there was new material. After an error the present identity stays in use.
    ///
    /// # Errors
    /// When the new files cannot be loaded, for example because only one of key and certificate has
    /// been replaced yet; the next call tries again.
    pub fn reload_if_changed(&self) -> Result<bool> {
        let changed = self.look()?;
        Ok(changed.map(|changed| self.adopt(changed)).is_some())
    }

    /// Loads the files again if any has changed. The new material is not used before
    /// [`LiveIdentity::adopt`], since it may have to fit the material of other identities.
    ///
    /// # Errors
    /// As [`LiveIdentity::reload_if_changed`].
    pub fn look(&self) -> Result<Option<Changed>> {
        if self.section.locations().is_empty() {
            return Ok(None);
        }
        let contents = contents(&self.section)?;
        if contents == self.current.load().contents {
            return Ok(None);
        }
        let identity = Arc::new(Identity::load(&self.section)?);
        Ok(Some(Changed(Loaded { identity, contents })))
    }

    /// Uses the new material that [`LiveIdentity::look`] of this identity returned.
    pub fn adopt(&self, changed: Changed) {
        self.current.store(Arc::new(changed.0));
    }

    /// Writes new client and server chains (PEM) to the files that the present ones were read from,
    /// and loads them.
    ///
    /// # Errors
    /// When a certificate is not in a file, or a file cannot be written.
    pub fn save_certificates(&self, client: Option<&str>, server: Option<&str>) -> Result<()> {
        self.use_certificates(self.prepare_certificates(client, server)?)
    }

    /// Writes new client and server chains (PEM) beside the files that the present ones were read
    /// from. A renewal is confirmed when they are on the disk, and before they are used
    /// (docs/protocol/edge-control-plane.md 17.3, docs/protocol/config.md 2.4).
    ///
    /// # Errors
    /// When a certificate is not in a file, or a file cannot be written.
    pub fn prepare_certificates(
        &self,
        client: Option<&str>,
        server: Option<&str>,
    ) -> Result<PreparedCertificates> {
        let mut files: Vec<(&'static str, Beside)> = Vec::new();
        for (key, value, text) in [
            ("cert", &self.section.cert, client),
            ("server_cert", &self.section.server_cert, server),
        ] {
            let Some(text) = text else { continue };
            let at = |error: Error| error.at(self.section.section(), key);
            match Location::parse(value).map_err(at)? {
                Location::File(path) => {
                    // The keys may name one file, which gets the server's chain.
                    files.retain(|(_, file)| !file.is_for(&path));
                    let file = Beside::write(&path, text.as_bytes(), Access::AsBefore);
                    files.push((key, file.map_err(at)?));
                }
                Location::Inline(_) => {
                    return Err(at(Error::Scheme(
                        "pem, which cannot be written to: use a file".into(),
                    )));
                }
            }
        }
        Ok(PreparedCertificates(files))
    }

    /// Puts the new chains that [`LiveIdentity::prepare_certificates`] of this identity has written in
    /// the place of the present ones, and loads them. Chains that cannot be put there are used all the same,
    /// from memory, and stay beside the files.
    ///
    /// # Errors
    /// When a file cannot be replaced ([`Error::NotReplaced`]), or the new chains cannot be loaded.
    pub fn use_certificates(&self, mut prepared: PreparedCertificates) -> Result<()> {
        let mut failed = None;
        for (key, file) in &mut prepared.0 {
            if let Err(error) = file.put() {
                failed.get_or_insert((*key, file.target().to_owned(), file.leave(), error));
            }
        }
        let Some((key, path, new, source)) = failed else {
            return self.reload_if_changed().map(|_| ());
        };
        self.use_from_memory(&prepared)?;
        let error = Error::NotReplaced { path, new, source: Box::new(source) };
        Err(error.at(self.section.section(), key))
    }

    /// Uses new chains that are not in their files. The next change of the files replaces them.
    fn use_from_memory(&self, prepared: &PreparedCertificates) -> Result<()> {
        let mut section = self.section.clone();
        for (_, file) in &prepared.0 {
            let text = String::from_utf8_lossy(file.contents());
            for value in [&mut section.cert, &mut section.server_cert] {
                let is_there = match Location::parse(value) {
                    Ok(Location::File(path)) => file.is_for(&path),
                    _ => false,
                };
                if is_there {
                    *value = format!("pem:{text}");
                }
            }
        }
        let identity = Arc::new(Identity::load(&section)?);
        let former = || self.current.load().contents.clone();
        let contents = contents(&self.section).unwrap_or_else(|_| former());
        self.current.store(Arc::new(Loaded { identity, contents }));
        Ok(())
    }
}

fn contents(section: &IdentitySection) -> Result<Vec<u8>> {
    let mut digest = digest::Context::new(&digest::SHA256);
    for (key, value) in section.locations() {
        let read = Location::parse(value).and_then(|location| location.read());
        let bytes = read.map_err(|error| error.at(section.section(), key.clone()))?;
        digest.update(key.as_bytes());
        digest.update(&(bytes.len() as u64).to_le_bytes());
        digest.update(&bytes);
    }
    Ok(digest.finish().as_ref().to_vec())
}
