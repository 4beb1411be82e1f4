//! The controllers of the network, which this router stays connected to: updated by controllers,
//! and kept in the endpoints file (docs/protocol/control-plane.md 17).

use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use weft_config::EndpointsFile;
use weft_config::router::{ControllerEndpoint, ControllerEndpoints};
use weft_identity::write_private;
use weft_wire::ctrl::{
    CtrlDetail, SETTING_NEW_CTRL_ADDRESS, Settings, UpdateClusterLeader, UpdateCtrlAddresses,
    content_type,
};
use weft_wire::{Address, Message, ProtoBody};

use super::connect::keep_connected;
use super::shared::Core;
use super::targets::Target;
use crate::controllers::Controller;

/// Most controllers in a list.
const MAX_CONTROLLERS: usize = 64;
/// Most addresses of one controller.
const MAX_ADDRESSES: usize = 16;

/// Starts to connect to every controller in the endpoints file or the configuration.
pub(crate) fn begin(core: &Arc<Core>) {
    let mut targets = read_targets(&core.options.endpoints_file);
    if targets.is_empty() {
        let single = |address: &Address| Target::new(None, vec![address.clone()]);
        targets = core.options.endpoints.iter().map(single).collect();
    }
    for target in targets {
        begin_target(core, target);
    }
}

/// Hosts and ports of the controllers that the router dials first.
pub(crate) fn first_addresses(
    file: &Path,
    configured: impl Iterator<Item = (String, u16)>,
) -> Vec<(String, u16)> {
    let targets = read_targets(file);
    let known: Vec<Address> = targets.iter().flat_map(|target| target.addresses()).collect();
    if known.is_empty() { configured.collect() } else { hosts(&known) }
}

fn hosts(addresses: &[Address]) -> Vec<(String, u16)> {
    let mut hosts: Vec<_> = addresses.iter().map(|one| (one.host.clone(), one.port)).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn begin_target(core: &Arc<Core>, target: Arc<Target>) {
    core.cluster.targets.lock().push(target.clone());
    core.spawn(keep_connected(core.clone(), target));
}

/// The targets of the endpoints file: controllers by id if the file has ids, else addresses.
fn read_targets(path: &Path) -> Vec<Arc<Target>> {
    let Some(file) =
        std::fs::read_to_string(path).ok().as_deref().and_then(EndpointsFile::from_text)
    else {
        return Vec::new();
    };
    let with_id = file.controllers.iter().filter(|one| !one.id.is_empty());
    let targets: Vec<_> = with_id
        .map(|one| {
            let texts = one.endpoints.iter().map(|endpoint| endpoint.address.as_str());
            Target::new(Some(one.id.as_str().into()), addresses(texts))
        })
        .filter(|target| !target.addresses().is_empty())
        .collect();
    if !targets.is_empty() {
        return targets;
    }
    let single = |address| Target::new(None, vec![address]);
    addresses(file.endpoints.iter().map(String::as_str)).into_iter().map(single).collect()
}

/// The texts that are addresses; the others are logged.
fn addresses<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Address> {
    let parse = |text: &str| match text.parse::<Address>() {
        Ok(address) => Some(address),
        Err(problem) => {
            tracing::warn!(%problem, "the address of a controller has a mistake and is ignored");
            None
        }
    };
    texts.take(MAX_ADDRESSES).filter_map(parse).collect()
}

/// Applies messages of controllers about controllers, in order, until the router stops.
pub(super) async fn run(core: Arc<Core>, mut queue: mpsc::Receiver<(Arc<Controller>, Message)>) {
    let mut timeline = core.access.timeline();
    loop {
        tokio::select! {
            message = queue.recv() => match message {
                Some((from, message)) => on_message(&core, &from, &message),
                None => return,
            },
            changed = timeline.changed() => match changed {
                Ok(()) => core.cluster.forget_index(),
                Err(_) => return,
            },
        }
    }
}

/// Handles a message of a controller about controllers.
fn on_message(core: &Arc<Core>, from: &Arc<Controller>, message: &Message) {
    let done =
        match message.content_type {
            content_type::UPDATE_CTRL_ADDRESSES => UpdateCtrlAddresses::from_message(message)
                .map(|update| on_list(core, from, &update)),
            content_type::UPDATE_CLUSTER_LEADER => UpdateClusterLeader::from_message(message)
                .map(|update| on_leader(core, from, update)),
            content_type::SETTINGS => {
                Settings::from_message(message).map(|settings| on_settings(core, from, &settings))
            }
            _ => Ok(()),
        };
    if let Err(problem) = done {
        from.not_understood(message, &problem);
    }
}

fn on_leader(core: &Arc<Core>, from: &Arc<Controller>, update: UpdateClusterLeader) {
    let index = *core.cluster.index.lock();
    if index == 0 || index < update.index {
        core.controllers.set_leader(from.id.clone());
    }
}

fn on_list(core: &Arc<Core>, from: &Arc<Controller>, update: &UpdateCtrlAddresses) {
    let index = *core.cluster.index.lock();
    if index == 0 || index < update.index {
        if update.controllers.iter().all(|one| one.endpoints.is_empty()) {
            tracing::debug!(controller = %from.id, "list of controllers without addresses ignored");
            return;
        }
        apply(core, &update.controllers);
        *core.cluster.index.lock() = update.index;
    }
    if update.is_leader && *core.cluster.index.lock() <= update.index {
        core.controllers.set_leader(from.id.clone());
    }
}

fn on_settings(core: &Arc<Core>, from: &Arc<Controller>, settings: &Settings) {
    for (key, value) in &settings.data {
        if *key != SETTING_NEW_CTRL_ADDRESS {
            tracing::info!(
                controller = %from.id, key,
                "an unknown setting of the controller is ignored"
            );
            continue;
        }
        let parsed = std::str::from_utf8(value).ok().map(|text| addresses(std::iter::once(text)));
        let Some(list) = parsed.filter(|list| !list.is_empty()) else { continue };
        let targets = core.cluster.targets.lock().clone();
        if let Some(target) = targets.iter().find(|one| one.id().as_ref() == Some(&from.id)) {
            target.set_addresses(list);
            save(core);
        }
    }
}

/// Replaces the targets by the controllers of a list.
fn apply(core: &Arc<Core>, list: &[CtrlDetail]) {
    let mut left = core.cluster.targets.lock().clone();
    let mut new = Vec::new();
    for detail in list.iter().take(MAX_CONTROLLERS).filter(|detail| !detail.id.is_empty()) {
        let listed = addresses(detail.endpoints.iter().map(|one| one.address.as_str()));
        if listed.is_empty() {
            continue;
        }
        let by_id = left.iter().position(|one| one.id().is_some_and(|id| *id == *detail.id));
        let by_address = || {
            left.iter().position(|one| {
                one.id().is_none() && one.addresses().iter().any(|address| listed.contains(address))
            })
        };
        match by_id.or_else(by_address) {
            Some(at) => {
                let target = left.swap_remove(at);
                target.set_id(detail.id.as_str().into());
                target.set_addresses(listed);
            }
            None => new.push(Target::new(Some(detail.id.as_str().into()), listed)),
        }
    }
    for gone in left {
        tracing::info!(controller = ?gone.id(), "no longer a controller of this network");
        core.cluster.drop_target(&gone);
        gone.stop.cancel();
        // The target's task closes the channel that it dialed; here the channel is closed that the
        // controller may have dialed.
        if let Some(gone) = gone.id().and_then(|id| core.controllers.get(&id)) {
            gone.channel.close("no longer a controller of this network");
        }
    }
    for target in new {
        begin_target(core, target);
    }
    save(core);
}

/// Writes the endpoints file, and passes the addresses on to the tunneler, which excludes them from
/// interception.
fn save(core: &Arc<Core>) {
    let targets = core.cluster.targets.lock().clone();
    let known: Vec<Address> = targets.iter().flat_map(|target| target.addresses()).collect();
    core.controllers.set_addresses(hosts(&known));
    let controllers: Vec<ControllerEndpoints> = targets
        .iter()
        .map(|target| ControllerEndpoints {
            id: target.id().map(|id| id.to_string()).unwrap_or_default(),
            endpoints: target
                .addresses()
                .iter()
                .map(|one| ControllerEndpoint { address: one.to_string(), groups: Vec::new() })
                .collect(),
        })
        .collect();
    let endpoints =
        controllers.iter().flat_map(|one| &one.endpoints).map(|one| one.address.clone()).collect();
    let text = EndpointsFile { endpoints, controllers }.to_text();
    let path = &core.options.endpoints_file;
    if std::fs::read_to_string(path).is_ok_and(|known| known == text) {
        return;
    }
    // The folder may not exist yet.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(Err(problem)) = folder.map(std::fs::create_dir_all) {
        tracing::warn!(
            %problem, path = %path.display(),
            "the folder of the endpoints file (ctrl.endpointsFile) cannot be made"
        );
    }
    if let Err(problem) = write_private(path, text.as_bytes()) {
        tracing::warn!(
            %problem,
            "the endpoints file (ctrl.endpointsFile) cannot be written; addresses of controllers \
             are lost at the next start"
        );
    }
}
