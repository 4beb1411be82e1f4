//! Carries clients to services by dials of the SDK.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use weft_sdk::{DialOptions, Endpoint, chain};
use weft_tunnel::{Call, Carrier, Client, Refusal};

use crate::{TrafficRegistry, carry};

/// Carries clients to services, as one identity.
#[derive(Debug)]
pub struct SdkCarrier {
    endpoint: Endpoint,
    traffic: Arc<TrafficRegistry>,
}

impl SdkCarrier {
    /// A carrier for the identity of this endpoint, which counts connections and bytes.
    #[must_use]
    pub fn new(endpoint: Endpoint, traffic: Arc<TrafficRegistry>) -> Arc<Self> {
        Arc::new(Self { endpoint, traffic })
    }
}

impl Carrier for SdkCarrier {
    fn carry(&self, call: Call) -> BoxFuture<'static, Result<(), Refusal>> {
        let (endpoint, traffic) = (self.endpoint.clone(), self.traffic.of(&call.service.name));
        async move {
            let mut options = DialOptions::new().app_data(call.app_data);
            options.instance = Some(call.instance).filter(|instance| !instance.is_empty());
            options.timeout = call.timeout;
            let connection = match endpoint.dial_with(&call.service.name, options).await {
                Ok(connection) => connection,
                Err(error) => {
                    traffic.failed();
                    return Err(Refusal::other(chain(&error)));
                }
            };
            // An open connection keeps the endpoint alive; no other handle is needed.
            drop(endpoint);
            let _open = traffic.opened();
            match call.client {
                Client::Tcp(stream) => carry::tcp(connection, stream, &traffic).await,
                Client::Udp(client) => carry::client_datagrams(connection, client, &traffic).await,
            }
            Ok(())
        }
        .boxed()
    }
}
