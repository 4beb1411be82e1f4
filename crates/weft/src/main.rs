//! A zero-trust overlay network: controller, router and the operator's commands.
//!
//! One binary. The command line ([`cli`]) says what is wanted; every command is a function that
//! ends in success or in a [`failure::Failure`], whose sentence is printed and whose number is the
//! exit status. Results go to standard output, words about them and the log to standard error.

mod cli;
mod compose;
mod controller;
mod enroll;
mod entity;
mod failure;
mod home;
mod login;
mod output;
mod pki;
mod quickstart;
mod router;
mod signals;
mod verify;

use std::{future::Future, io, process::ExitCode};

use clap_complete::Shell;
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;

use cli::{Asked, Fixed};
use failure::Failure;

fn main() -> ExitCode {
    let asked = cli::parse();
    start_log(default_level(&asked));
    match carry_out(asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn carry_out(asked: Asked) -> Result<(), Failure> {
    if let Asked::Fixed(Fixed::Completions { shell }) = asked {
        return completions(shell);
    }
    let runtime = runtime()?;
    let done = runtime.block_on(dispatch(asked));
    // What still runs has been told to stop; nobody waits for it.
    runtime.shutdown_background();
    done
}

async fn dispatch(asked: Asked) -> Result<(), Failure> {
    match asked {
        Asked::Entity(request) => until_interrupted(entity::run(request)).await,
        Asked::Fixed(Fixed::Login(args)) => until_interrupted(login::login(args)).await,
        Asked::Fixed(Fixed::Logout(home)) => until_interrupted(login::logout(home)).await,
        Asked::Fixed(Fixed::Enroll(args)) => until_interrupted(enroll::enroll(args)).await,
        Asked::Fixed(Fixed::Controller(command)) => controller::controller(command).await,
        Asked::Fixed(Fixed::Router(command)) => router::router(command).await,
        Asked::Fixed(Fixed::Quickstart(args)) => quickstart::quickstart(args).await,
        Asked::Fixed(Fixed::Verify(command)) => verify::verify(command).await,
        Asked::Fixed(Fixed::Completions { shell }) => completions(shell),
    }
}

/// For commands that leave nothing behind that would have to be tidied up.
async fn until_interrupted(
    command: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let stop = signals::first()?;
    tokio::select! {
        done = command => done,
        () = stop.cancelled() => Err(Failure::interrupted()),
    }
}

fn completions(shell: Shell) -> Result<(), Failure> {
    clap_complete::generate(shell, &mut cli::command(), "weft", &mut io::stdout());
    Ok(())
}

fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .enable_all()
        .thread_name("weft")
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))
}

/// What is logged without `RUST_LOG`: programs that stay tell what they do, commands only what is
/// wrong.
fn default_level(asked: &Asked) -> &'static str {
    match asked {
        Asked::Fixed(Fixed::Controller(_) | Fixed::Router(_)) => "info",
        // What the files of a new network ask for and this release does not do is no news there.
        Asked::Fixed(Fixed::Quickstart(_)) => {
            "warn,weft_api::server=error,weft_router::start=error"
        }
        _ => "warn",
    }
}

fn start_log(level: &str) {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(text) if !text.trim().is_empty() => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            eprintln!("weft: RUST_LOG is not understood and ignored: {error}");
            EnvFilter::new(level)
        }),
        _ => EnvFilter::new(level),
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
}
