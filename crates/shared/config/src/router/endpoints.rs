//! The file in which a router keeps the addresses of controllers (docs/protocol/config.md 5.3).

use std::fmt::Write as _;

use crate::section::{Context, Section};
use crate::template::quoted;
use crate::yaml;

/// Contents of an endpoints file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointsFile {
    /// Addresses of all controllers.
    pub endpoints: Vec<String>,
    /// Addresses by controller; may be empty in older files.
    pub controllers: Vec<ControllerEndpoints>,
}

/// Addresses of one controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerEndpoints {
    /// Id of the controller; empty right after enrollment.
    pub id: String,
    /// Its addresses.
    pub endpoints: Vec<ControllerEndpoint>,
}

/// An address, and the groups that use it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerEndpoint {
    /// The address, with type.
    pub address: String,
    /// Groups.
    pub groups: Vec<String>,
}

impl EndpointsFile {
    /// Reads the text of a file; none if it is not such a file or names no controller, so that the
    /// configuration is used instead.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        if text.len() > crate::MAX_FILE_BYTES {
            return None;
        }
        let tree = yaml::parse(text).ok()?;
        let cx = Context::default();
        let root = Section::root(&cx, &tree.root);
        root.any_case();
        root.allow_unknown();
        let endpoints: Vec<String> =
            root.texts("endpoints").into_iter().filter(|text| !text.is_empty()).collect();
        let mut controllers = Vec::new();
        for item in root.list("controllers") {
            let Some(section) = item.section() else { continue };
            section.any_case();
            let list = section.list("endpoints");
            let endpoints = list.iter().filter_map(|item| {
                let section = item.section()?;
                section.any_case();
                let address = section.text("address")?;
                Some(ControllerEndpoint { address, groups: section.texts("groups") })
            });
            let endpoints = endpoints.collect();
            controllers.push(ControllerEndpoints {
                id: section.text("id").unwrap_or_default(),
                endpoints,
            });
        }
        (!endpoints.is_empty()).then_some(Self { endpoints, controllers })
    }

    /// The text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let list = |texts: &[String]| {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("[{}]", texts.join(", "))
        };
        let mut out = format!("endpoints: {}\n", list(&self.endpoints));
        if self.controllers.is_empty() {
            return out;
        }
        out.push_str("controllers:\n");
        for controller in &self.controllers {
            // Writing to a string does not fail.
            let _ = writeln!(out, "  - id: {}\n    endpoints:", quoted(&controller.id));
            for endpoint in &controller.endpoints {
                let (address, groups) = (quoted(&endpoint.address), list(&endpoint.groups));
                let _ = writeln!(out, "      - {{address: {address}, groups: {groups}}}");
            }
            if controller.endpoints.is_empty() {
                out.truncate(out.len() - 1);
                out.push_str(" []\n");
            }
        }
        out
    }
}
