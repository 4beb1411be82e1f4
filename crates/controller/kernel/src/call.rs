//! An operation and its reply, without HTTP.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Serialize;
use weft_contract::envelope::Envelope;
use weft_contract::{Api, Body, Created, Empty, Meta, Operation, Pagination, Verb, body, headers};

use super::caller::Caller;
use crate::failure::{Failure, Result};
use crate::wait::Wait;

/// A request to run an operation.
#[derive(Debug, Clone)]
pub struct Call {
    /// The API of the request.
    pub api: Api,
    /// The operation.
    pub row: &'static Operation,
    /// The ids in the path of the request, unescaped, in order.
    pub path: Vec<String>,
    /// The query parameters of the request.
    pub query: QueryParameters,
    /// The body of the request; empty if there is none.
    pub body: Bytes,
    /// The media type of the body, without parameters.
    pub media: Option<String>,
    /// Request headers that operations may read, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The wait of the client for the answer.
    pub wait: Wait,
}

impl Call {
    /// A call without query and body.
    pub fn new(api: weft_contract::Api, row: &'static Operation, path: &[&str]) -> Self {
        Self {
            api,
            row,
            path: path.iter().map(|id| (*id).to_owned()).collect(),
            query: QueryParameters::default(),
            body: Bytes::new(),
            media: None,
            headers: Vec::new(),
            wait: Wait::default(),
        }
    }

    /// A call of the operation with this id; none if there is no such operation.
    pub fn to(api: weft_contract::Api, operation: &str, path: &[&str]) -> Option<Self> {
        weft_contract::resource::operation(api, operation).map(|row| Self::new(api, row, path))
    }

    /// Adds a JSON body.
    #[must_use]
    pub fn with_json(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(body).map(Bytes::from).unwrap_or_default();
        self.media = Some("application/json".into());
        self
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn with_query(mut self, name: &str, value: &str) -> Self {
        self.query.0.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The id at an index of the path; empty if the path has none, which no entity has as its id.
    pub fn id(&self, place: usize) -> &str {
        self.path.get(place).map(String::as_str).unwrap_or_default()
    }

    /// The value of a header, named in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The bearer tokens of the request, in order.
    pub fn bearers(&self) -> impl Iterator<Item = &str> + Clone {
        let values = self.headers.iter().filter(|(own, _)| own == headers::AUTHORIZATION);
        values.filter_map(|(_, value)| headers::bearer(value))
    }

    /// Parses the body for a verb.
    pub fn decode<B: Body>(&self, verb: Verb) -> Result<B> {
        Ok(body::decode(&self.body, verb)?)
    }

    /// Parses the body, which may be missing.
    pub fn decode_optional<B: Body>(&self, verb: Verb) -> Result<B> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(B::default());
        }
        self.decode(verb)
    }
}

/// Query parameters in the order of the request.
#[derive(Debug, Clone, Default)]
pub struct QueryParameters(pub Vec<(String, String)>);

impl QueryParameters {
    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter.
    pub fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// The reply of an operation that succeeded.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The contents of the body.
    pub content: Content,
    /// Response headers beside those of every reply.
    pub headers: Vec<(&'static str, String)>,
}

/// The contents of a body.
#[derive(Debug)]
pub enum Content {
    /// The usual envelope.
    Data {
        /// `data`, as JSON.
        data: String,
        /// `meta`.
        meta: Meta,
    },
    /// A body without envelope.
    Raw {
        /// The media type of the body.
        media: &'static str,
        /// The bytes of the body.
        body: Bytes,
    },
}

impl Reply {
    fn envelope(data: &impl Serialize, meta: Meta, status: u16) -> Result<Self> {
        let data =
            serde_json::to_string(data).map_err(|error| Failure::unhandled(error.to_string()))?;
        Ok(Self { status, content: Content::Data { data, meta }, headers: Vec::new() })
    }

    /// The reply for a new entity, with `data` that is JSON already.
    pub fn created_as(data: String) -> Self {
        let content = Content::Data { data, meta: Meta::versions() };
        Self { status: 201, content, headers: Vec::new() }
    }

    /// A reply with one object, which is this JSON.
    pub fn detail_as(data: String) -> Self {
        Self { status: 200, ..Self::created_as(data) }
    }

    /// A reply with one object.
    pub fn detail(data: &impl Serialize) -> Result<Self> {
        Self::envelope(data, Meta::versions(), 200)
    }

    /// A reply with one object and with this `meta`.
    pub fn detail_with(data: &impl Serialize, meta: Meta) -> Result<Self> {
        Self::envelope(data, meta, 200)
    }

    /// A reply with one page of a list.
    pub fn list(
        data: &[impl Serialize],
        pagination: Pagination,
        filterable: Vec<String>,
    ) -> Result<Self> {
        let meta = Envelope::page(Vec::<()>::new(), pagination, filterable).meta;
        Self::envelope(&data, meta, 200)
    }

    /// The same list, of which further matches were not looked at, and parts of these controllers are missing.
    #[must_use]
    pub fn with_more(mut self, matches: u64, missing: Vec<String>) -> Self {
        if let Content::Data { meta, .. } = &mut self.content {
            if let Some(pagination) = &mut meta.pagination {
                let more = i64::try_from(matches).unwrap_or(i64::MAX);
                pagination.total_count = pagination.total_count.saturating_add(more);
            }
            meta.missing_controllers = missing;
        }
        self
    }

    /// A reply with a list without pages.
    pub fn whole_list(data: &[impl Serialize]) -> Result<Self> {
        let count = data.len() as i64;
        let pagination = Pagination { limit: count, offset: 0, total_count: count };
        Self::list(data, pagination, Vec::new())
    }

    /// The reply for a new entity: its id and a link.
    pub fn created(collection: &str, id: &str) -> Result<Self> {
        Self::envelope(&Created::at(collection, id), Meta::versions(), 201)
    }

    /// The reply for a new entity with a body of its own.
    pub fn created_with(data: &impl Serialize) -> Result<Self> {
        Self::envelope(data, Meta::versions(), 201)
    }

    /// A reply with the body `{}`.
    pub fn empty() -> Result<Self> {
        Self::envelope(&Empty {}, Meta::versions(), 200)
    }

    /// A reply without envelope.
    pub fn raw(media: &'static str, body: impl Into<Bytes>) -> Self {
        let content = Content::Raw { media, body: body.into() };
        Self { status: 200, content, headers: Vec::new() }
    }

    /// Replaces the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a response header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// `data` as a value; null for a reply without envelope.
    pub fn data(&self) -> serde_json::Value {
        match &self.content {
            Content::Data { data, .. } => serde_json::from_str(data).unwrap_or_default(),
            Content::Raw { .. } => serde_json::Value::Null,
        }
    }

    /// `meta`, if there is an envelope.
    pub fn meta(&self) -> Option<&Meta> {
        match &self.content {
            Content::Data { meta, .. } => Some(meta),
            Content::Raw { .. } => None,
        }
    }
}

/// A running operation, whose caller has passed the gate.
pub type ReplyFuture = BoxFuture<'static, Result<Reply>>;

/// The handler of an operation, an async function; `C` is the part of the controller that it needs.
pub trait OperationHandler<C>: Send + Sync {
    /// Runs the operation.
    fn run(&self, controller: C, caller: Caller, call: Call) -> ReplyFuture;
}

impl<C, F, R> OperationHandler<C> for F
where
    F: Fn(C, Caller, Call) -> R + Send + Sync,
    R: Future<Output = Result<Reply>> + Send + 'static,
{
    fn run(&self, controller: C, caller: Caller, call: Call) -> ReplyFuture {
        self(controller, caller, call).boxed()
    }
}

/// A row of a table of handlers: the API, the id of the operation, and its handler.
pub type HandlerRow<C> = (Api, &'static str, &'static dyn OperationHandler<C>);
