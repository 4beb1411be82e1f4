//! `weft topology`: the mesh, as it is now.
//!
//! - [`mesh`]: what is asked of the fabric API, put together;
//! - [`draw`]: the mesh as a drawing of characters; [`tables`]: who costs what to whom;
//! - [`svg`]: the same as a picture; [`screen`]: a terminal that is drawn anew.

mod draw;
mod mesh;
mod screen;
mod svg;
mod tables;

use std::time::Duration;

use crate::{
    cli::TopologyArgs,
    failure::Failure,
    output::{self, Format, printable},
    session::Session,
};
use mesh::Mesh;

pub(crate) use screen::{Key, Screen, restore};

/// Routers that are drawn; more are told in tables alone.
const DRAWN: usize = 12;
/// Lines between routers that a drawing still shows clearly.
const CLEAR: usize = 24;

/// Draws the mesh.
pub(crate) async fn topology(args: TopologyArgs) -> Result<(), Failure> {
    let format = args.output.format();
    if let Some(seconds) = args.watch {
        if format != Format::Table {
            return Err(Failure::usage("--watch draws; it does not go with --output"));
        }
        return watch(&args.session, Duration::from_secs(seconds.into())).await;
    }
    let mesh = Mesh::ask(&args.session.client().await?).await?;
    if let Some(file) = &args.svg {
        std::fs::write(file, svg::picture(&mesh)).map_err(|error| {
            Failure::new(format!("{} cannot be written: {error}", file.display()))
        })?;
        output::line(format!(
            "{} routers and {} links in {}",
            mesh.routers.len(),
            mesh.links.len(),
            file.display()
        ));
        return Ok(());
    }
    if format == Format::Table {
        let width = tables::width().unwrap_or(draw::USUAL);
        output::print(&(text(&mesh, width) + "\n"));
    } else {
        output::value(format, &mesh.value(), String::new);
    }
    Ok(())
}

/// The mesh in lines, for a terminal of this width.
fn text(mesh: &Mesh, width: usize) -> String {
    let mut parts = vec![tables::summary(mesh)];
    let pairs = mesh.pairs();
    if (2..=DRAWN).contains(&mesh.routers.len()) {
        match pairs.len() <= CLEAR {
            true => parts.push(draw::drawing(mesh, &pairs, width)),
            false => parts.push(tables::matrix(mesh, &pairs)),
        }
    }
    parts.push(tables::routers(mesh));
    if !mesh.links.is_empty() {
        parts.push(tables::links(mesh));
    }
    printable::lines(&parts.join("\n"))
}

/// Draws it again and again, until somebody has seen enough.
async fn watch(session: &Session, pause: Duration) -> Result<(), Failure> {
    let client = session.client().await?;
    // Whoever may not see it is told so before the screen is taken.
    let mut mesh = Mesh::ask(&client).await?;
    let mut screen = Screen::open()?;
    let mut trouble = None;
    loop {
        let foot = match &trouble {
            None => format!("every {} s; q ends", pause.as_secs()),
            Some(failure) => format!("not what it is now: {failure}; q ends"),
        };
        screen.show(&text(&mesh, screen.size().0), &printable::line(&foot));
        match screen.key(pause).await {
            Some(Key::End) => return Ok(()),
            Some(Key::Other) | None => {}
        }
        match Mesh::ask(&client).await {
            Ok(now) => (mesh, trouble) = (now, None),
            Err(failure) => trouble = Some(failure),
        }
    }
}
