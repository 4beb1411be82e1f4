//! A router before a controller that is made of a table, and applications on loopback.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, Weak};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use weft_e2e::ends::StatementReply;
use weft_limits::Budget;
use weft_wire::ctrl::{Route, Unroute};

use super::super::*;
use super::proving;
use crate::bindings::transport::{self, Dialer};
use crate::forwarder::Timers;
use crate::seam::{
    CircuitRequest, ControllerId, Egress, EndRequest, Forward, ForwardKind, TerminatorRequest,
    TerminatorUpdate, TunnelCircuitRequest,
};

pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("took too long")
}

pub(super) async fn until(mut done: impl FnMut() -> bool) {
    soon(async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A controller: services by name, with the binding and the address that each is.
#[derive(Default)]
pub(super) struct Table {
    pub(super) this: OnceLock<Weak<Table>>,
    pub(super) forwarder: OnceLock<Weak<Forwarder>>,
    pub(super) services: Mutex<HashMap<String, (&'static str, String)>>,
    pub(super) asked: AtomicU32,
    pub(super) tls: Mutex<Option<Arc<rustls::ClientConfig>>>,
}

impl Table {
    pub(super) async fn circuit(
        &self,
        request: BindingCircuitRequest,
    ) -> Result<NewCircuit, Refusal> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let service = self.services.lock().get(&request.service).cloned();
        if request.service == "silent" {
            std::future::pending::<()>().await;
        }
        let (binding, destination) = service.ok_or_else(|| Refusal::plain("no such service"))?;
        let forwarder = self.forwarder.get().and_then(Weak::upgrade).unwrap();
        let controller: ControllerId = "ctrl".into();
        let (id, ingress, egress) =
            (format!("circuit{number}"), format!("in{number}"), format!("out{number}"));
        let route = Route { circuit_id: id.clone(), ..Route::default() };
        let set_up = forwarder.begin(&controller, &route, true);
        let set_up = set_up.unwrap();
        let end = Options::default();
        let tls = self.tls.lock().clone();
        let dialer = Dialer { end, connect_timeout: None, peer_timeout: None, tls };
        let egress = Egress {
            binding: binding.to_owned(),
            address: egress,
            destination,
            peer_data: request.peer_data,
            trace: None,
        };
        let dialed = match egress.binding.starts_with("proving") {
            true => Ok(self.proving(&forwarder, set_up.circuit(), &egress).await),
            false => transport::dial(&forwarder, set_up.circuit(), &egress, LONG, &dialer).await,
        };
        let peer_data = dialed.map_err(|failure| Refusal::plain(failure.text))?;
        let forward = |source: &str, destination: &str, kind| Forward {
            source: source.to_owned(),
            destination: destination.to_owned(),
            kind,
        };
        let forwards = [
            forward(&ingress, &egress.address, ForwardKind::End),
            forward(&egress.address, &ingress, ForwardKind::Start),
        ];
        set_up.route(&forwards).unwrap();
        Ok(NewCircuit { id, address: ingress, peer_data, controller })
    }
}

impl Control for Table {
    fn create_circuit(&self, _: CircuitRequest) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        async { Err(Refusal::plain("not here")) }.boxed()
    }

    fn state_end(&self, request: EndRequest) -> BoxFuture<'static, StatementReply> {
        std::future::ready(proving::stated(request)).boxed()
    }

    fn create_tunnel_circuit(
        &self,
        _: TunnelCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        async { Err(Refusal::plain("not here")) }.boxed()
    }

    fn create_binding_circuit(
        &self,
        request: BindingCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        let this = self.this.get().and_then(Weak::upgrade).unwrap();
        async move { this.circuit(request).await }.boxed()
    }

    fn create_terminator(&self, _: TerminatorRequest) -> BoxFuture<'static, Result<(), Refusal>> {
        async { Err(Refusal::plain("not here")) }.boxed()
    }

    fn update_terminator(&self, _: &str, _: TerminatorUpdate) {}
    fn remove_terminators(&self, _: Vec<String>) {}
    fn health_event(&self, _: &str, _: bool) {}
    fn circuit_ended(&self, _: &ControllerId, circuit: &str, _: Role, _: Option<u32>) {
        if let Some(forwarder) = self.forwarder.get().and_then(Weak::upgrade) {
            let unroute = Unroute { circuit_id: circuit.to_owned(), now: true, term: 0 };
            forwarder.unroute(&"ctrl".into(), &unroute).unwrap();
        }
    }
    fn forward_faults(&self, _: Option<&ControllerId>, _: Vec<String>) {}
    fn is_connected(&self, _: &ControllerId) -> bool {
        true
    }
    fn idle_circuits(&self, _: &ControllerId, _: Vec<(String, Duration)>) {}
    fn circuits_taken(&self, _: &ControllerId, _: Vec<String>) {}
    fn link_fault(&self, _: &str, _: u32) {}
    fn validate_service_sessions(&self, _: &ControllerId, _: Vec<String>) {}
    fn identity_connections(&self, _: &str, _: usize) {}
}

/// A router with its controller.
pub(super) struct Bed {
    pub(super) table: Arc<Table>,
    pub(super) forwarder: Arc<Forwarder>,
    pub(super) stop: CancellationToken,
    pub(super) draining: CancellationToken,
}

impl Bed {
    pub(super) fn new() -> Self {
        let table = Arc::new(Table::default());
        table.this.set(Arc::downgrade(&table)).unwrap();
        let timers = Timers::start(&tokio::runtime::Handle::current());
        let forwarder = Forwarder::new(table.clone(), timers, Budget::new(64 << 20), LONG);
        table.forwarder.set(Arc::downgrade(&forwarder)).unwrap();
        let stop = CancellationToken::new();
        Self { table, forwarder, draining: stop.child_token(), stop }
    }

    pub(super) fn service(&self, name: &str, binding: &'static str, address: String) {
        self.table.services.lock().insert(name.to_owned(), (binding, address));
    }

    pub(super) fn ingress(&self, service: Option<&str>) -> Arc<Ingress> {
        let options = IngressOptions {
            threads: weft_channel::Threads::of(tokio::runtime::Handle::current()),
            name: "test".into(),
            service: service.map(str::to_owned),
            end: Options::default(),
            circuit_timeout: LONG,
            peer_timeout: None,
        };
        Ingress::new(self.forwarder.clone(), self.table.clone(), options)
    }

    pub(super) async fn streams(&self, service: Option<&str>) -> SocketAddr {
        self.tls_streams(service, None).await
    }

    pub(super) async fn tls_streams(
        &self,
        service: Option<&str>,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> SocketAddr {
        let limits = StreamLimits { patience: Duration::from_secs(2), ..StreamLimits::default() };
        self.limited_streams(service, tls, limits).await
    }

    pub(super) async fn limited_streams(
        &self,
        service: Option<&str>,
        tls: Option<Arc<rustls::ServerConfig>>,
        limits: StreamLimits,
    ) -> SocketAddr {
        let address = "tcp:127.0.0.1:0".parse().unwrap();
        let listener = bind_streams(&address).await.unwrap();
        let bound = listener.local_addr().unwrap();
        let ingress = self.ingress(service);
        tokio::spawn(serve_streams(ingress, listener, tls, limits, self.stop.clone()));
        bound
    }

    pub(super) async fn datagrams(
        &self,
        service: Option<&str>,
        limits: DatagramLimits,
    ) -> SocketAddr {
        let address = "udp4:127.0.0.1:0".parse().unwrap();
        let socket = bind_datagrams(&address).await.unwrap();
        let bound = socket.local_addr().unwrap();
        let ingress = self.ingress(service);
        let ends = DatagramEnds { draining: self.draining.clone(), stop: self.stop.clone() };
        tokio::spawn(serve_datagrams(ingress, socket, limits, ends));
        bound
    }

    /// Waits until nothing is left of any circuit.
    pub(super) async fn empty(&self) {
        until(|| self.forwarder.counts() == (0, 0) && self.forwarder.budget().used() == 0).await;
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An application that sends its input back, and ends when its peer has ended.
pub(super) async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    format!("tcp:{address}")
}

pub(super) async fn udp_echo() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((count, peer)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..count], peer).await;
        }
    });
    format!("udp:{address}")
}

/// Sends, ends, and reads until the other side ends, too.
pub(super) async fn ask(address: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut got = Vec::new();
    let writing = async {
        writer.write_all(said).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let (_, read) = tokio::join!(writing, reader.read_to_end(&mut got));
    read.unwrap();
    got
}

pub(super) async fn talker() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

pub(super) async fn hear(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let (count, _) = soon(socket.recv_from(&mut buffer)).await.unwrap();
    buffer.truncate(count);
    buffer
}
