//! What the servers of a section `web` name.

use std::path::Path;

use weft_config::{Facts, IdentitySection, WebServer};
use weft_web::Scraper;

use super::{Finding, addresses::given};

/// The identity that the server of a key has for itself.
pub(super) fn identity_at<'a>(servers: &'a [WebServer], key: &str) -> Option<&'a IdentitySection> {
    let index: usize = key.strip_prefix("web[")?.split(']').next()?.parse().ok()?;
    servers.get(index)?.identity.as_ref()
}

/// Certificates of those who read metrics.
pub(super) fn scrapers(facts: &Facts) -> Vec<Finding> {
    const KEY: &str = "web[].apis[].options.scrapeCert";
    let named = given(facts).filter(|fact| fact.general_key() == KEY);
    named
        .filter_map(|fact| {
            let problem = Scraper::load(Path::new(&fact.value)).err()?;
            Some(Finding::mistake(fact.key.clone(), problem.to_string()))
        })
        .collect()
}
