//! A kind ([`Schema`]) and its entities ([`Record`]), as filters see them.

use std::ops::ControlFlow;

use super::value::{Type, Value};

/// A symbol within its kind. Only the schema interprets the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId(pub u16);

/// Number of values of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// One value, possibly null.
    One,
    /// Any number of values.
    Set,
    /// One value per key: `tags` is used as `tags.<key>` only.
    Map,
}

/// Authors that may use a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Only filters that the server builds.
    Internal,
    /// Clients too, for testing and sorting by its value.
    Public,
    /// Clients too, and also as a link: in `link.name` and in `from link where ...`.
    PublicLink,
}

/// The index of a [`crate::Table`] that serves a symbol. The symbol must have exactly the value
/// that the index holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Index {
    /// No index: tests on the symbol read every candidate.
    None,
    /// The id.
    Id,
    /// The name.
    Name,
    /// The time of creation.
    Created,
    /// The unique value with this number, see [`crate::Kind::unique`].
    Unique(u8),
    /// The link with this number, see [`crate::Kind::links`].
    Link(u8),
    /// The role attributes.
    Attributes,
}

impl Index {
    /// The index of a symbol whose name is the same in every kind.
    pub(super) const fn by_convention(name: &str) -> Self {
        match name.as_bytes() {
            b"id" => Self::Id,
            b"name" => Self::Name,
            b"createdAt" => Self::Created,
            b"roleAttributes" => Self::Attributes,
            _ => Self::None,
        }
    }
}

/// A symbol, as binding needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// The id.
    pub id: SymbolId,
    /// Type of the values; for a set, of the elements.
    pub ty: Type,
    /// Number of values.
    pub shape: Shape,
    /// Authors that may use the symbol.
    pub visibility: Visibility,
    /// The index that serves the symbol.
    pub index: Index,
    /// Numbers that filters may say in place of texts.
    pub numbers: &'static [(i64, &'static str)],
}

/// The symbols of a kind.
pub trait Schema: Send + Sync {
    /// Name of the kind, for messages and explanations.
    fn kind(&self) -> &str;

    /// The symbol with exactly this name, which may be dotted.
    fn symbol(&self, name: &str) -> Option<Symbol>;

    /// The kind that a symbol links to, if it is a link.
    fn linked(&self, symbol: SymbolId) -> Option<&dyn Schema>;
}

/// An entity, as filters see it.
///
/// Symbols are those of the schema that the plan was bound to. A symbol that the record does not
/// know is null, empty, or links to nothing.
pub trait Record {
    /// The id, which ends every order.
    fn id(&self) -> &str;

    /// The value of a symbol of [`Shape::One`].
    fn value(&self, symbol: SymbolId) -> Value<'_>;

    /// The value under a key of a symbol of [`Shape::Map`].
    fn keyed(&self, symbol: SymbolId, key: &str) -> Value<'_>;

    /// Passes the elements of a symbol of [`Shape::Set`] to a visitor until it breaks off.
    fn each(
        &self,
        symbol: SymbolId,
        visit: &mut dyn FnMut(Value<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()>;

    /// Passes the entities at the other end of a link to a visitor, until the visitor breaks off.
    fn follow(
        &self,
        symbol: SymbolId,
        visit: &mut dyn FnMut(&dyn Record) -> ControlFlow<()>,
    ) -> ControlFlow<()>;
}

impl<R: Record + ?Sized> Record for &R {
    fn id(&self) -> &str {
        (**self).id()
    }

    fn value(&self, symbol: SymbolId) -> Value<'_> {
        (**self).value(symbol)
    }

    fn keyed(&self, symbol: SymbolId, key: &str) -> Value<'_> {
        (**self).keyed(symbol, key)
    }

    fn each(
        &self,
        symbol: SymbolId,
        visit: &mut dyn FnMut(Value<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        (**self).each(symbol, visit)
    }

    fn follow(
        &self,
        symbol: SymbolId,
        visit: &mut dyn FnMut(&dyn Record) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        (**self).follow(symbol, visit)
    }
}
