//! The `Content-Security-Policy` of an application. The original's console writes texts of entities into its page as
//! HTML, and weft serves it in the origin of the APIs: a script in such a text would act as the administrator who reads
//! it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::header::HeaderValue;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use url::{Origin, Url};
use weft_config::ContentPolicy;
use weft_controller::{Addresses, Controller};
use weft_model::entity::ExtJwtSigner;
use weft_model::{Kind, Snapshot, Table};

use super::disk::Opened;
use super::inline::hashes;

/// Bytes of a page that are read for its scripts; those behind are not allowed.
const MOST_READ: u64 = 1024 * 1024;
/// Hashes in a policy: clients and proxies refuse long headers.
const MOST_HASHES: usize = 40;
/// Origins in a policy.
const MOST_ORIGINS: usize = 60;
/// Bytes of these origins in all: proxies refuse headers of 8 KiB.
const MOST_ORIGIN_BYTES: usize = 4096;
/// Longest origin, in bytes: a scheme, a host name of 253 and a port.
const MOST_OF_AN_ORIGIN: usize = 270;
/// Pages whose hashes are kept.
const MOST_PAGES: usize = 16;

/// The directives before the hashes. The console's validator of configs makes functions of schemas (`'unsafe-eval'`),
/// and builds load their styles by a handler (`'unsafe-hashes'`).
const SCRIPTS: &str = "default-src 'self'; base-uri 'self'; object-src 'none'; form-action 'self'; \
                       frame-ancestors 'self'; script-src 'self' 'unsafe-eval' 'unsafe-hashes'";
/// The directives after them. The console has its icons from Google, and its map from OpenStreetMap.
const REST: &str = "; style-src 'self' 'unsafe-inline' https://fonts.googleapis.com; \
                    font-src 'self' data: https://fonts.gstatic.com; \
                    img-src 'self' data: blob: https://*.tile.openstreetmap.org; connect-src 'self'";

/// The policies of an application's files.
#[derive(Debug)]
pub(super) struct Policy {
    chosen: ContentPolicy,
    pages: Mutex<Vec<Page>>,
}

/// The hashes of one version of a page.
#[derive(Debug)]
struct Page {
    place: PathBuf,
    version: String,
    hashes: Arc<BTreeSet<String>>,
}

impl Policy {
    pub(super) fn new(chosen: ContentPolicy) -> Self {
        Self { chosen, pages: Mutex::default() }
    }

    /// The hashes of the scripts in a page; none for other files. The file is then at its beginning. Reads the file
    /// if this version of it was not read before.
    pub(super) fn hashes(
        &self,
        place: &Path,
        opened: &mut Opened,
    ) -> std::io::Result<Arc<BTreeSet<String>>> {
        if matches!(self.chosen, ContentPolicy::Given(_)) || !is_page(place) {
            return Ok(Arc::default());
        }
        let is_known = |page: &&Page| page.place == place && page.version == opened.version;
        if let Some(page) = self.pages.lock().iter().find(is_known) {
            return Ok(Arc::clone(&page.hashes));
        }
        let hashes = Arc::new(read(&mut opened.file)?);
        if Opened::is_unchanged(&opened.file, &opened.version) {
            let mut pages = self.pages.lock();
            pages.retain(|page| page.place != place);
            if pages.len() >= MOST_PAGES {
                pages.remove(0);
            }
            let (place, version) = (place.to_owned(), opened.version.clone());
            pages.push(Page { place, version, hashes: Arc::clone(&hashes) });
        }
        Ok(hashes)
    }

    /// The policy for a file with these hashes.
    pub(super) fn header(&self, hashes: &BTreeSet<String>, origins: &str) -> HeaderValue {
        let text = match &self.chosen {
            ContentPolicy::Given(text) => text.clone(),
            ContentPolicy::Made(more) => {
                let parts = [SCRIPTS].into_iter();
                let parts = parts.chain(hashes.iter().map(String::as_str).take(MOST_HASHES));
                let scripts = parts.collect::<Vec<_>>().join(" ");
                let more = more.iter().flat_map(|origin| [" ", origin.as_str()]);
                scripts + REST + origins + &more.collect::<String>()
            }
        };
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(SCRIPTS))
    }
}

/// A mark of a policy for the entity tags of pages, so that a browser takes a page again when its policy has changed.
pub(super) fn mark(policy: &HeaderValue) -> String {
    let digest = Sha256::digest(policy.as_bytes());
    digest.iter().take(4).fold("-".to_owned(), |mark, byte| mark + &format!("{byte:02x}"))
}

/// Whether browsers show a file as a page of its own.
pub(super) fn is_page(place: &Path) -> bool {
    let ending = place.extension().map(std::ffi::OsStr::to_ascii_lowercase);
    ending.is_some_and(|ending| ending == "html" || ending == "htm" || ending == "xhtml")
}

fn read(file: &mut File) -> std::io::Result<BTreeSet<String>> {
    let mut bytes = Vec::new();
    file.by_ref().take(MOST_READ).read_to_end(&mut bytes)?;
    file.rewind()?;
    Ok(hashes(&String::from_utf8_lossy(&bytes)))
}

/// The origins that applications may connect to: those of the controller's APIs, and of the enabled external signers,
/// at which a console logs in. They are found anew when a signer has changed.
#[derive(Debug, Default)]
pub(crate) struct Origins(Mutex<Option<(Arc<Table>, Arc<str>)>>);

impl Origins {
    /// The origins, each after a space.
    pub(super) fn now(&self, controller: &Controller) -> Arc<str> {
        let snapshot = controller.kernel().snapshot();
        let table = snapshot.shared_table(Kind::ExtJwtSigner);
        let mut kept = self.0.lock();
        if let Some((of, origins)) = &*kept
            && Arc::ptr_eq(of, table)
        {
            return Arc::clone(origins);
        }
        let found: Arc<str> = found(&controller.kernel().settings().addresses, &snapshot).into();
        *kept = Some((Arc::clone(table), Arc::clone(&found)));
        found
    }
}

fn found(addresses: &Addresses, snapshot: &Snapshot) -> String {
    let signers = snapshot.list::<ExtJwtSigner>().filter(|signer| signer.enabled);
    let signers = signers.flat_map(|signer| [&signer.external_auth_url, &signer.jwks_endpoint]);
    let urls = addresses.apis.values().flatten().chain(signers.flatten());
    let (mut origins, mut bytes) = (BTreeSet::new(), 0);
    for origin in urls.filter_map(|url| origin(url)) {
        if origins.contains(&origin) {
            continue;
        }
        bytes += origin.len() + 1;
        if origins.len() < MOST_ORIGINS && bytes <= MOST_ORIGIN_BYTES {
            origins.insert(origin);
        } else {
            tracing::warn!(
                most = MOST_ORIGINS,
                "external JWT signers have more origins than the policy of a console holds; \
                 the console cannot log in at some: give it a policy of its own (`contentSecurityPolicy`)"
            );
            break;
        }
    }
    origins.iter().flat_map(|origin| [" ", origin]).collect()
}

/// The origin of a URL, if a policy can hold it: the name of a host may have characters that end a directive.
fn origin(url: &str) -> Option<String> {
    let origin = Url::parse(url).ok()?.origin();
    let is_plain = |text: &String| {
        text.len() <= MOST_OF_AN_ORIGIN
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:/[]".contains(&byte))
    };
    matches!(origin, Origin::Tuple(..)).then(|| origin.ascii_serialization()).filter(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_cannot_change_a_policy() {
        for (url, wanted) in [
            ("https://Login.example/oauth2?x=1", Some("https://login.example")),
            ("https://login.example:443/x", Some("https://login.example")),
            ("http://[::1]:8080/", Some("http://[::1]:8080")),
            ("https://bücher.example", Some("https://xn--bcher-kva.example")),
            ("https://a;script-src/x", None),
            ("https://a,b/", None),
            ("https://*/x", None),
            ("https://'unsafe-inline'/", None),
            ("data:text/html,x", None),
            ("nonsense", None),
        ] {
            assert_eq!(origin(url).as_deref(), wanted, "{url}");
        }
        assert_eq!(origin(&format!("https://{}.example/", "a".repeat(300_000))), None);
    }
}
