//! The messages of etcd's API that weft uses: `proto/etcd.proto`. They are the bodies of gRPC.

#![allow(missing_docs, reason = "the fields are etcd's, and described in `proto/etcd.proto`")]

include!("../generated/weft.etcd.rs");
