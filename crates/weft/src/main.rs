//! The program `weft`: a zero-trust overlay network with its controller, its router, a tunneler and the
//! operator's commands.
//!
//! ```text
//!  command line -> cli -> log -> a command: controller, router, tunnel (run until a signal)
//!                                          login, list, create, why, ... (calls of the APIs)
//!                                      -> result on standard output, or Failure: message and exit status
//! ```
//!
//! [`cli`] parses the command line; every command is a function that succeeds or returns a
//! [`failure::Failure`] with a message and an exit status. Results go to standard output, messages and
//! the log to standard error.
//!
//! ```text
//! weft quickstart --home ./w1 --username admin --password weft-tour    # a network, until Ctrl-C
//! weft login https://localhost:1280 --username admin --password weft-tour --yes
//! weft create service web --role-attributes web
//! weft list services
//! ```

// `println!` and `eprintln!` panic when their reader has closed the pipe: `output` prints instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod arguments;
mod ask;
mod build;
mod change;
mod check;
mod cli;
mod codes;
mod completion;
mod compose;
mod controller;
mod enroll;
mod entity;
mod explain;
mod failure;
mod fetch;
mod home;
mod input;
mod log;
mod login;
mod open_files;
mod output;
mod pki;
mod place;
mod profile;
mod quickstart;
mod restore;
mod router;
mod second_factor;
mod service;
mod session;
mod signals;
mod spans;
mod tools;
mod topology;
mod tunnel;
mod verify;
mod weak;
mod yaml;

use std::process::ExitCode;

use cli::{Asked, ControllerCommand, Fixed, RouterCommand, TunnelCommand};
use failure::Failure;
use log::LogArgs;
use signals::until_interrupted;
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    completion::answer();
    let asked = cli::parse();
    log::start(default_level(&asked), &log_args(&asked));
    open_files::raise();
    if default_level(&asked) == SHORT {
        weft_client::tell_waits(tell_wait);
    }
    match carry_out(asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn carry_out(asked: Asked) -> Result<(), Failure> {
    let runtime = runtime()?;
    if serves(&asked) {
        runtime.spawn(open_files::watch());
    }
    let done = runtime.block_on(dispatch(asked));
    // Tasks were told to stop; the program does not wait for them.
    runtime.shutdown_background();
    done
}

async fn dispatch(asked: Asked) -> Result<(), Failure> {
    match asked {
        Asked::Entity(request) => until_interrupted(entity::run(*request)).await,
        Asked::Action(request) => until_interrupted(entity::action::run(*request)).await,
        Asked::TraceShow(args) => tools::trace::show(&args),
        Asked::Fixed(command) => Box::pin(fixed(*command)).await,
    }
}

async fn fixed(command: Fixed) -> Result<(), Failure> {
    match command {
        Fixed::Login(args) => until_interrupted(login::login(args)).await,
        Fixed::Logout(args) => until_interrupted(login::logout(args)).await,
        Fixed::Logins(args) => login::list(&args.folder, args.output.format()),
        Fixed::Use(args) => login::choose(&args),
        Fixed::Status(args) => until_interrupted(tools::status::status(args)).await,
        Fixed::Why(args) => Box::pin(until_interrupted(tools::why::why(args))).await,
        Fixed::Unproven(args) => until_interrupted(tools::unproven::unproven(args)).await,
        Fixed::WhyPath(args) => until_interrupted(tools::why_path::why_path(args)).await,
        Fixed::Topology(args) if args.watch.is_some() => {
            let watched = until_interrupted(topology::topology(args)).await;
            watched.map_err(Failure::unsaid_if_interrupted)
        }
        Fixed::Topology(args) => until_interrupted(topology::topology(args)).await,
        Fixed::Enroll(args) => until_interrupted(enroll::enroll(args)).await,
        Fixed::SecondFactor(args) => until_interrupted(second_factor::second_factor(args)).await,
        Fixed::Jwt(args) => until_interrupted(tools::jwt::jwt(args)).await,
        Fixed::Password(args) => until_interrupted(tools::password::password(args)).await,
        Fixed::Override(args) => until_interrupted(tools::overrides::overrides(args)).await,
        Fixed::Keys(args) => until_interrupted(tools::keys::keys(args)).await,
        Fixed::Database(args) => until_interrupted(tools::database::database(args)).await,
        Fixed::Inspect(args) => until_interrupted(tools::inspect::inspect(args)).await,
        Fixed::Export(args) => until_interrupted(change::export(args)).await,
        Fixed::Diff(args) => until_interrupted(change::diff(args)).await,
        Fixed::Apply(args) => until_interrupted(change::apply(args)).await,
        Fixed::Call(args) => until_interrupted(tools::call::call(args)).await,
        Fixed::Cluster(args) => until_interrupted(tools::cluster::cluster(args)).await,
        Fixed::Agent(args) => until_interrupted(agent::agent(args)).await,
        Fixed::Controller(command) => controller::controller(command).await,
        Fixed::Router(command) => router::router(command).await,
        Fixed::Quickstart(args) => Box::pin(quickstart::quickstart(args)).await,
        Fixed::Tunnel(command) => tunnel::tunnel(command).await,
        Fixed::Dial(args) => tunnel::dial(args).await,
        Fixed::Host(args) => tunnel::host(args).await,
        Fixed::Traceroute(args) => tunnel::traceroute(args).await,
        Fixed::Ca(args) => until_interrupted(tools::ca::ca(args)).await,
        Fixed::Signer(args) => Box::pin(until_interrupted(tools::signer::signer(args))).await,
        Fixed::Verify(cli::VerifyCommand::Traffic(args)) => Box::pin(verify::traffic(args)).await,
        Fixed::Verify(cli::VerifyCommand::Ca(args)) => {
            until_interrupted(tools::verify_ca::verify(args)).await
        }
        Fixed::Completions(args) => completion::script(&args),
        Fixed::WithParent(args) => Err(quickstart::with_parent(&args)),
        Fixed::Version(args) => {
            build::version(args.output.format());
            Ok(())
        }
    }
}

fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .enable_all()
        .thread_name("weft")
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))
}

/// Settings of the log: those of controllers, routers and tunnelers, else the defaults.
fn log_args(asked: &Asked) -> LogArgs {
    let Asked::Fixed(command) = asked else { return LogArgs::default() };
    match &**command {
        Fixed::Controller(ControllerCommand::Run { log, .. })
        | Fixed::Router(RouterCommand::Run { log, .. }) => log.clone(),
        Fixed::Tunnel(TunnelCommand::Run(args)) => args.run.log.clone(),
        Fixed::Tunnel(TunnelCommand::RunHost(args)) => args.log.clone(),
        _ => LogArgs::default(),
    }
}

/// True for commands that accept connections until they are stopped.
fn serves(asked: &Asked) -> bool {
    let Asked::Fixed(command) = asked else { return false };
    matches!(
        &**command,
        Fixed::Controller(ControllerCommand::Run { .. })
            | Fixed::Router(RouterCommand::Run { .. })
            | Fixed::Quickstart(_)
            | Fixed::Host(_)
            | Fixed::Tunnel(
                TunnelCommand::Run(_) | TunnelCommand::RunHost(_) | TunnelCommand::Proxy(_)
            )
    )
}

/// Level of the log of commands that do not run for long.
const SHORT: &str = "warn";

/// Says why a command waits before it asks the controller again.
fn tell_wait(wait: std::time::Duration, why: &str) {
    if wait >= std::time::Duration::from_secs(1) {
        let why = output::printable::line(why);
        output::note(format_args!("the controller asks to wait {} s: {why}", wait.as_secs()));
    }
}

/// Level of the log without `RUST_LOG`: information for the commands of controllers and routers, and
/// for `weft tunnel run` and `run-host`; warnings for other commands. `weft host` also says when its service is
/// hosted again.
fn default_level(asked: &Asked) -> &'static str {
    match asked {
        Asked::Fixed(command) => match **command {
            Fixed::Controller(_) | Fixed::Router(_) => "info",
            Fixed::Tunnel(TunnelCommand::Run(_) | TunnelCommand::RunHost(_)) => "info",
            Fixed::Host(_) => "warn,weft_tunneler::hosting=info",
            _ => SHORT,
        },
        Asked::Entity(_) | Asked::Action(_) | Asked::TraceShow(_) => SHORT,
    }
}
