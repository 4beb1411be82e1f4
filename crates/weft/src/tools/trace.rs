//! `weft trace show`: messages in a trace file of a controller or router (`trace.path` in its
//! file).

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read as _};
use std::path::Path;

use regex::Regex;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use weft_wire::trace::{ChannelMessage, ChannelState, Record, name_of};

use crate::cli::TraceShowArgs;
use crate::failure::{Failure, Result};
use crate::output::{self, Format, printable};

/// Prints the selected records in the order of the file.
pub(crate) fn show(args: &TraceShowArgs) -> Result<()> {
    let wanted = Wanted::new(args)?;
    let is_json = args.output.format() != Format::Table;
    let mut all = Vec::new();
    each(&args.file, |record| {
        if !wanted.has(&record) {
            return;
        }
        match args.output.format() {
            Format::Table => output::line(line(&record)),
            _ => all.push(value(&record)),
        }
    })?;
    if is_json {
        output::value(args.output.format(), &Value::Array(all), String::new);
    }
    Ok(())
}

/// Conditions on records.
struct Wanted {
    peer: Option<Regex>,
    kinds: Vec<String>,
}

impl Wanted {
    fn new(args: &TraceShowArgs) -> Result<Self> {
        let compile = |text: &String| {
            Regex::new(text).map_err(|error| Failure::usage(format!("--peer: {error}")))
        };
        let peer = args.peer.as_ref().map(compile).transpose()?;
        Ok(Self { peer, kinds: args.kind.iter().map(|kind| kind.to_lowercase()).collect() })
    }

    fn has(&self, record: &Record) -> bool {
        let (channel, remote) = match record {
            Record::State(state) => (&state.channel, state.remote_address.as_str()),
            Record::Message(message) => (&message.channel, ""),
        };
        let is_peer = |peer: &Regex| peer.is_match(channel) || peer.is_match(remote);
        if !self.peer.as_ref().is_none_or(is_peer) {
            return false;
        }
        match record {
            _ if self.kinds.is_empty() => true,
            Record::State(_) => false,
            Record::Message(message) => {
                let number = message.content_type.to_string();
                let name = name_of(message.content_type).unwrap_or_default().to_lowercase();
                self.kinds.iter().any(|kind| *kind == number || *kind == name)
            }
        }
    }
}

/// Reads a file record by record. A file that is being written may end within a record.
fn each(path: &Path, mut take: impl FnMut(Record)) -> Result<()> {
    let failed = |problem: String| Failure::new(format!("{}: {problem}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let (mut file, mut body) = (BufReader::new(file), Vec::new());
    loop {
        let mut head = [0; 8];
        match file.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(failed(error.to_string())),
        }
        let (kind, length) = Record::head(head).map_err(|error| failed(error.to_string()))?;
        body.resize(length, 0);
        match file.read_exact(&mut body) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(failed(error.to_string())),
        }
        let record = Record::decode(kind, &body).map_err(|error| failed(error.to_string()))?;
        record.into_iter().for_each(&mut take);
    }
}

fn line(record: &Record) -> String {
    let text = match record {
        Record::State(ChannelState { timestamp, channel, connected, remote_address, .. }) => {
            let word = if *connected { "open" } else { "closed" };
            format!("{} {word:<6} {channel} ({remote_address})", time(*timestamp))
        }
        Record::Message(message) => {
            let arrow = if message.is_rx { "<-" } else { "->" };
            let ChannelMessage { timestamp, channel, content_type, sequence, length, .. } = message;
            let name = name_of(*content_type).unwrap_or("unknown");
            let answers = match message.reply_for {
                -1 => String::new(),
                other => format!(" answers #{other}"),
            };
            let at = time(*timestamp);
            format!(
                "{at} {arrow:<6} {channel} {name} ({content_type}) #{sequence}{answers} {length} bytes"
            )
        }
    };
    // Labels of channels hold names that peers chose.
    printable::line(&text)
}

fn value(record: &Record) -> Value {
    match record {
        Record::State(state) => json!({
            "time": time(state.timestamp),
            "identity": state.identity,
            "channel": state.channel,
            "connected": state.connected,
            "remoteAddress": state.remote_address,
        }),
        Record::Message(message) => json!({
            "time": time(message.timestamp),
            "identity": message.identity,
            "channel": message.channel,
            "direction": if message.is_rx { "rx" } else { "tx" },
            "type": message.content_type,
            "name": name_of(message.content_type),
            "sequence": message.sequence,
            "replyFor": (message.reply_for != -1).then_some(message.reply_for),
            "length": message.length,
        }),
    }
}

fn time(nanos: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(nanos));
    at.ok().and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(channel: &str, content_type: i32) -> Record {
        Record::Message(ChannelMessage {
            channel: channel.into(),
            content_type,
            reply_for: -1,
            ..ChannelMessage::default()
        })
    }

    #[test]
    fn records_are_picked_by_peer_and_type() {
        let wanted = |peer: Option<&str>, kinds: &[&str]| Wanted {
            peer: peer.map(|peer| Regex::new(peer).unwrap()),
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        };
        let (payload, route) = (message("link from r2", 1100), message("ctrl1", 1005));
        let state =
            Record::State(ChannelState { channel: "ctrl1".into(), ..ChannelState::default() });
        assert!(wanted(None, &[]).has(&payload) && wanted(None, &[]).has(&state));
        assert!(wanted(Some("r2"), &[]).has(&payload) && !wanted(Some("r2"), &[]).has(&route));
        assert!(wanted(None, &["route"]).has(&route) && wanted(None, &["1005"]).has(&route));
        assert!(!wanted(None, &["route"]).has(&payload) && !wanted(None, &["route"]).has(&state));
        assert!(line(&route).contains("Route (1005)"));
    }

    #[test]
    fn a_file_that_ends_within_a_record_is_read_up_to_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let mut bytes = Vec::new();
        message("a", 1).encode(&mut bytes);
        let whole = bytes.len();
        message("b", 2).encode(&mut bytes);
        for (end, count) in [(whole, 1), (bytes.len() - 1, 1), (whole + 3, 1), (bytes.len(), 2)] {
            std::fs::write(&path, &bytes[..end]).unwrap();
            let mut seen = 0;
            each(&path, |_| seen += 1).unwrap();
            assert_eq!(seen, count);
        }
        std::fs::write(&path, [0, 0, 0, 0, 255, 255, 255, 127]).unwrap();
        assert!(each(&path, |_| {}).unwrap_err().to_string().contains("no record is longer"));
    }
}
