//! Requests to etcd, and what its answers hold.

use bytes::Bytes;
use weft_wire::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use weft_wire::etcd::range_request::{SortOrder, SortTarget};
use weft_wire::etcd::request_op::Request;
use weft_wire::etcd::response_op::Response;
use weft_wire::etcd::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse, RequestOp,
    ResponseOp, TxnResponse,
};

pub(crate) fn range(key: Bytes, range_end: Bytes, limit: i64) -> RangeRequest {
    RangeRequest {
        key,
        range_end,
        limit,
        sort_order: SortOrder::Ascend as i32,
        sort_target: SortTarget::Key as i32,
        ..RangeRequest::default()
    }
}

pub(crate) fn get(key: Bytes) -> RangeRequest {
    RangeRequest { key, ..RangeRequest::default() }
}

pub(crate) fn put(key: Bytes, value: Bytes) -> PutRequest {
    PutRequest { key, value, lease: 0 }
}

/// Puts a key that goes when the lease ends.
pub(crate) fn put_leased(key: Bytes, value: Bytes, lease: i64) -> PutRequest {
    PutRequest { key, value, lease }
}

pub(crate) fn delete((key, range_end): (Bytes, Bytes)) -> DeleteRangeRequest {
    DeleteRangeRequest { key, range_end }
}

/// A request of a transaction.
pub(crate) fn op(request: impl Into<Request>) -> RequestOp {
    RequestOp { request: Some(request.into()) }
}

/// Holds if the key was changed last at this revision of etcd; 0 for a key that does not exist.
pub(crate) fn compare_revision(key: Bytes, mod_revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Mod as i32,
        key,
        target_union: Some(TargetUnion::ModRevision(mod_revision)),
    }
}

/// Holds if the key has this value.
pub(crate) fn compare_value(key: Bytes, value: Bytes) -> Compare {
    Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Value as i32,
        key,
        target_union: Some(TargetUnion::Value(value)),
    }
}

/// Holds if the key exists.
pub(crate) fn compare_presence(key: Bytes) -> Compare {
    Compare {
        result: CompareResult::Greater as i32,
        target: CompareTarget::Create as i32,
        key,
        target_union: Some(TargetUnion::CreateRevision(0)),
    }
}

/// The keys and values that the request of this number of a transaction has read.
pub(crate) fn read(answer: &TxnResponse, number: usize) -> &[KeyValue] {
    match answer.responses.get(number) {
        Some(ResponseOp { response: Some(Response::ResponseRange(RangeResponse { kvs, .. })) }) => {
            kvs
        }
        _ => &[],
    }
}

/// The number of etcd's last change when it answered.
pub(crate) fn revision_of(header: Option<&weft_wire::etcd::ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}
