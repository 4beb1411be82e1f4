//! The interface of the control plane: accepts routers, and disconnects those that may not stay.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weft_auth::Auth;
use weft_channel::{
    AcceptOptions, ChannelAcceptor, ListenerLimits, Listeners, ProtocolHandler, RegisterError,
    Registration, TlsSource,
};
use weft_identity::LiveIdentity;
use weft_identity::tls::{ClientAuth, ServerTls, server_config};
use weft_kernel::Notice;
use weft_model::entity::Router;
use weft_model::{Change, Entity, Id, Kind};
use weft_network::Network;
use weft_network::ownership::machine::Roster;
use weft_store::{Alive, Presence, ReadError};
use weft_wire::hello::alpn;

use crate::admitted::admitted;
use crate::controllers::shared::Controllers;
use crate::data_model::RouterModel;
use crate::gate::Gate;
use crate::peers::Peers;
use crate::plane::{ControlOptions, Plane};
use crate::standstill::Standstill;

/// The control plane of a controller.
#[derive(Clone)]
pub struct ControlPlane(pub Arc<Plane>);

impl ControlPlane {
    /// Starts the tasks that serve routers. [`ControlPlane::listen`] accepts connections.
    pub async fn start(
        auth: &Auth,
        network: Network,
        options: ControlOptions,
    ) -> Result<Self, ReadError> {
        let (model, changes) = RouterModel::load(auth.clone(), options.log).await?;
        let (sessions, following) = crate::legacy::Book::open(auth.clone());
        network.spawn(following);
        let plane = Self(Arc::new(Plane {
            auth: auth.clone(),
            sessions,
            options,
            model: Arc::clone(&model),
            peers: Peers::default(),
            controllers: Controllers::default(),
            stop: CancellationToken::new(),
            standstill: Standstill::default(),
            network: network.clone(),
        }));
        let asking = Arc::downgrade(&plane.0);
        network.asks_by(Box::new(move |call| match asking.upgrade() {
            Some(plane) => plane.ask_controllers(call),
            None => Box::pin(std::future::ready(Vec::new())),
        }));
        network.spawn(model.follow(changes));
        network.spawn(plane.0.clone().follow_routers());
        network.spawn(plane.0.clone().follow_leader());
        network.spawn(plane.0.clone().follow_controllers());
        network.spawn(plane.0.clone().tell_peers());
        network.spawn(plane.0.clone().watch_others());
        network.spawn(plane.0.clone().note_that_it_runs());
        network.spawn(crate::rights::follow(Arc::clone(&plane.0)));
        Ok(plane)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// Accepts routers on an address, beside other protocols that are registered there.
    pub async fn listen(
        &self,
        listeners: &Listeners,
        bind: &str,
        limits: ListenerLimits,
        tls: TlsSource,
    ) -> Result<Registration, RegisterError> {
        listeners.listen(bind, limits, &[alpn::CTRL], tls, self.acceptor()).await
    }

    /// The handler that turns TLS connections of routers into channels.
    pub fn acceptor(&self) -> ProtocolHandler {
        let options = AcceptOptions {
            hello_timeout: self.0.options.hello_timeout,
            vouches: true,
            ..AcceptOptions::default()
        };
        Arc::new(ChannelAcceptor::new(Gate(Arc::clone(&self.0)), options)).into()
    }

    /// The TLS settings of the listener: it shows the identity's certificates, and requires a
    /// certificate of every router, which the gate judges.
    pub fn tls(identity: &Arc<LiveIdentity>) -> weft_identity::Result<TlsSource> {
        let alpn = [alpn::CTRL.as_bytes()];
        let settings = ServerTls { alpn: &alpn, client_auth: ClientAuth::Require };
        let config = Arc::new(server_config(identity, &settings)?);
        Ok(Arc::new(move || Some(Arc::clone(&config))))
    }

    /// Refuses new connections, and closes the channels between this controller and the others. Those of routers close
    /// with the network.
    pub fn stop(&self) {
        self.0.stop.cancel();
        self.0.controllers.close();
    }

    /// The index of the data model that routers are told.
    #[cfg(feature = "testing")]
    pub fn model_index(&self) -> u64 {
        self.0.model.index()
    }
}

impl Plane {
    /// Closes the channels of routers that were deleted, disabled or are to enroll again
    /// (docs/protocol/control-plane.md 2.3, docs/protocol/edge-control-plane.md 17.2).
    async fn follow_routers(self: Arc<Self>) {
        let (_, mut changes) = self.auth.kernel().subscribe();
        while let Some(notice) = changes.next().await {
            match notice {
                Notice::Change(published) => {
                    let changes = published.changes.iter().flat_map(|set| &set.changes);
                    for change in changes {
                        match change {
                            Change::Put(Entity::Router(router)) => self.recheck(router),
                            Change::Delete(Kind::Router, id) => self.router_deleted(id),
                            change if change.kind() == Kind::ControllerMember => {
                                self.tell_controllers();
                            }
                            _ => {}
                        }
                    }
                }
                Notice::Resync(snapshot) => {
                    self.network.everything_changed();
                    self.tell_controllers();
                    for live in self.network.routers().all() {
                        match snapshot.get::<Router>(&live.id) {
                            Some(router) => self.recheck(router),
                            None => self.router_deleted(&live.id),
                        }
                    }
                }
            }
        }
    }

    /// Tells all routers when this controller begins to lead the others, or leads them no more. They take it from the list
    /// of controllers: its index does not change, and a router follows a notice of a leader (1051) only with a newer one.
    async fn follow_leader(self: Arc<Self>) {
        let mut leads = self.auth.is_leader();
        loop {
            self.auth.leader_changed(leads).await;
            leads = !leads;
            match leads {
                true => tracing::info!("this controller leads the others now"),
                false => tracing::info!("this controller does not lead the others any more"),
            }
            self.tell_controllers();
        }
    }

    /// Tells the network which controllers are alive, whenever this controller has heard of the others. While etcd cannot be
    /// reached, nobody knows, and no circuit changes its controller.
    async fn follow_controllers(self: Arc<Self>) {
        let store = &self.auth.kernel().settings().store;
        let Some(mut heard) = store.alive() else { return };
        let run = store.presence().run;
        loop {
            let alive = heard.borrow_and_update().clone();
            if alive.is_heard {
                self.note_alive(alive.controllers.iter().map(|it| Id::new(&it.name)).collect());
            }
            let own = alive.controllers.iter().find(|it| it.run == run && alive.is_heard);
            own.into_iter().for_each(|own| self.note_controllers(&alive, own));
            if heard.changed().await.is_err() {
                return;
            }
        }
    }

    fn note_controllers(&self, alive: &Alive, own: &Presence) {
        let snapshot = self.auth.kernel().snapshot();
        // One that was invited and has not started yet has made no circuit.
        let others = self.auth.other_members(&snapshot).filter(|it| it.joined_at.0 > 0);
        let others = others.map(|other| other.base.id.as_str());
        let roster = Roster {
            moment: alive.moment,
            since: own.since,
            leads: self.auth.is_leader(),
            others: others.collect(),
            alive: alive.controllers.iter().map(|it| it.name.as_str()).collect(),
        };
        self.network.on_controllers(&roster);
    }

    /// Tells all routers which controllers there are.
    fn tell_controllers(&self) {
        let routers = self.network.routers().all();
        routers.iter().for_each(|router| self.peers.tell_controllers(self, router));
    }

    /// Checks a changed router again: its channel is closed if it was refused for a moment, or
    /// would be refused now.
    fn recheck(&self, router: &Router) {
        let id = &router.base.id;
        self.network.router_changed(id);
        if router.disabled {
            // The others close their links with the router, also if it is not connected.
            self.peers.changed(id);
        }
        if router.disabled || router.fingerprint.is_none() {
            self.network.shut_out(id);
        }
        let Some(live) = self.network.routers().get(id.as_str()) else { return };
        let snapshot = self.auth.kernel().snapshot();
        let may_stay = !router.disabled
            && router.fingerprint.is_some()
            && admitted(&snapshot, id.as_str(), |known| live.stands_on(known)).is_ok();
        if !may_stay {
            // The circuits end before the channel closes: a closing channel still writes queued
            // messages, and afterwards nobody could tell the router.
            self.network.end_circuits_at(id);
            live.channel.close("the router was disabled, or has to show another certificate");
        }
    }

    fn router_deleted(&self, id: &weft_model::Id) {
        self.network.shut_out(id);
        if let Some(live) = self.network.routers().get(id.as_str()) {
            live.channel.close("the router was deleted");
        }
        self.network.router_deleted(id);
        self.peers.changed(id);
    }
}
