//! The controllers of a network: one with its file, or three that share an etcd of three members. Wires lead to each of
//! three controllers, and from each to every member.

use std::fs;
use std::path::PathBuf;

use weft_test_etcd::Server;

use super::wires::{State, Wires};
use crate::network::{NetworkFolder, free_port};
use crate::operator::Operator;
use crate::program::{Program, text, weft};

/// Controllers and members of etcd of a cluster.
pub(super) const CLUSTER: usize = 3;

pub(super) struct Controller {
    pub(super) name: &'static str,
    file: PathBuf,
    pub(super) port: u16,
    pub(super) program: Option<Program>,
    /// By which routers and other controllers reach it; its APIs are reached without them.
    pub(super) control: Wires,
    /// By which it reaches the members of etcd.
    pub(super) etcd: Vec<Wires>,
}

impl Controller {
    async fn new(name: &'static str, file: PathBuf, port: u16, etcd: &[Server]) -> Self {
        let control = Wires::to(port).await;
        let mut wires = Vec::new();
        for member in etcd {
            wires.push(Wires::to(member.port()).await);
        }
        Self { name, file, port, program: None, control, etcd: wires }
    }

    /// Starts it, without waiting for it.
    pub(super) fn start(&mut self, place: &NetworkFolder) {
        let args = ["controller", "run", self.file.to_str().unwrap()];
        self.program = Some(place.start(self.name, &args));
    }

    /// Sets what the wires to it carry, and those from it to etcd.
    pub(super) fn set(&self, control: State, etcd: State) {
        let wires = self.etcd.iter().map(|wires| (wires, etcd));
        for (wires, state) in wires.chain([(&self.control, control)]) {
            wires.set(state);
            if state.is_refusing {
                wires.cut();
            }
        }
    }

    /// Changes its file.
    fn replace(&self, from: &str, to: &str) {
        super::bed::replace(&self.file, from, to);
    }
}

/// The controller of a network that was made in this folder.
pub(super) async fn one(place: &NetworkFolder) -> Vec<Controller> {
    let file = place.home().join("controller.yaml");
    vec![Controller::new("controller", file, place.control, &[]).await]
}

/// Moves the network of this folder into etcd, and makes two more controllers.
pub(super) async fn three(place: &NetworkFolder, etcd: &[Server]) -> Vec<Controller> {
    let run = async |args: &[&str]| {
        let done = weft(place.folder(), args).await;
        assert!(done.status.success(), "weft {args:?}\n{}", text(&done));
    };
    let home = place.home();
    let first = home.join("controller.yaml");
    let urls: Vec<String> = etcd.iter().map(|it| format!("http://{}", it.endpoint())).collect();
    let mut into = vec!["controller", "move", first.to_str().unwrap()];
    urls.iter().for_each(|url| into.extend(["--etcd", url]));
    run(&into).await;
    let mut all = vec![Controller::new("controller", first, place.control, etcd).await];
    for name in ["two", "three"] {
        let port = free_port();
        let number = port.to_string();
        let at = ["controller", "config", "--address", "localhost", "--port", &number];
        let joins = ["--home", name, "--name", name, "--member-of", home.to_str().unwrap()];
        run(&[&at[..], &joins].concat()).await;
        let file = place.folder().join(name).join("controller.yaml");
        all.push(Controller::new(name, file, port, etcd).await);
    }
    for controller in &all {
        let to = format!("advertiseAddress: \"tls:localhost:{}\"", controller.control.port);
        controller
            .replace(&format!("advertiseAddress: \"tls:localhost:{}\"", controller.port), &to);
        for (url, wires) in urls.iter().zip(&controller.etcd) {
            controller.replace(url, &format!("http://127.0.0.1:{}", wires.port));
        }
        assert!(!fs::read_to_string(&controller.file).unwrap().contains(&urls[0]));
    }
    all
}

/// Logs in at each of them.
pub(super) async fn log_in(all: &[Controller]) -> Vec<Operator> {
    let mut operators = Vec::new();
    for controller in all {
        operators.push(Operator::log_in(controller.port).await);
    }
    operators
}
