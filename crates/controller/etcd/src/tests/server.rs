//! The log of a network in an etcd of a test.

use weft_test_etcd::Server;

use crate::{EtcdLog, EtcdOptions};

/// How the log is reached.
pub(super) trait Reach {
    fn options(&self) -> EtcdOptions;

    fn log(&self) -> EtcdLog {
        EtcdLog::new(self.options())
    }

    /// The log of another network.
    fn log_beside(&self, prefix: &str) -> EtcdLog {
        EtcdLog::new(EtcdOptions { prefix: format!("/{prefix}"), ..self.options() })
    }
}

impl Reach for Server {
    fn options(&self) -> EtcdOptions {
        EtcdOptions {
            endpoints: vec![self.endpoint()],
            tls: None,
            user: None,
            prefix: "/weft/".to_owned(),
            sealing: std::sync::Arc::new(crate::SealingKeys::new([(1, [7; 32])])),
        }
    }
}
