//! `weft topology`: the mesh as it is now.
//!
//! - [`mesh`]: the mesh, read from the fabric API;
//! - [`draw`]: a drawing of characters; [`tables`]: tables, and costs between routers;
//! - [`svg`]: a picture; [`screen`]: a terminal that is redrawn.

mod draw;
mod mesh;
mod screen;
mod svg;
mod tables;

use std::time::Duration;

use mesh::Mesh;
pub(crate) use screen::{Key, Screen, restore};
use weft_client::ManagementClient;

use crate::cli::TopologyArgs;
use crate::failure::{Failure, Result};
use crate::output::{self, Format, counted, printable};
use crate::session::LoginChoice;

/// Most routers in a drawing; more are shown in tables only.
const DRAWN: usize = 12;
/// Most lines in a readable drawing.
const CLEAR: usize = 24;

/// Runs the command.
pub(crate) async fn topology(args: TopologyArgs) -> Result<()> {
    let format = args.output.format();
    if format != Format::Table && args.svg.is_some() {
        return Err(Failure::usage("--svg writes a picture; it does not go with --output"));
    }
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
            "{} and {} in {}",
            counted(mesh.routers.len(), "router", "routers"),
            counted(mesh.links.len(), "link", "links"),
            file.display()
        ));
        return Ok(());
    }
    if format == Format::Table {
        output::print(&(text(&mesh, tables::width()) + "\n"));
    } else {
        output::value(format, &mesh.value(), String::new);
    }
    Ok(())
}

/// The mesh as text, no line wider than the terminal.
fn text(mesh: &Mesh, width: Option<usize>) -> String {
    let mut parts = vec![tables::summary(mesh)];
    let pairs = mesh.pairs();
    if (2..=DRAWN).contains(&mesh.routers.len()) {
        let drawing = match pairs.len() <= CLEAR {
            true => draw::drawing(mesh, &pairs, width.unwrap_or(draw::USUAL)),
            false => None,
        };
        parts.push(drawing.unwrap_or_else(|| tables::matrix(mesh, &pairs, width)));
    }
    parts.push(tables::routers(mesh, width));
    if !mesh.links.is_empty() {
        parts.push(tables::links(mesh, width));
    }
    output::table::broken(&printable::lines(&parts.join("\n")), width)
}

/// Redraws the mesh until a key ends it.
async fn watch(session: &LoginChoice, pause: Duration) -> Result<()> {
    let mut client = session.client().await?;
    // A refusal, as for a login without the permission, is shown before the screen changes.
    let mut mesh = Mesh::ask(&client).await?;
    let mut screen = Screen::open("weft topology")?;
    let mut trouble = None;
    loop {
        let foot = match &trouble {
            None => format!("every {} s; q or Ctrl-C ends", pause.as_secs()),
            Some(failure) => format!("out of date: {failure}; q or Ctrl-C ends"),
        };
        let width = screen.size().0;
        let foot = output::table::cut(&printable::line(&foot), width.saturating_sub(1));
        screen.show(&text(&mesh, Some(width)), &foot);
        match screen.key(pause).await {
            Some(Key::End) => return Ok(()),
            Some(Key::Other) | None => {}
        }
        match ask_again(session, &mut client).await {
            Ok(now) => (mesh, trouble) = (now, None),
            Err(failure) => trouble = Some(failure),
        }
    }
}

/// Asks for the mesh, if need be with new tokens: a login in a browser has some that end while this runs.
async fn ask_again(session: &LoginChoice, client: &mut ManagementClient) -> Result<Mesh> {
    match Mesh::ask(client).await {
        Err(failure) if !failure.is_temporary() => match session.client_of_tokens().await? {
            Some(new) => {
                *client = new;
                Mesh::ask(client).await
            }
            None => Err(failure),
        },
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::mesh::tests::sample;
    use super::*;

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        let names = ["quickstart-router", "quickstart-router-2", "quickstart-router-3"];
        let links = [(names[0], names[1], 17, false), (names[2], names[1], 18, false)];
        for width in [20, 30, 39, 40, 60, 80, 200] {
            let text = text(&sample(&names, &links), Some(width));
            assert!(text.lines().all(|line| line.width() <= width), "{width}\n{text}");
            // Without a drawing, a table shows the costs of links.
            assert_eq!(text.contains('●'), !text.contains("LINK COST"), "{width}\n{text}");
        }
        assert!(text(&sample(&names, &links), None).contains('●'));
    }
}
