//! Finds the operation of a path and a method: an index of the contract's operations.

use std::collections::HashMap;

use hyper::Method as HttpMethod;
use hyper::header::{ALLOW, HeaderValue};
use weft_contract::{Api, ErrorCode, Method, Operation, resource};

use crate::answer::Refused;
use crate::paths::unescape;

/// The APIs that consist of operations.
pub(crate) const REST: [Api; 4] = [Api::Management, Api::Client, Api::Fabric, Api::Weft];

/// The operations of each API, by first segment and number of segments.
#[derive(Debug)]
pub(crate) struct Routes(HashMap<(Api, &'static str, usize), Vec<&'static Operation>>);

/// An operation, and the ids in its path.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) row: &'static Operation,
    pub(crate) ids: Vec<String>,
}

/// The reason for which there is no operation.
#[derive(Debug, PartialEq)]
pub(crate) enum Missing {
    /// No operation has this path.
    Path,
    /// Operations have this path, with these methods only.
    Method(String),
}

impl From<Missing> for Refused {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Path => ErrorCode::NotFound.into(),
            // RFC 9110 15.5.6 requires the header `Allow`.
            Missing::Method(methods) => {
                let refused = Self::from(ErrorCode::MethodNotAllowed);
                match HeaderValue::from_str(&methods) {
                    Ok(methods) => refused.with(ALLOW, methods),
                    Err(_) => refused,
                }
            }
        }
    }
}

impl Routes {
    pub(crate) fn new() -> Self {
        let mut routes: HashMap<_, Vec<_>> = HashMap::new();
        for api in REST {
            for row in resource::operations(api) {
                let (first, length) = shape(row.path);
                routes.entry((api, first, length)).or_default().push(row);
            }
        }
        // A fixed segment has priority over a placeholder.
        routes.values_mut().for_each(|rows| rows.sort_by_key(|row| row.places()));
        Self(routes)
    }

    /// The methods of a path below the base of an API, in the form of `Allow`. Descriptions can
    /// only be read.
    pub(crate) fn methods(&self, api: Api, path: &str, is_description: bool) -> String {
        match self.find(api, &HttpMethod::OPTIONS, path) {
            Err(Missing::Method(methods)) => methods,
            _ if is_description => allowed(&[Method::Get]),
            _ => allowed(&[]),
        }
    }

    /// Finds the operation of a method and a path below the base of an API.
    pub(crate) fn find(&self, api: Api, method: &HttpMethod, path: &str) -> Result<Found, Missing> {
        let (first, length) = shape(path);
        let rows = self.0.get(&(api, first, length)).ok_or(Missing::Path)?;
        let mut others = Vec::new();
        for row in rows {
            let Some(ids) = row.matches(path) else { continue };
            if is(row.method, method) {
                let ids = ids.into_iter().map(unescape).collect::<Option<_>>();
                return Ok(Found { row, ids: ids.ok_or(Missing::Path)? });
            }
            others.push(row.method);
        }
        match others.is_empty() {
            true => Err(Missing::Path),
            false => Err(Missing::Method(allowed(&others))),
        }
    }
}

/// Methods in the form of `Allow`, with those that every path has.
fn allowed(own: &[Method]) -> String {
    let with_head = own.iter().flat_map(|method| match method {
        Method::Get => &["GET", "HEAD"][..],
        Method::Post => &["POST"],
        Method::Put => &["PUT"],
        Method::Patch => &["PATCH"],
        Method::Delete => &["DELETE"],
    });
    let all: Vec<_> = with_head.copied().chain(["OPTIONS"]).collect();
    all.join(", ")
}

/// The first segment of a path, and the number of segments.
fn shape(path: &str) -> (&str, usize) {
    let mut segments = path.trim_start_matches('/').split('/');
    let first = segments.next().unwrap_or_default();
    (first, segments.count())
}

/// Whether a request method means this method. HEAD counts as GET; the server leaves out the body.
fn is(own: Method, asked: &HttpMethod) -> bool {
    own.as_str() == asked.as_str() || (own == Method::Get && asked == HttpMethod::HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_own_path() {
        let routes = Routes::new();
        for api in REST {
            for row in resource::operations(api) {
                let ids = vec!["a%2Fb"; row.places()];
                let path = row.fill(&vec!["a/b"; row.places()]).unwrap();
                let method = HttpMethod::from_bytes(row.method.as_str().as_bytes()).unwrap();
                let found = routes.find(api, &method, &path).unwrap();
                assert_eq!(found.row.id, row.id, "{api} {path}");
                assert_eq!(found.ids.len(), ids.len());
                assert!(found.ids.iter().all(|id| id == "a/b"));
            }
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let routes = Routes::new();
        let find = |method, path| routes.find(Api::Management, &method, path).unwrap_err();
        assert_eq!(find(HttpMethod::GET, "/nothing"), Missing::Path);
        assert_eq!(find(HttpMethod::GET, "/services/x/y/z"), Missing::Path);
        assert_eq!(find(HttpMethod::GET, "/services/%ff"), Missing::Path);
        assert_eq!(
            find(HttpMethod::DELETE, "/services"),
            Missing::Method("GET, HEAD, POST, OPTIONS".into())
        );
        assert!(routes.find(Api::Management, &HttpMethod::HEAD, "/services").is_ok());
        let methods = |path, is_description| routes.methods(Api::Management, path, is_description);
        assert_eq!(methods("/services/x", false), "GET, HEAD, PUT, PATCH, DELETE, OPTIONS");
        assert_eq!(methods("/docs", true), "GET, HEAD, OPTIONS");
        assert_eq!(methods("/nothing", false), "OPTIONS");
    }
}
