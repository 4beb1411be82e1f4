//! The members of a kind, each declared once: for the body that callers send, and for the detail in
//! answers.

/// Declares the body and the detail of a kind by their members.
///
/// A line begins with a [`Need`](crate::shape::Need), for a member of the body, or with `Shown`,
/// for a member of the detail alone. A member of the body that ends with `shown` is a member of the
/// detail, too: `shown "Its meaning there."` if the comment in the detail is another one,
/// `shown as Type` if the type is.
///
/// ```text
/// members! {
///     /// The body of a door.
///     body DoorBody;
///     /// A door.
///     detail DoorDetail with Base;
///
///     /// The name; unique among doors.
///     Both name: String, shown "The name.";
///     /// Whether somebody is in it.
///     Shown is_blocked: bool;
/// }
/// ```
///
/// The rest of a line is that of [`body!`](crate::body), or of [`detail!`](crate::entity). The name
/// in JSON is the camel case of the member, or stands before it: `Both "type" door_type: DoorType`.
macro_rules! members {
    (
        $(#[$($body_about:tt)*])+
        body $body:ident;
        $(#[$($detail_about:tt)*])+
        detail $detail:ident $(with $base:ident)?;
        $($lines:tt)*
    ) => {
        $crate::members::members! {
            @line {
                ($(#[$($body_about)*])+ pub struct $body)
                ($(#[$($detail_about)*])+ pub struct $detail $(with $base)?)
                [] []
            }
            $($lines)*
        }
    };

    // A member of both becomes a member of the body and a member of the detail.
    (@line $both:tt
        $(#[$($about:tt)*])+
        $need:ident $($json:literal)? $member:ident: $type:ty
            $(=> $names:literal)? $(as $shape:expr)?, shown;
        $($lines:tt)*
    ) => {
        $crate::members::members! {
            @line $both
            $(#[$($about)*])+ $need $($json)? $member: $type $(=> $names)? $(as $shape)?;
            $(#[$($about)*])+ Shown $member: $type;
            $($lines)*
        }
    };
    (@line $both:tt
        $(#[$($about:tt)*])+
        $need:ident $($json:literal)? $member:ident: $type:ty
            $(=> $names:literal)? $(as $shape:expr)?, shown as $shown:ty;
        $($lines:tt)*
    ) => {
        $crate::members::members! {
            @line $both
            $(#[$($about)*])+ $need $($json)? $member: $type $(=> $names)? $(as $shape)?;
            $(#[$($about)*])+ Shown $member: $shown;
            $($lines)*
        }
    };
    (@line $both:tt
        $(#[$($about:tt)*])+
        $need:ident $($json:literal)? $member:ident: $type:ty
            $(=> $names:literal)? $(as $shape:expr)?, shown $shown_about:literal;
        $($lines:tt)*
    ) => {
        $crate::members::members! {
            @line $both
            $(#[$($about)*])+ $need $($json)? $member: $type $(=> $names)? $(as $shape)?;
            #[doc = $shown_about] Shown $member: $type;
            $($lines)*
        }
    };
    (@line $both:tt
        $(#[$($about:tt)*])+
        $need:ident $($json:literal)? $member:ident: $type:ty
            $(=> $names:literal)? $(as $shape:expr)?, shown $shown_about:literal as $shown:ty;
        $($lines:tt)*
    ) => {
        $crate::members::members! {
            @line $both
            $(#[$($about)*])+ $need $($json)? $member: $type $(=> $names)? $(as $shape)?;
            #[doc = $shown_about] Shown $member: $shown;
            $($lines)*
        }
    };

    // A member of the body or of the detail alone.
    (@line { $body:tt $detail:tt $set:tt [$($shown:tt)*] }
        $(#[$($about:tt)*])+ Shown $member:ident: $type:ty; $($lines:tt)*
    ) => {
        $crate::members::members! {
            @line {
                $body $detail $set [$($shown)* $(#[$($about)*])+ pub $member: $type,]
            }
            $($lines)*
        }
    };
    (@line { $body:tt $detail:tt [$($set:tt)*] $shown:tt }
        $(#[$($about:tt)*])+
        $need:ident $($json:literal)? $member:ident: $type:ty
            $(=> $names:literal)? $(as $shape:expr)?;
        $($lines:tt)*
    ) => {
        $crate::members::members! {
            @line {
                $body $detail
                [
                    $($set)*
                    $(#[$($about)*])+ $need $($json)? $member: $type
                        $(=> $names)? $(as $shape)?,
                ]
                $shown
            }
            $($lines)*
        }
    };
    (@line {
        ($($body:tt)*) ($($detail:tt)*) [$($set:tt)*] [$($shown:tt)*]
    }) => {
        $crate::body::body! { $($body)* { $($set)* } }
        $crate::entity::detail! { $($detail)* { $($shown)* } }
    };
}
pub(crate) use members;
