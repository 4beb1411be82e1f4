//! The elements of a list in a file, read with the same checks as the keys of a section.

use weft_wire::Address;

use super::{Item, Section, shown};
use crate::error::KeyAt;
use crate::yaml::YamlValue;
use crate::{address, secret};

impl<'t> Item<'t> {
    /// The item as a map.
    pub(crate) fn section(&self) -> Option<Section<'t>> {
        self.section_or("must be a map")
    }

    /// The item as a map; `message` is the mistake if it is none.
    pub(crate) fn section_or(&self, message: &str) -> Option<Section<'t>> {
        match &self.node.value {
            YamlValue::Map(entries) => {
                self.cx.facts.borrow_mut().section(&self.path, self.node.location);
                Some(Section::new(self.cx, self.path.clone(), self.node.location, Some(entries)))
            }
            other => {
                self.problem(format!("{message}, it is {}", other.kind()));
                None
            }
        }
    }

    /// The item as a string.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.node.value {
            YamlValue::Text { text, .. } => Some(text.clone()),
            other => {
                self.problem(format!("must be a string, it is {}", other.kind()));
                None
            }
        }
    }

    /// The item as an address.
    pub(crate) fn address(&self) -> Option<Address> {
        let text = self.text()?;
        match address::parse(&text) {
            Ok(address) => Some(address),
            Err(reason) => {
                self.problem(reason);
                None
            }
        }
    }

    /// Notes a problem with the item.
    pub(crate) fn problem(&self, message: impl Into<String>) {
        let found = shown(&self.path, self.node);
        let value = self.node.value.rendered().unwrap_or_default();
        let message = secret::without(&self.path, &value, message.into());
        let problem = KeyAt::new(self.path.clone(), message).at(self.node.location);
        self.cx.problem(KeyAt { found, ..problem });
    }
}
