//! `weft unproven SERVICE`: who could not use a service that demands that both ends prove who they are.

use serde_json::Value;
use weft_contract::Api;
use weft_contract::resource::unproven::{UnprovenEnd, UnprovenEnds};

use super::{kind, row};
use crate::cli::UnprovenArgs;
use crate::entity::name;
use crate::failure::{Failure, Result};
use crate::output::{self, Format, counted, quoted};

/// Asks, and prints the answer.
pub(crate) async fn unproven(args: UnprovenArgs) -> Result<()> {
    let client = args.session.client().await?;
    let service = name::resolve(&client, kind("service")?, &args.service).await?;
    let operation = row(Api::Weft, "listUnprovenEnds")?;
    let numbers = [("limit", args.limit), ("offset", args.offset)];
    let numbers: Vec<(&str, String)> = numbers
        .into_iter()
        .filter_map(|(name, number)| Some((name, number?.to_string())))
        .collect();
    let query: Vec<(&str, &str)> =
        numbers.iter().map(|(name, number)| (*name, number.as_str())).collect();
    let answer: Value = client.call_in(Api::Weft, operation, &[&service], &query, None).await?;
    if args.output.format() != Format::Table {
        output::value(args.output.format(), &answer, String::new);
        return Ok(());
    }
    let ends: UnprovenEnds = serde_json::from_value(answer.clone())
        .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
    output::value(Format::Table, &answer, || text(&ends));
    Ok(())
}

/// The list as text.
fn text(ends: &UnprovenEnds) -> String {
    let service = &ends.service.name;
    let total = usize::try_from(ends.total).unwrap_or_default();
    let count = counted(total, "end has", "ends have");
    let mut lines = vec![match (ends.demanded, total) {
        (true, 0) => format!("✓ {service} demands that both ends prove who they are"),
        (false, 0) => format!(
            "✓ all ends that are there now can prove who they are: weft update service {} --authenticated-ends",
            quoted(service)
        ),
        (true, _) => format!(
            "✗ {service} demands that both ends prove who they are, and {count} no key for that:"
        ),
        (false, _) => format!(
            "✗ {count} no key that proves who they are, and could not use {service} if it demanded that:"
        ),
    }];
    lines.extend(ends.ends.iter().map(|end| format!("  {}", of_end(end))));
    let shown = usize::try_from(ends.offset).unwrap_or_default().saturating_add(ends.ends.len());
    if shown < total {
        lines.push(format!("  {} more: --offset {shown}", total - shown));
    }
    lines.join("\n")
}

fn of_end(end: &UnprovenEnd) -> String {
    let identity = end.identity.as_ref().map_or("nobody", |identity| identity.name.as_str());
    match &end.router {
        Some(router) => format!(
            "terminator {} at {} ({}), hosted by {identity}",
            end.terminator, router.name, end.binding
        ),
        None => {
            let told: Vec<&str> = [end.sdk.as_str(), end.application.as_str()]
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect();
            let told = if told.is_empty() { "unknown program".to_owned() } else { told.join(", ") };
            format!("{identity} ({} session of {told}, since {})", end.role, end.created_at)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_says_who_would_be_cut_and_how_many_more() {
        let of = |demanded: bool, total: i64, ends: Value| -> UnprovenEnds {
            serde_json::from_value(
                json!({"service": {"name": "web app", "id": "s", "entity": "services"},
                "demanded": demanded, "total": total, "offset": 1, "ends": ends}),
            )
            .unwrap()
        };
        let said = text(&of(false, 0, json!([])));
        assert!(said.contains("weft update service 'web app' --authenticated-ends"), "{said}");
        let ends = json!([
            {"terminator": "t1", "binding": "edge", "role": "Bind",
                "router": {"id": "r", "name": "paris", "entity": "edge-routers"},
                "identity": {"id": "i", "name": "pi", "entity": "identities"}},
            {"session": "s1", "role": "Dial", "sdk": "ziti-sdk-c 1.2.3", "application": "",
                "createdAt": "2026-01-31T12:00:00.000Z",
                "identity": {"id": "j", "name": "laptop", "entity": "identities"}}]);
        let said = text(&of(false, 9, ends));
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("✗ 9 ends have no key"), "{said}");
        assert_eq!(lines[1], "  terminator t1 at paris (edge), hosted by pi");
        assert_eq!(
            lines[2],
            "  laptop (Dial session of ziti-sdk-c 1.2.3, since 2026-01-31T12:00:00.000Z)"
        );
        assert_eq!(lines[3], "  6 more: --offset 3");
    }
}
