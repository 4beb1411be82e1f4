//! The fields of a kind, each declared once: `fields!` ties fields of the record to members of
//! the body, to members of the detail, and to symbols of filters. The merge of a body, the fields
//! that a replace keeps, the detail and the symbols follow from the table.
//!
//! ```text
//! fields! {
//!     Services of Service, set by ServiceBody, shown as ServiceDetail, searched as "services";
//!
//!     tags;
//!     name { set, shown, searched }
//!     terminator_strategy { set by strategy, shown, searched }
//!     is_fabric_only { kept, searched }
//!     max_idle_millis as max_idle_time_millis { set by idle_millis, shown }
//!     show permissions elsewhere;
//! }
//! ```
//!
//! A line with braces is a field of the record, with `as` and the field's name in the API if the
//! two names differ. A field is set by one of:
//!
//! - `set`: callers, by a member of the body. `set as service` names that member if its name
//!   differs, `on Create` leaves the field as it is in other verbs, `by rule` has a function
//!   `fn(&Member) -> Result<Field>` look at the value. A replace without the member makes
//!   the field empty, unless the field is `set on Create`.
//! - `kept`: the server. A replace leaves the field as it is.
//! - `merged`: [`Resource::merge`](super::resource::Resource::merge) of the kind, on every change.
//!   A replace begins with an empty field, unless the field is `kept` too.
//!
//! A field may be seen:
//!
//! - `shown`: in the detail, `as` a member of another name, `by` a function of the field.
//! - `searched`: in filters, `as` a symbol of another name, `indexed` by an index.
//!
//! Other lines are for members and symbols that are not fields: `tags;` if the body has tags;
//! `read` for members of the body that code of the kind reads; `show .. by` for members of the
//! detail that are found by a function of context and record, `show .. elsewhere` for members that
//! [`Readable::detail`](super::resource::Readable::detail) of the kind fills in; `search` for
//! symbols, by their path in the record (`search "primary.cert.allowed" in cert.allowed;`) or as a
//! column (`search Column::one("isOnline", Type::Bool, connected).public();`).
//!
//! Lists name their symbols in the order of the lines. A field of the record, a member of the body
//! or a member of the detail without a line does not compile.

use serde::Serialize;
use weft_contract::{Body, Verb};
use weft_kernel::Result;
use weft_model::entity::Record;
use weft_model::filter::Symbols;

use super::context::Context;

/// The functions that follow from the table of a kind; made by `fields!`.
pub trait Fields: Sized + Send + Sync + 'static {
    /// The entity in the model.
    type Record: Record + PartialEq + Send + Sync + 'static;
    /// The body of create, replace and patch.
    type Body: Body + Clone + Send + Sync + 'static;
    /// The answer to a read.
    type Detail: Serialize;

    /// The symbols of the kind in filters.
    const SYMBOLS: &'static Symbols<Context, Self::Record>;

    /// Copies the fields that a replace leaves as they are from the current record into a fresh
    /// one.
    fn keep(current: &Self::Record, fresh: &mut Self::Record);

    /// Puts the members of the body into the record. An absent member leaves its field as it is:
    /// default in a fresh record, current in a patched one.
    fn set(record: &mut Self::Record, body: &Self::Body, verb: Verb) -> Result<()>;

    /// The record as the API shows it; members that are filled in elsewhere are empty.
    fn show(context: &Context, record: &Self::Record) -> Self::Detail;
}

/// Calls a getter, whose types the compiler infers, because they are not in the table.
pub(crate) fn shown<R, T>(
    context: &Context,
    record: &R,
    getter: impl FnOnce(&Context, &R) -> T,
) -> T {
    getter(context, record)
}

/// Implements [`Fields`] for a kind. The comment of the module describes the lines.
///
/// The lines are read one by one, and in a line the facets one by one, into five lists: fields of
/// the record, fields that are kept, members of the body, members of the detail, symbols.
macro_rules! fields {
    (
        $kind:ident of $record:ident, set by $body:ident, shown as $detail:ident,
        searched as $symbols:tt; $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @line ($kind $record $body $detail $symbols) [] [] [] [] [] $($lines)*
        }
    };

    // Lines.
    (@line $of:tt $fields:tt $kept:tt [$($set:tt)*] $shown:tt $columns:tt
        tags; $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @line $of $fields $kept [$($set)* (tags base)] $shown $columns $($lines)*
        }
    };
    (@line $of:tt $fields:tt $kept:tt [$($set:tt)*] $shown:tt $columns:tt
        read $($member:ident),+; $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @line $of $fields $kept [$($set)* $(($member))+] $shown $columns $($lines)*
        }
    };
    (@line $of:tt $fields:tt $kept:tt $set:tt [$($shown:tt)*] $columns:tt
        show $($member:ident),+ elsewhere; $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @line $of $fields $kept $set
            [$($shown)* $(($member (|_, _| Default::default())))+] $columns $($lines)*
        }
    };
    (@line $of:tt $fields:tt $kept:tt $set:tt [$($shown:tt)*] $columns:tt
        show $member:ident by $getter:expr; $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @line $of $fields $kept $set [$($shown)* ($member $getter)] $columns $($lines)*
        }
    };
    (@line ($kind:ident $record:ident $($of:tt)*) $fields:tt $kept:tt $set:tt $shown:tt
        [$($columns:tt)*]
        search $name:literal in $($path:ident).+ $(indexed $index:expr)?; $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @line ($kind $record $($of)*) $fields $kept $set $shown
            [
                $($columns)*
                $crate::domain::values::column::<$record, _>(
                    $name,
                    |it| &it.$($path).+,
                    |_, it| weft_model::filter::Searched::value(&it.$($path).+),
                    |_, it, visit| weft_model::filter::Searched::each(&it.$($path).+, visit),
                )
                $(.indexed($index))?,
            ]
            $($lines)*
        }
    };
    (@line $of:tt $fields:tt $kept:tt $set:tt $shown:tt [$($columns:tt)*]
        search $column:expr; $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @line $of $fields $kept $set $shown [$($columns)* $column,] $($lines)*
        }
    };
    (@line $of:tt [$($fields:ident)*] $kept:tt $set:tt $shown:tt $columns:tt
        $field:ident $(as $name:ident)? { $($facets:tt)+ } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of [$($fields)* $field] $kept $set $shown $columns
            nobody $field [$($name)? $field] { $($facets)+, } $($lines)*
        }
    };

    // After the last line, all items are made from the lists.
    (@line ($kind:ident $record:ident $body:ident $detail:ident $symbols:tt)
        [$($field:ident)*] [$($kept:ident)*] [$(($member:ident $($set:tt)*))*]
        [$(($shown:ident $getter:expr))*] [$($column:expr,)*]
    ) => {
        impl $crate::domain::fields::Fields for $kind {
            type Record = $record;
            type Body = $body;
            type Detail = $detail;

            const SYMBOLS: &'static weft_model::filter::Symbols<
                $crate::domain::context::Context,
                $record,
            > = $crate::domain::fields::fields!(@symbols $record $symbols $($column,)*);

            fn keep(current: &$record, fresh: &mut $record) {
                let $record { base: _, $($field: _,)* } = current;
                let _ = &fresh;
                $(fresh.$kept.clone_from(&current.$kept);)*
            }

            fn set(
                record: &mut $record,
                body: &$body,
                verb: weft_contract::Verb,
            ) -> Result<(), weft_kernel::Failure> {
                let $body { $($member: _,)* } = body;
                let _ = (&record, verb);
                $($crate::domain::fields::fields!(@set record body verb $member $($set)*);)*
                Ok(())
            }

            fn show(context: &$crate::domain::context::Context, record: &$record) -> $detail {
                $detail {
                    base: weft_kernel::convert::base(
                        $kind::KIND.plural,
                        &record.base,
                        $kind::KIND.links,
                    ),
                    $($shown: $crate::domain::fields::shown(context, record, $getter),)*
                }
            }
        }
    };

    // Facets of a field, with its name in the API.
    (@facet $of:tt $fields:tt $kept:tt $set:tt $shown:tt $columns:tt
        somebody $field:ident $name:tt {} $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @line $of $fields $kept $set $shown $columns $($lines)*
        }
    };
    (@facet $of:tt $fields:tt $kept:tt $set:tt $shown:tt $columns:tt
        nobody $field:ident $name:tt {} $($lines:tt)*
    ) => {
        compile_error!(concat!(
            "who sets `", stringify!($field), "`? `set`, `kept` or `merged`"
        ));
    };
    (@facet $of:tt $fields:tt $kept:tt $set:tt $shown:tt $columns:tt
        $who:ident $field:ident $name:tt { merged, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept $set $shown $columns
            somebody $field $name { $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt [$($kept:ident)*] $set:tt $shown:tt $columns:tt
        $who:ident $field:ident $name:tt { kept, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields [$($kept)* $field] $set $shown $columns
            somebody $field $name { $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt [$($kept:ident)*] [$($set:tt)*] $shown:tt $columns:tt
        $who:ident $field:ident $name:tt
        { set as $member:ident on Create $(by $rule:path)?, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields [$($kept)* $field]
            [$($set)* ($member $field [Create] $($rule)?)] $shown $columns
            somebody $field $name { $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt $kept:tt [$($set:tt)*] $shown:tt $columns:tt
        $who:ident $field:ident $name:tt
        { set as $member:ident on $($verb:ident)|+ $(by $rule:path)?, $($facets:tt)* }
        $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept [$($set)* ($member $field [$($verb)+] $($rule)?)]
            $shown $columns somebody $field $name { $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt $kept:tt $set:tt $shown:tt $columns:tt
        $who:ident $field:ident $name:tt
        { set as $member:ident $(by $rule:path)?, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept $set $shown $columns $who $field $name
            { set as $member on Create | Replace | Patch $(by $rule)?, $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt $kept:tt $set:tt [$($shown:tt)*] $columns:tt
        $who:ident $field:ident $name:tt
        { shown as $member:ident, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept $set
            [$($shown)* ($member (|_, it| $crate::domain::values::Show::show(&it.$field)))]
            $columns $who $field $name { $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt $kept:tt $set:tt [$($shown:tt)*] $columns:tt
        $who:ident $field:ident $name:tt
        { shown as $member:ident by $getter:path, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept $set
            [$($shown)* ($member (|_, it| $getter(&it.$field)))]
            $columns $who $field $name { $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt $kept:tt $set:tt $shown:tt $columns:tt
        $who:ident $field:ident $name:tt
        { searched as $symbol:literal $(indexed $index:expr)?, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept $set $shown $columns $who $field $name
            { searched as ($symbol) $(indexed $index)?, $($facets)* } $($lines)*
        }
    };
    (@facet ($kind:ident $record:ident $($of:tt)*) $fields:tt $kept:tt $set:tt $shown:tt
        [$($columns:tt)*] $who:ident $field:ident $name:tt
        { searched as ($symbol:expr) $(indexed $index:expr)?, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet ($kind $record $($of)*) $fields $kept $set $shown
            [
                $($columns)*
                $crate::domain::values::column::<$record, _>(
                    $symbol,
                    |it| &it.$field,
                    |_, it| weft_model::filter::Searched::value(&it.$field),
                    |_, it, visit| weft_model::filter::Searched::each(&it.$field, visit),
                )
                $(.indexed($index))?,
            ]
            $who $field $name { $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt $kept:tt $set:tt $shown:tt $columns:tt
        $who:ident $field:ident [$name:ident $($names:ident)*]
        { searched $(indexed $index:expr)?, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept $set $shown $columns $who $field [$name $($names)*]
            {
                searched as (const { &weft_contract::schema::camel(stringify!($name)) }.as_str())
                $(indexed $index)?, $($facets)*
            }
            $($lines)*
        }
    };
    // `set` and `shown` without a name after `as`.
    (@facet $of:tt $fields:tt $kept:tt $set:tt $shown:tt $columns:tt
        $who:ident $field:ident [$name:ident $($names:ident)*]
        { $facet:ident, $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept $set $shown $columns $who $field [$name $($names)*]
            { $facet as $name, $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt $kept:tt $set:tt $shown:tt $columns:tt
        $who:ident $field:ident [$name:ident $($names:ident)*]
        { $facet:ident on $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept $set $shown $columns $who $field [$name $($names)*]
            { $facet as $name on $($facets)* } $($lines)*
        }
    };
    (@facet $of:tt $fields:tt $kept:tt $set:tt $shown:tt $columns:tt
        $who:ident $field:ident [$name:ident $($names:ident)*]
        { $facet:ident by $($facets:tt)* } $($lines:tt)*
    ) => {
        $crate::domain::fields::fields! {
            @facet $of $fields $kept $set $shown $columns $who $field [$name $($names)*]
            { $facet as $name by $($facets)* } $($lines)*
        }
    };

    // A member of the body: read elsewhere, the tags, or the value of a field.
    (@set $record:ident $body:ident $verb:ident $member:ident) => {};
    (@set $record:ident $body:ident $verb:ident tags base) => {
        if let Some(tags) = &$body.tags {
            $record.base.tags = $crate::domain::values::Take::take(tags, "tags")?;
        }
    };
    (@set $record:ident $body:ident $verb:ident $member:ident $field:ident [$($on:ident)+]) => {
        if let (Some(given), $(weft_contract::Verb::$on)|+) = (&$body.$member, $verb) {
            let name = const { &weft_contract::schema::camel(stringify!($member)) }.as_str();
            $record.$field = $crate::domain::values::Take::take(given, name)?;
        }
    };
    (@set
        $record:ident $body:ident $verb:ident $member:ident $field:ident [$($on:ident)+] $rule:path
    ) => {
        if let (Some(given), $(weft_contract::Verb::$on)|+) = (&$body.$member, $verb) {
            $record.$field = $rule(given)?;
        }
    };

    // The symbols: the table of this kind, or the table of another kind.
    (@symbols $record:ident $name:literal $($column:expr,)*) => {{
        // The columns are written without their types.
        #[allow(dead_code)]
        type Column = weft_model::filter::Column<$crate::domain::context::Context, $record>;
        #[allow(unused_imports)]
        use weft_model::filter::{Type, Value};
        static SYMBOLS: weft_model::filter::Symbols<$crate::domain::context::Context, $record> =
            $crate::domain::symbols::symbols($name, &[$($column,)*]);
        &SYMBOLS
    }};
    (@symbols $record:ident (those of $other:path)) => {
        <$other as $crate::domain::fields::Fields>::SYMBOLS
    };
}
pub(crate) use fields;

#[cfg(test)]
mod tests {
    use weft_model::Id;
    use weft_model::entity::{Precedence, Service, Terminator};

    use super::Fields as _;
    use crate::domain::resources::service::Services;
    use crate::domain::resources::terminator::Terminators;

    #[test]
    fn a_replace_begins_with_what_callers_cannot_set() {
        let current = Terminator {
            cost: 7,
            service_id: Id::new("web"),
            host_id: Id::new("laptop"),
            saved_precedence: Some(Precedence::Required),
            ..Terminator::default()
        };
        let mut fresh = Terminator::default();
        Terminators::keep(&current, &mut fresh);
        assert_eq!(fresh, Terminator { cost: 0, ..current });
    }

    #[test]
    fn symbols_are_in_the_order_of_the_lines() {
        let names: Vec<_> = Services::SYMBOLS.public_names().collect();
        let (base, own) = names.split_at(5);
        assert_eq!(base, ["id", "createdAt", "updatedAt", "isSystem", "tags"]);
        let lines = ["name", "terminatorStrategy", "roleAttributes", "configs", "isFabricOnly"];
        assert_eq!(own, [&lines[..], &["authenticatedEnds"]].concat());
        let record = Service { max_idle_millis: 5, is_fabric_only: true, ..Service::default() };
        let mut fresh = Service::default();
        Services::keep(&record, &mut fresh);
        assert_eq!(fresh, Service { is_fabric_only: true, ..Service::default() });
    }
}
