//! Checks of the files and addresses that the servers of a section `web` name.

use std::path::Path;

use weft_config::{FileFacts, WebServer};
use weft_identity::IdentitySection;
use weft_web::Scraper;

use super::addresses::given;
use super::finding::Finding;

/// The server's own identity, for a key of the server.
pub(super) fn identity_at<'a>(servers: &'a [WebServer], key: &str) -> Option<&'a IdentitySection> {
    let index: usize = key.strip_prefix("web[")?.split(']').next()?.parse().ok()?;
    servers.get(index)?.identity.as_ref()
}

/// Checks the certificates for reading metrics.
pub(super) fn scrapers(facts: &FileFacts) -> Vec<Finding> {
    const KEY: &str = "web[].apis[].options.scrapeCert";
    let named = given(facts).filter(|fact| fact.general_key() == KEY);
    named
        .filter_map(|fact| {
            let problem = Scraper::load(Path::new(&fact.value)).err()?;
            Some(Finding::mistake(fact.key.clone(), problem.to_string()))
        })
        .collect()
}
