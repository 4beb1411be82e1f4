//! `weft why-path FROM SERVICE`: the path that a dial takes now, and why it takes no other.

use serde_json::Value;
use weft_client::ManagementClient;
use weft_contract::Api;
use weft_contract::resource::why_path::{
    ExplainedPath, PathEntry, PathExplanation, PathStep, PathTerminator, Verdict,
};

use super::{kind, row};
use crate::cli::WhyPathArgs;
use crate::entity::name;
use crate::failure::{Failure, Result};
use crate::output::{self, Format, counted, quoted, units};

/// Most terminators that are shown for a router, in the order of the controller's answer.
const SHOWN: usize = 12;
/// Marks the terminator that would be dialed if policies allowed it.
const NOT_ALLOWED: &str = "·";

/// Asks, and prints the answer.
pub(crate) async fn why_path(args: WhyPathArgs) -> Result<()> {
    let client = args.session.client().await?;
    let query: Vec<(&str, &str)> =
        args.instance.iter().map(|instance| ("instance", instance.as_str())).collect();
    let ids = [args.from.as_str(), args.service.as_str()];
    if ids.iter().any(|name| is_no_name(name)) {
        return Err(nobody(&client, &args).await);
    }
    let operation = row(Api::Weft, "explainPath")?;
    let answer: Value = match client.call_in(Api::Weft, operation, &ids, &query, None).await {
        Ok(answer) => answer,
        Err(error) if error.is_not_found() => return Err(nobody(&client, &args).await),
        Err(error) => return Err(error.into()),
    };
    if args.output.format() != Format::Table {
        output::value(args.output.format(), &answer, String::new);
        return Ok(());
    }
    let explanation: PathExplanation = serde_json::from_value(answer.clone())
        .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
    let via = args.via.as_deref();
    if let Some(via) = via
        && !explanation.entries.iter().any(|entry| is_called(entry, via))
    {
        let names: Vec<&str> =
            explanation.entries.iter().map(|entry| entry.router.name.as_str()).collect();
        let from = &explanation.from.name;
        return Err(Failure::not_found(format!("{from} does not enter over `{via}`"))
            .and(format!("it may enter over: {}", listed(&names))));
    }
    output::value(Format::Table, &answer, || text(&explanation, via));
    Ok(())
}

/// True for a name that no entity has, or that would change the address of a request.
fn is_no_name(name: &str) -> bool {
    ["", ".", ".."].contains(&name)
}

/// The failure that the service does not exist, or if it does, that the identity or router does not.
async fn nobody(client: &ManagementClient, args: &WhyPathArgs) -> Failure {
    let from = || {
        let from = &args.from;
        Failure::not_found(format!("there is no identity or router with the name or id `{from}`"))
            .and("`weft list identities` and `weft list edge-routers` show what there is")
    };
    if is_no_name(&args.from) {
        return from();
    }
    let service = match kind("service") {
        Ok(service) => name::resolve(client, service, &args.service).await,
        Err(failure) => return failure,
    };
    match service {
        Ok(_) => from(),
        Err(failure) => failure,
    }
}

fn is_called(entry: &PathEntry, name: &str) -> bool {
    entry.router.name == name || entry.router.id == name
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The explanation as text.
fn text(explanation: &PathExplanation, via: Option<&str>) -> String {
    let (from, service) = (&explanation.from.name, &explanation.service.name);
    let mut lines = Vec::new();
    let access = &explanation.access;
    let (mark, word) = if access.allowed { ("✓", "may") } else { ("✗", "may not") };
    lines.push(format!("{mark} {from} {word} dial {service}: {}", access.reason));
    if !access.allowed {
        let (from, service) = (quoted(from), quoted(service));
        lines.push(format!("  weft why {from} {service}    says what would help"));
    }
    lines.push(format!("  {service} chooses {}", strategy(&explanation.strategy)));
    if explanation.entries.is_empty() {
        lines.push(format!("✗ no edge router policy gives {from} a router to enter over"));
    }
    let usable = explanation.entries.iter().filter(|entry| entry.is_usable).count();
    if usable > 1 && via.is_none() {
        lines.push(format!(
            "  It enters over the router that its SDK finds nearest, one of {usable}; --via ROUTER \
             explains one."
        ));
    }
    // Explained in detail: the router of `--via`, or the first usable one.
    let first = explanation.entries.iter().find(|entry| match via {
        Some(via) => is_called(entry, via),
        None => entry.is_usable,
    });
    if let Some(first) = first {
        lines.push(String::new());
        lines.extend(entry_lines(first, access.allowed));
    }
    let others = explanation.entries.iter().filter(|entry| {
        via.is_none() && first.is_none_or(|first| first.router.id != entry.router.id)
    });
    let others: Vec<String> = others.map(|entry| short(entry, access.allowed)).collect();
    if !others.is_empty() {
        lines.push(String::new());
        lines.extend(others);
    }
    if explanation.more_entries > 0 {
        let more = counted(explanation.more_entries, "more router", "more routers");
        lines.push(format!("  and {more}"));
    }
    if explanation.is_cut {
        lines.push("  Not all other paths were looked for: the mesh is too large.".to_owned());
    }
    lines.join("\n")
}

fn strategy(word: &str) -> String {
    let means = match word {
        "smartrouting" => "the cheapest of the best precedence",
        "weighted" => "by chance, cheaper ones more often",
        "random" => "by chance, whatever the cost",
        "sticky" => "the cheapest for a first dial, the same again for a client that comes back",
        _ => return word.to_owned(),
    };
    format!("{means} ({word})")
}

/// An entry router, in one line.
fn short(entry: &PathEntry, is_allowed: bool) -> String {
    let name = &entry.router.name;
    if !entry.is_usable {
        return format!("✗ over {name}: {}", entry.reason);
    }
    let dialed = entry.terminators.iter().find(|it| it.share > 0.0);
    match dialed.and_then(|it| Some((it, it.paths.first()?))) {
        Some((it, path)) => format!(
            "{} over {name}: {} with cost {}",
            if is_allowed { "✓" } else { NOT_ALLOWED },
            way(name, &path.steps),
            it.cost.unwrap_or(path.cost)
        ),
        None => {
            let why = entry.terminators.first().map(|it| it.why.as_str());
            format!("✗ over {name}: {}", why.unwrap_or("the service has no host now"))
        }
    }
}

fn entry_lines(entry: &PathEntry, is_allowed: bool) -> Vec<String> {
    let name = &entry.router.name;
    if !entry.is_usable {
        return vec![format!("✗ Over {name}: {}", entry.reason)];
    }
    if entry.terminators.is_empty() {
        return vec![format!("✗ Over {name}: the service has no host now: it has no terminator")];
    }
    let mut lines = vec![format!("Over {name}, where the circuit begins:")];
    for terminator in entry.terminators.iter().take(SHOWN) {
        lines.extend(terminator_lines(name, terminator, is_allowed));
    }
    let more = entry.terminators.len().saturating_sub(SHOWN) as i64 + entry.more_terminators;
    if more > 0 {
        let more = counted(more, "more terminator", "more terminators");
        lines.push(format!("  and {more}; --output json shows them"));
    }
    lines
}

fn terminator_lines(entry: &str, terminator: &PathTerminator, is_allowed: bool) -> Vec<String> {
    let (mark, why) = match terminator.verdict {
        Verdict::Chosen | Verdict::Chance if !is_allowed => {
            (NOT_ALLOWED, "would be dialed if it were allowed")
        }
        Verdict::Chosen => ("✓", terminator.why.as_str()),
        Verdict::Chance => ("~", terminator.why.as_str()),
        _ => ("✗", terminator.why.as_str()),
    };
    let host = match &terminator.host {
        Some(host) => format!("hosted by {}", host.name),
        None => format!("binding {}", terminator.binding),
    };
    let router = &terminator.router.name;
    let id = &terminator.id;
    let mut lines = vec![format!("  {mark} terminator {id} at {router}, {host}: {why}")];
    if let (Some(cost), Some(path)) = (terminator.cost, terminator.paths.first()) {
        lines.push(format!(
            "      cost {cost} = {} path + {} terminator + {} experience{}; precedence {}",
            path.cost,
            terminator.static_cost,
            terminator.dynamic_cost,
            experience(terminator),
            terminator.precedence
        ));
    }
    for (at, path) in terminator.paths.iter().enumerate() {
        lines.extend(path_lines(entry, path, at == 0));
    }
    if let Some(blocked) = &terminator.blocked {
        let way = way(entry, &blocked.steps);
        lines.push(format!("      barred     {way} = {}: {}", blocked.cost, blocked.by.join("; ")));
    }
    lines
}

/// The parts of a dynamic cost: open circuits, and failed dials.
fn experience(terminator: &PathTerminator) -> String {
    let circuits = counted(terminator.circuits, "circuit", "circuits");
    match (terminator.circuits, terminator.failure_cost) {
        (0, 0) => String::new(),
        (_, 0) => format!(" ({circuits})"),
        (_, failures) => format!(" ({circuits}, {failures} for failed dials)"),
    }
}

fn path_lines(entry: &str, path: &ExplainedPath, is_taken: bool) -> Vec<String> {
    let way = way(entry, &path.steps);
    if !is_taken {
        let more = match path.more {
            0 => "the same cost, and later in the order".to_owned(),
            more => format!("{more} more"),
        };
        return vec![format!("      other path {way} = {}: {more}", path.cost)];
    }
    let mut lines = vec![format!("      path       {way} = {}", path.cost)];
    for step in &path.steps {
        lines.push(format!(
            "                 {} link {} (static cost {}, latency {}) + {} router {}",
            step.link_cost,
            step.link,
            step.static_cost,
            units::latencies(step.source_latency, step.dest_latency),
            step.router_cost,
            step.router.name
        ));
    }
    lines
}

/// The routers of a path.
fn way(entry: &str, steps: &[PathStep]) -> String {
    let entered = steps.iter().map(|step| step.router.name.as_str());
    std::iter::once(entry).chain(entered).collect::<Vec<_>>().join(" → ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explanation() -> PathExplanation {
        let step = |link: &str, cost: u64, to: &str| {
            json!({"link": link, "linkCost": cost, "staticCost": 1, "routerCost": 10,
                "sourceLatency": 2_100_000, "destLatency": 2_300_000, "router": {"name": to}})
        };
        serde_json::from_value(json!({
            "access": {"allowed": true, "reason": "allowed by staff"},
            "from": {"name": "laptop"}, "service": {"name": "web"}, "strategy": "smartrouting",
            "entries": [
                {"router": {"id": "p", "name": "paris"}, "isUsable": true, "isOnline": true,
                 "terminators": [
                    {"id": "t1", "router": {"name": "rome"}, "host": {"name": "server"},
                     "verdict": "chosen", "share": 1.0, "why": "dialed now", "cost": 20,
                     "staticCost": 3, "dynamicCost": 2, "circuits": 1, "precedence": "default",
                     "paths": [
                        {"cost": 15, "more": 0, "steps": [step("l1", 5, "rome")]},
                        {"cost": 30, "more": 15, "steps": [step("l2", 5, "oslo"), step("l3", 5, "rome")]}
                     ],
                     "blocked": {"by": ["link l9 between paris and rome is down"], "cost": 11,
                        "steps": [step("l9", 1, "rome")]}},
                    {"id": "t2", "router": {"name": "bonn"}, "binding": "transport",
                     "verdict": "offline", "why": "its router bonn is not connected", "paths": []}
                 ]},
                {"router": {"id": "r", "name": "rome"}, "isUsable": true, "terminators": [
                    {"id": "t1", "share": 1.0, "cost": 5, "paths": [{"cost": 0, "steps": []}]}]},
                {"router": {"id": "b", "name": "bonn"}, "isUsable": false, "reason": "it is not connected"}
            ]
        }))
        .unwrap()
    }

    #[test]
    fn a_path_is_told_with_its_costs_and_what_is_against_others() {
        let text = text(&explanation(), None);
        for line in [
            "✓ laptop may dial web: allowed by staff",
            "chooses the cheapest of the best precedence (smartrouting)",
            "one of 2; --via ROUTER",
            "Over paris, where the circuit begins:",
            "  ✓ terminator t1 at rome, hosted by server: dialed now",
            "cost 20 = 15 path + 3 terminator + 2 experience (1 circuit); precedence default",
            "path       paris → rome = 15",
            "5 link l1 (static cost 1, latency 2.10 ms + 2.30 ms) + 10 router rome",
            "other path paris → oslo → rome = 30: 15 more",
            "barred     paris → rome = 11: link l9 between paris and rome is down",
            "  ✗ terminator t2 at bonn, binding transport: its router bonn is not connected",
            "✓ over rome: rome with cost 5",
            "✗ over bonn: it is not connected",
        ] {
            assert!(text.contains(line), "{line}\n---\n{text}");
        }
    }

    #[test]
    fn nothing_is_dialed_by_who_may_not_dial() {
        let mut explanation = explanation();
        explanation.access.allowed = false;
        explanation.from.name = "my laptop".to_owned();
        let text = text(&explanation, None);
        for line in [
            "✗ my laptop may not dial web",
            "weft why 'my laptop' web    says",
            "  · terminator t1 at rome, hosted by server: would be dialed if it were allowed",
            "· over rome: rome with cost 5",
        ] {
            assert!(text.contains(line), "{line}\n---\n{text}");
        }
        assert!(!text.contains('✓') && !text.contains("dialed now"), "{text}");
    }

    #[test]
    fn what_is_against_the_only_terminator_is_said_of_every_router() {
        let mut explanation = explanation();
        let why = "it is the instance `a`, which was not asked for";
        for terminator in explanation.entries.iter_mut().flat_map(|it| &mut it.terminators) {
            (terminator.share, terminator.why) = (0.0, why.to_owned());
            terminator.verdict = Verdict::OtherInstance;
        }
        let text = text(&explanation, None);
        assert!(text.contains(&format!("✗ over rome: {why}")), "{text}");
    }

    #[test]
    fn a_latency_that_nobody_measured_is_none() {
        let mut explanation = explanation();
        explanation.entries[0].terminators[0].paths[0].steps[0].dest_latency = 65_000_000_000;
        let text = text(&explanation, None);
        assert!(text.contains("latency 2.10 ms + not measured"), "{text}");
    }

    #[test]
    fn one_router_can_be_asked_about() {
        let text = text(&explanation(), Some("rome"));
        assert!(text.contains("Over rome, where") && !text.contains("paris"), "{text}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let nothing: PathExplanation = serde_json::from_value(json!({
            "access": {"allowed": false, "reason": "the identity is disabled"},
            "from": {"name": "laptop"}, "service": {"name": "web"}, "strategy": "sticky"}))
        .unwrap();
        let text = text(&nothing, None);
        assert!(text.contains("✗ laptop may not dial web: the identity is disabled"), "{text}");
        assert!(text.contains("weft why laptop web") && text.contains("no edge router policy"));
    }
}
