//! What a filter needs to know of a kind ([`Schema`]) and of one of its entities ([`Record`]).

use std::ops::ControlFlow;

use super::value::{Type, Value};

/// A symbol within its kind. What the number means is the schema's own business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId(pub u16);

/// How many values a symbol has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// One, possibly null.
    One,
    /// Any number.
    Set,
    /// One per key: `tags` is addressed as `tags.<key>` and never alone.
    Map,
}

/// Who may use a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Filters built by the server only.
    Internal,
    /// Callers may test and sort by its value, but not go through it to another kind.
    Public,
    /// Callers may also follow it: in `link.name` and in `from link where ...`.
    PublicLink,
}

/// Which index of a [`crate::Table`] answers for a symbol. The symbol must have exactly the value
/// that the index holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Index {
    /// None: tests on it read every candidate.
    None,
    /// The id.
    Id,
    /// The name.
    Name,
    /// The time of creation.
    Created,
    /// The unique value with this number in [`crate::Kind::unique`].
    Unique(u8),
    /// The link with this number in [`crate::Kind::links`].
    Link(u8),
    /// The role attributes.
    Attributes,
}

impl Index {
    /// The index of symbols that have the same name in every kind.
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

/// What binding learns about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Its id.
    pub id: SymbolId,
    /// The type of its values; of its elements for a set.
    pub ty: Type,
    /// One value, a set, or one per key.
    pub shape: Shape,
    /// Who may use it.
    pub visibility: Visibility,
    /// Which index answers for it.
    pub index: Index,
}

/// The symbols of a kind.
pub trait Schema: Send + Sync {
    /// The name of the kind, for messages and explanations.
    fn kind(&self) -> &str;

    /// The symbol with exactly this name; a dotted name may be a symbol too.
    fn symbol(&self, name: &str) -> Option<Symbol>;

    /// The kind a symbol leads to, if it is a link.
    fn linked(&self, symbol: SymbolId) -> Option<&dyn Schema>;
}

/// One entity as a filter sees it.
///
/// Symbols are those of the schema that the plan was bound to. A symbol that the record does not
/// know is null, empty, or leads nowhere.
pub trait Record {
    /// The id: the last word in every order.
    fn id(&self) -> &str;

    /// The value of a symbol of [`Shape::One`].
    fn value(&self, symbol: SymbolId) -> Value<'_>;

    /// The value under a key of a symbol of [`Shape::Map`].
    fn keyed(&self, symbol: SymbolId, key: &str) -> Value<'_>;

    /// Shows every element of a symbol of [`Shape::Set`] until the visitor breaks off.
    fn each(
        &self,
        symbol: SymbolId,
        visit: &mut dyn FnMut(Value<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()>;

    /// The number of elements of a symbol of [`Shape::Set`].
    fn count(&self, symbol: SymbolId) -> u64 {
        let mut count = 0;
        let _ = self.each(symbol, &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        count
    }

    /// Shows every entity that a link leads to until the visitor breaks off.
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

    fn count(&self, symbol: SymbolId) -> u64 {
        (**self).count(symbol)
    }

    fn follow(
        &self,
        symbol: SymbolId,
        visit: &mut dyn FnMut(&dyn Record) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        (**self).follow(symbol, visit)
    }
}
