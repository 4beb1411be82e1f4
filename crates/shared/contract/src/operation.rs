//! One operation of an API as a row of a table, for routing, the gate, clients and descriptions.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::body::{Body, Field};
use crate::headers;
use crate::permission::{Action, Subject};

/// The operation that answers in YAML to clients that accept it.
pub const SPEC_BODY: &str = "detailSpecBody";

/// HTTP methods in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE")]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// The name of the method in HTTP.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The callers that may run an operation (docs/protocol/management-api.md 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Public,
    /// Callers that passed the first factor.
    Partial,
    /// Callers that are fully authenticated.
    Authenticated,
    /// Administrators.
    Admin,
    /// Administrators, and callers that may read everything.
    AdminOrReadOnly,
    /// Administrators, and callers with the permission.
    Permission(Subject, Action),
    /// Administrators, and callers to whom the permission was granted by name: the permission to
    /// read everything does not suffice.
    Granted(Subject, Action),
}

/// The body that an operation accepts.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// No body.
    None,
    /// A JSON object with these members.
    Json(&'static [Field]),
    /// A JSON body, which may be missing.
    OptionalJson(&'static [Field]),
    /// A JSON array of objects with these members.
    JsonList(&'static [Field]),
    /// Plain text.
    Text,
    /// JSON or a bare PEM request, by media type (docs/protocol/auth.md 5.2).
    Enrollment(&'static [Field]),
}

/// The answer of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// A page of a list; the name of its entries in [`answers`](crate::resource::answers).
    List(&'static str),
    /// One thing; its name in [`answers`](crate::resource::answers).
    Detail(&'static str),
    /// `_links` and `id` of the new entity.
    Created,
    /// `{}`.
    Empty,
    /// A body without envelope, of this media type.
    Raw(&'static str),
}

/// The limits of an operation on the size of its body and on its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The limits of nearly all operations: a body of [`MAX_BODY`](crate::headers::MAX_BODY).
    Usual,
    /// The limits for a whole network, from a caller that may change one: a body of
    /// [`MAX_DOCUMENT`](crate::resource::change::MAX_DOCUMENT), and the time
    /// [`MAX_TIME`](crate::resource::change::MAX_TIME).
    Document,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The id in the API description; unique within an API.
    pub id: &'static str,
    /// The method.
    pub method: Method,
    /// The path below the base path of the API; `{id}` is a placeholder for one segment.
    pub path: &'static str,
    /// The callers that may run the operation.
    pub access: Access,
    /// Query parameters beside the paging of lists.
    pub query: &'static [&'static str],
    /// Whether the operation takes `limit`, `offset`, `filter` and `sort`.
    pub paged: bool,
    /// The body that the operation takes.
    pub request: Request,
    /// The answer.
    pub response: Response,
    /// The declared statuses; the first is that of success.
    pub statuses: &'static [u16],
    /// The limits on body and time.
    pub load: Load,
}

/// Why a path could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The number of ids differs from the number of placeholders.
    #[error("{path} takes {wanted} ids, not {given}")]
    Count {
        /// The template.
        path: &'static str,
        /// The number of placeholders.
        wanted: usize,
        /// The number of ids.
        given: usize,
    },
    /// An id that is no path segment: empty, `.` or `..`.
    #[error("an empty id, `.` and `..` cannot be part of {path}")]
    Segment {
        /// The template.
        path: &'static str,
    },
}

impl Operation {
    /// The number of placeholders in the path.
    #[must_use]
    pub fn places(&self) -> usize {
        self.path.split('/').filter(|segment| is_place(segment)).count()
    }

    /// The path with ids, escaped, in place of the placeholders.
    ///
    /// # Errors
    /// If the number of ids is wrong or one is no path segment.
    pub fn fill(&self, ids: &[&str]) -> Result<String, PathError> {
        let path = self.path;
        if ids.len() != self.places() {
            return Err(PathError::Count { path, wanted: self.places(), given: ids.len() });
        }
        if ids.iter().any(|id| matches!(*id, "" | "." | "..")) {
            return Err(PathError::Segment { path });
        }
        let mut ids = ids.iter();
        let segments = path.split('/').map(|segment| match is_place(segment) {
            true => ids.next().map(|id| escape(id)).unwrap_or_default(),
            false => segment.to_owned(),
        });
        Ok(segments.collect::<Vec<_>>().join("/"))
    }

    /// The ids of a path, still escaped, if the path is one of this operation.
    #[must_use]
    pub fn matches<'p>(&self, path: &'p str) -> Option<Vec<&'p str>> {
        let mut ids = Vec::new();
        let mut segments = path.split('/');
        for wanted in self.path.split('/') {
            let segment = segments.next()?;
            if is_place(wanted) && !segment.is_empty() {
                ids.push(segment);
            } else if wanted != segment {
                return None;
            }
        }
        segments.next().is_none().then_some(ids)
    }

    /// The media types that a body may have, the usual one first. An operation without a body accepts
    /// JSON, since consoles send a body with DELETE.
    #[must_use]
    pub const fn body_media(&self) -> &'static [&'static str] {
        match self.request {
            Request::None | Request::Json(_) | Request::OptionalJson(_) | Request::JsonList(_) => {
                &[headers::JSON]
            }
            // Some clients send a certificate under the type of PEM files, or without a type.
            Request::Text => &[headers::TEXT, headers::PEM, headers::BYTES],
            Request::Enrollment(_) => headers::ENROLL_TYPES,
        }
    }

    /// The media types that the answer can have, the usual one first.
    #[must_use]
    pub fn answer_media(&self) -> Vec<&'static str> {
        match self.response {
            Response::Raw(headers::JSON) if self.id == SPEC_BODY => {
                vec![headers::JSON, headers::YAML]
            }
            // A client that accepts JSON gets the error if there is no picture.
            Response::Raw(headers::PNG) => vec![headers::PNG, headers::JSON],
            Response::Raw(media) => vec![media],
            _ => vec![headers::JSON],
        }
    }

    /// The status of success.
    #[must_use]
    pub const fn success(&self) -> u16 {
        match self.statuses {
            [status, ..] => *status,
            [] => 200,
        }
    }

    /// This row with other statuses.
    #[must_use]
    pub const fn statuses(self, statuses: &'static [u16]) -> Self {
        Self { statuses, ..self }
    }

    /// This row with query parameters.
    #[must_use]
    pub const fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    /// This row without paging.
    #[must_use]
    pub const fn unpaged(self) -> Self {
        Self { paged: false, ..self }
    }

    /// This row with a JSON body.
    #[must_use]
    pub const fn takes<B: Body>(self) -> Self {
        Self { request: Request::Json(B::FIELDS), ..self }
    }

    /// This row with another form of body.
    #[must_use]
    pub const fn request(self, request: Request) -> Self {
        Self { request, ..self }
    }

    /// This row with the limits for whole networks.
    #[must_use]
    pub const fn takes_documents(self) -> Self {
        Self { load: Load::Document, ..self }
    }

    /// This row with another answer.
    #[must_use]
    pub const fn answers(self, response: Response) -> Self {
        Self { response, ..self }
    }
}

/// Query parameters of lists that can be narrowed by role.
pub const BY_ROLE: &[&str] = &["roleFilter", "roleSemantic"];

/// Statuses that most lists declare.
pub const LIST_STATUSES: &[u16] = &[200, 400, 401, 429, 503];
/// Statuses that most nested lists and details declare.
pub const DETAIL_STATUSES: &[u16] = &[200, 401, 404, 429, 503];
/// Statuses that most creates declare.
pub const CREATE_STATUSES: &[u16] = &[201, 400, 401, 429, 503];
/// Statuses that most changes declare.
pub const CHANGE_STATUSES: &[u16] = &[200, 400, 401, 404, 429, 503];
/// Statuses of deletes that are refused (409) while other entities name the entity.
pub const DELETE_STATUSES: &[u16] = &[200, 400, 401, 404, 409, 429, 503];

const fn row(id: &'static str, method: Method, path: &'static str, access: Access) -> Operation {
    Operation {
        id,
        method,
        path,
        access,
        query: &[],
        paged: false,
        request: Request::None,
        response: Response::Empty,
        statuses: CHANGE_STATUSES,
        load: Load::Usual,
    }
}

/// GET of a list with paging.
pub(crate) const fn list(
    id: &'static str,
    path: &'static str,
    access: Access,
    of: &'static str,
) -> Operation {
    let row = row(id, Method::Get, path, access);
    Operation { paged: true, response: Response::List(of), statuses: LIST_STATUSES, ..row }
}

/// GET of a list below an entity. The list has pages, although the original's description does not
/// say so.
pub(crate) const fn nested(
    id: &'static str,
    path: &'static str,
    access: Access,
    of: &'static str,
) -> Operation {
    list(id, path, access, of).statuses(DETAIL_STATUSES)
}

/// GET of one thing.
pub(crate) const fn detail(
    id: &'static str,
    path: &'static str,
    access: Access,
    of: &'static str,
) -> Operation {
    let row = row(id, Method::Get, path, access);
    Operation { response: Response::Detail(of), statuses: DETAIL_STATUSES, ..row }
}

/// POST of a new entity.
pub(crate) const fn create<B: Body>(
    id: &'static str,
    path: &'static str,
    access: Access,
) -> Operation {
    let row = row(id, Method::Post, path, access).takes::<B>();
    Operation { response: Response::Created, statuses: CREATE_STATUSES, ..row }
}

/// PUT of all of an entity.
pub(crate) const fn replace<B: Body>(
    id: &'static str,
    path: &'static str,
    access: Access,
) -> Operation {
    row(id, Method::Put, path, access).takes::<B>()
}

/// PATCH of parts of an entity.
pub(crate) const fn patch<B: Body>(
    id: &'static str,
    path: &'static str,
    access: Access,
) -> Operation {
    row(id, Method::Patch, path, access).takes::<B>()
}

/// DELETE.
pub(crate) const fn delete(id: &'static str, path: &'static str, access: Access) -> Operation {
    row(id, Method::Delete, path, access)
}

/// POST for an action on an entity.
pub(crate) const fn action(id: &'static str, path: &'static str, access: Access) -> Operation {
    row(id, Method::Post, path, access).statuses(DETAIL_STATUSES)
}

const fn is_place(segment: &str) -> bool {
    matches!(segment.as_bytes(), [b'{', .., b'}'])
}

/// Escapes all characters except those that RFC 3986 calls unreserved.
#[must_use]
pub fn escape(segment: &str) -> String {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(segment, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVICE: Operation =
        detail("x", "/identities/{id}/policy-advice/{serviceId}", Access::Admin, "policyAdvice");

    #[test]
    fn paths_are_filled_and_matched() {
        let path = ADVICE.fill(&[".a-b", "x/y ü"]).unwrap();
        assert_eq!(path, "/identities/.a-b/policy-advice/x%2Fy%20%C3%BC");
        assert_eq!(ADVICE.matches(&path).unwrap(), [".a-b", "x%2Fy%20%C3%BC"]);
        assert_eq!(ADVICE.matches("/identities//policy-advice/x"), None);
        assert_eq!(ADVICE.matches("/identities/x/policy-advice/y/z"), None);
        assert_eq!(ADVICE.matches("/identities/x/policy-advice"), None);
    }

    #[test]
    fn ids_that_would_change_the_path_are_refused() {
        for id in ["", ".", ".."] {
            assert!(matches!(ADVICE.fill(&["x", id]), Err(PathError::Segment { .. })));
        }
        assert!(matches!(ADVICE.fill(&["x"]), Err(PathError::Count { .. })));
    }
}
