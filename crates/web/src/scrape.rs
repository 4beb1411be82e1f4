//! Who may read metrics: anybody, or who shows one certificate.

use std::path::Path;
use std::time::SystemTime;

use weft_identity::Certificate;

/// The one certificate with which metrics may be read.
#[derive(Debug, Clone)]
pub struct Scraper(Certificate);

/// Why there is none.
#[derive(Debug, thiserror::Error)]
#[error("scrapeCert {path}: {problem}; name a PEM file with the certificate of who reads metrics")]
pub struct NoScraper {
    path: String,
    problem: String,
}

impl Scraper {
    /// Reads the certificate from a PEM file; the first one counts.
    ///
    /// # Errors
    /// When there is none.
    pub fn load(path: &Path) -> Result<Self, NoScraper> {
        let none = |problem: String| NoScraper { path: path.display().to_string(), problem };
        let text = std::fs::read(path).map_err(|error| none(error.to_string()))?;
        let found = Certificate::from_pem(&text).map_err(|error| none(error.to_string()))?;
        let first = found.into_iter().next();
        first.map(Self).ok_or_else(|| none("it holds no certificate".to_owned()))
    }

    /// Whether who shows this leaf may read: it is that very certificate, and valid now.
    #[must_use]
    pub fn admits(&self, leaf: Option<&Certificate>, now: SystemTime) -> bool {
        leaf.is_some_and(|leaf| leaf.der() == self.0.der() && leaf.is_valid_at(now))
    }
}
