//! A schema and its records out of one constant table.
//!
//! A kind declares its symbols as rows of name, type and getter:
//!
//! ```
//! # use weft_model::filter::{Column, Symbols, Type, Value};
//! # struct Net;
//! # struct Site { id: String, name: String }
//! type SiteColumn = Column<Net, Site>; // named, so that the closures know their types
//!
//! static SITES: Symbols<Net, Site> = Symbols {
//!     kind: "sites",
//!     id: |site| &site.id,
//!     shared: &[],
//!     columns: &[
//!         SiteColumn::one("id", Type::String, |_, site| Value::text(&site.id)).public(),
//!         SiteColumn::one("name", Type::String, |_, site| Value::text(&site.name)).public(),
//!     ],
//! };
//! # let site = Site { id: "a".into(), name: "b".into() };
//! # let plan = weft_model::filter::bind(
//! #     &weft_model::filter::parse("name = \"b\"").unwrap(),
//! #     &SITES,
//! #     weft_model::filter::Audience::Server,
//! # ).unwrap();
//! # assert!(plan.matches(&SITES.row(&Net, &site)));
//! ```
//!
//! Columns named `id`, `name`, `createdAt` and `roleAttributes` are served by the indexes that every
//! [`crate::Table`] has of these; a column may name another one.
//!
//! Getters see the context (a snapshot) beside the record, so that a symbol may be computed and a
//! link can be followed. Tables may point at each other in circles.

use std::ops::ControlFlow;

use super::schema::{Index, Record, Schema, Shape, Symbol, SymbolId, Visibility};
use super::value::{Type, Value};

/// Visitor of a set's elements.
pub type ValueVisitor<'v> = &'v mut dyn FnMut(Value<'_>) -> ControlFlow<()>;

/// Visitor of linked records.
pub type RecordVisitor<'v> = &'v mut dyn FnMut(&dyn Record) -> ControlFlow<()>;

/// Getter of a column; the variant is the column's shape.
pub enum Get<C, R> {
    /// One value.
    One(for<'a> fn(&'a C, &'a R) -> Value<'a>),
    /// The elements of a set, passed to the visitor until it breaks off.
    Set(fn(&C, &R, ValueVisitor<'_>) -> ControlFlow<()>),
    /// The value under a key.
    Map(for<'a> fn(&'a C, &'a R, &str) -> Value<'a>),
}

/// The link of a column.
pub struct Link<C, R> {
    /// The kind that the column links to.
    pub schema: &'static dyn Schema,
    /// Passes the linked records, as rows of that kind, to the visitor until it breaks off.
    pub follow: fn(&C, &R, RecordVisitor<'_>) -> ControlFlow<()>,
}

/// One symbol of a kind.
pub struct Column<C, R> {
    /// Name in filters, possibly dotted.
    pub name: &'static str,
    /// The type of the values.
    pub ty: Type,
    /// Authors that may use the symbol.
    pub visibility: Visibility,
    /// The index that serves the symbol.
    pub index: Index,
    /// Numbers that filters may say in place of texts.
    pub numbers: &'static [(i64, &'static str)],
    /// Getter.
    pub get: Get<C, R>,
    /// The link, if the symbol is one.
    pub link: Option<Link<C, R>>,
}

impl<C, R> Column<C, R> {
    const fn new(name: &'static str, ty: Type, get: Get<C, R>) -> Self {
        let index = Index::by_convention(name);
        Self { name, ty, visibility: Visibility::Internal, index, numbers: &[], get, link: None }
    }

    /// An internal column with one value.
    pub const fn one(
        name: &'static str,
        ty: Type,
        get: for<'a> fn(&'a C, &'a R) -> Value<'a>,
    ) -> Self {
        Self::new(name, ty, Get::One(get))
    }

    /// An internal column with a set of values.
    pub const fn set(
        name: &'static str,
        ty: Type,
        get: fn(&C, &R, ValueVisitor<'_>) -> ControlFlow<()>,
    ) -> Self {
        Self::new(name, ty, Get::Set(get))
    }

    /// An internal column with one value per key, of any type.
    pub const fn map(name: &'static str, get: for<'a> fn(&'a C, &'a R, &str) -> Value<'a>) -> Self {
        Self::new(name, Type::Any, Get::Map(get))
    }

    /// The column, also for clients.
    pub const fn public(mut self) -> Self {
        self.visibility = Visibility::Public;
        self
    }

    /// The column, also for clients, as a link too.
    pub const fn public_link(mut self) -> Self {
        self.visibility = Visibility::PublicLink;
        self
    }

    /// The column, with the index that filters on it use. The index must hold the values that the
    /// getter reads; [`Index::None`] is for a column without such an index.
    pub const fn indexed(mut self, index: Index) -> Self {
        self.index = index;
        self
    }

    /// The column, with numbers that filters may say in place of texts.
    pub const fn numbered(mut self, numbers: &'static [(i64, &'static str)]) -> Self {
        self.numbers = numbers;
        self
    }

    /// The column, as a link to another kind.
    pub const fn linked(
        mut self,
        schema: &'static dyn Schema,
        follow: fn(&C, &R, RecordVisitor<'_>) -> ControlFlow<()>,
    ) -> Self {
        self.link = Some(Link { schema, follow });
        self
    }

    fn shape(&self) -> Shape {
        match self.get {
            Get::One(_) => Shape::One,
            Get::Set(_) => Shape::Set,
            Get::Map(_) => Shape::Map,
        }
    }
}

/// The symbols of a kind with records `R`, read in a context `C`.
pub struct Symbols<C: 'static, R: 'static> {
    /// The name of the kind.
    pub kind: &'static str,
    /// The id of a record.
    pub id: fn(&R) -> &str,
    /// Symbols that other kinds have too.
    pub shared: &'static [Column<C, R>],
    /// Symbols of this kind alone. The id of a symbol is its position in the list of the shared symbols
    /// followed by these.
    pub columns: &'static [Column<C, R>],
}

impl<C, R> Symbols<C, R> {
    /// A record of this kind, ready for a plan.
    pub fn row<'a>(&'static self, context: &'a C, record: &'a R) -> Row<'a, C, R> {
        Row { symbols: self, context, record }
    }

    /// The names that clients may use, for `filterableFields` of lists.
    pub fn public_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let public = |column: &&Column<C, R>| column.visibility != Visibility::Internal;
        self.all().filter(public).map(|column| column.name)
    }

    fn all(&self) -> impl Iterator<Item = &Column<C, R>> {
        self.shared.iter().chain(self.columns)
    }

    fn column(&self, symbol: SymbolId) -> Option<&Column<C, R>> {
        let place = usize::from(symbol.0);
        match place.checked_sub(self.shared.len()) {
            Some(place) => self.columns.get(place),
            None => self.shared.get(place),
        }
    }
}

impl<C, R> Schema for Symbols<C, R> {
    fn kind(&self) -> &str {
        self.kind
    }

    fn symbol(&self, name: &str) -> Option<Symbol> {
        let (place, column) = self.all().enumerate().find(|(_, column)| column.name == name)?;
        Some(Symbol {
            id: SymbolId(u16::try_from(place).ok()?),
            ty: column.ty,
            shape: column.shape(),
            visibility: column.visibility,
            index: column.index,
            numbers: column.numbers,
        })
    }

    fn linked(&self, symbol: SymbolId) -> Option<&dyn Schema> {
        let link = self.column(symbol)?.link.as_ref()?;
        Some(link.schema)
    }
}

/// A record with the symbols of its kind, and its context.
pub struct Row<'a, C: 'static, R: 'static> {
    symbols: &'static Symbols<C, R>,
    context: &'a C,
    record: &'a R,
}

impl<'a, C, R> Row<'a, C, R> {
    /// The record itself.
    pub fn record(&self) -> &'a R {
        self.record
    }
}

impl<C, R> Clone for Row<'_, C, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, R> Copy for Row<'_, C, R> {}

impl<C, R> Record for Row<'_, C, R> {
    fn id(&self) -> &str {
        (self.symbols.id)(self.record)
    }

    fn value(&self, symbol: SymbolId) -> Value<'_> {
        match self.symbols.column(symbol).map(|column| &column.get) {
            Some(Get::One(get)) => get(self.context, self.record),
            _ => Value::Null,
        }
    }

    fn keyed(&self, symbol: SymbolId, key: &str) -> Value<'_> {
        match self.symbols.column(symbol).map(|column| &column.get) {
            Some(Get::Map(get)) => get(self.context, self.record, key),
            _ => Value::Null,
        }
    }

    fn each(&self, symbol: SymbolId, visit: ValueVisitor<'_>) -> ControlFlow<()> {
        match self.symbols.column(symbol).map(|column| &column.get) {
            Some(Get::Set(get)) => get(self.context, self.record, visit),
            _ => ControlFlow::Continue(()),
        }
    }

    fn follow(&self, symbol: SymbolId, visit: RecordVisitor<'_>) -> ControlFlow<()> {
        match self.symbols.column(symbol).and_then(|column| column.link.as_ref()) {
            Some(link) => (link.follow)(self.context, self.record, visit),
            None => ControlFlow::Continue(()),
        }
    }
}
