//! The descriptions of the APIs, made of the rows of the contract.
//!
//! ```text
//! rows of operations (resource) ─┐
//! Fields of bodies (body!)      ─┼─> document: OpenAPI 3.1 ──> swagger: OpenAPI 2.0
//! Members of answers (detail!)  ─┘                        └──> yaml
//! ```
//!
//! No operation is described by hand: words that a row lacks are made from its path and method
//! (`words`). A document is the same for every controller of a version; the copies in `docs/api`
//! are compared with it by a test.

mod document;
mod parameters;
mod schemas;
mod statuses;
mod swagger;
mod words;

use std::sync::OnceLock;

pub use document::document;
use serde_json::Value;
pub use swagger::swagger;

use crate::paths::Api;
use crate::word::Word as _;
use crate::yaml;

/// A description that the controller serves under `/specs`.
#[derive(Debug)]
pub struct Spec {
    /// The id of the description, which is also its name.
    pub id: &'static str,
    /// The API that is described.
    pub api: Api,
    /// The format of the document.
    pub format: Format,
    json: OnceLock<String>,
    yaml: OnceLock<String>,
}

/// The format of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenAPI 3.1.
    OpenApi,
    /// OpenAPI 2.0, the only one that older generators read.
    Swagger,
}

const fn spec(id: &'static str, api: Api, format: Format) -> Spec {
    Spec { id, api, format, json: OnceLock::new(), yaml: OnceLock::new() }
}

/// Every description, by id. The name of a binding is the id of its API in OpenAPI 2.0, as tools
/// expect.
pub static SPECS: [Spec; 7] = [
    spec("edge-client", Api::Client, Format::Swagger),
    spec("edge-management", Api::Management, Format::Swagger),
    spec("fabric", Api::Fabric, Format::Swagger),
    spec("weft", Api::Weft, Format::OpenApi),
    spec("weft-client", Api::Client, Format::OpenApi),
    spec("weft-fabric", Api::Fabric, Format::OpenApi),
    spec("weft-management", Api::Management, Format::OpenApi),
];

impl Spec {
    /// The description with this id.
    #[must_use]
    pub fn find(id: &str) -> Option<&'static Self> {
        SPECS.iter().find(|spec| spec.id == id)
    }

    /// The description of an API in a format.
    #[must_use]
    pub fn of(api: Api, format: Format) -> Option<&'static Self> {
        SPECS.iter().find(|spec| spec.api == api && spec.format == format)
    }

    /// The description itself.
    #[must_use]
    pub fn document(&self) -> Value {
        let document = document(self.api);
        match self.format {
            Format::OpenApi => document,
            Format::Swagger => swagger(&document),
        }
    }

    /// The description in JSON, made when it is first asked for.
    #[must_use]
    pub fn json(&'static self) -> &'static str {
        self.json.get_or_init(|| self.document().to_string())
    }

    /// The description in YAML.
    #[must_use]
    pub fn yaml(&'static self) -> &'static str {
        self.yaml.get_or_init(|| yaml::write(&self.document()))
    }

    /// The name of the copy in `docs/api`.
    #[must_use]
    pub fn file(&self) -> String {
        let format = match self.format {
            Format::OpenApi => "openapi",
            Format::Swagger => "swagger",
        };
        let api = match self.api {
            // weft's own API has one format, which the name of the file leaves out.
            Api::Weft => return "weft.json".to_owned(),
            Api::Client => "client",
            Api::Management => "management",
            other => other.as_str(),
        };
        format!("{api}.{format}.json")
    }

    /// The text of the copy in `docs/api`.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{:#}\n", self.document())
    }
}

#[cfg(test)]
mod tests;
