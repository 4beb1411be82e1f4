//! The requests at the socket of an agent: 13 bytes of magic, an op, and parameters (docs/protocol/operations.md 7).

use crate::level::Level;
use crate::limits::MAX_TEXT;
use crate::varint;

/// The first bytes of every request.
const MAGIC: [u8; 13] =
    [0x01, 0x0b, 0x0a, 0x0d, 0x0e, 0x0c, 0x0a, 0x0f, 0x0e, 0x0f, 0x00, 0x00, 0x0d];

/// The numbers of requests.
mod op {
    pub(super) const STACKS: u8 = 0x01;
    pub(super) const COLLECT: u8 = 0x02;
    pub(super) const MEMORY: u8 = 0x03;
    pub(super) const VERSION: u8 = 0x04;
    pub(super) const HEAP_PROFILE: u8 = 0x05;
    pub(super) const CPU_PROFILE: u8 = 0x06;
    pub(super) const STATS: u8 = 0x07;
    pub(super) const TRACE: u8 = 0x08;
    pub(super) const PROGRAM: u8 = 0x09;
    pub(super) const INFO: u8 = 0x0a;
    pub(super) const HEAP_DUMP: u8 = 0x0b;
    pub(super) const SET_COLLECTOR: u8 = 0x10;
    pub(super) const SET_LEVEL: u8 = 0x11;
    pub(super) const CUSTOM: u8 = 0x12;
    pub(super) const SET_MODULE_LEVEL: u8 = 0x13;
    pub(super) const CLEAR_MODULE_LEVEL: u8 = 0x14;
    pub(super) const CHANNEL: u8 = 0x15;
    pub(super) const INFO_AND_CAPABILITIES: u8 = 0x16;
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentRequest {
    /// The call stacks of all threads of work.
    Stacks,
    /// Give back memory that is not needed.
    Collect,
    /// The use of memory.
    Memory,
    /// The release of the language, or of the program.
    Version,
    /// A profile of the heap.
    HeapProfile,
    /// A profile of 30 s of processor time.
    CpuProfile,
    /// Numbers of threads and processors.
    Stats,
    /// A trace of 5 s.
    Trace,
    /// The file of the program.
    Program,
    /// What the program is.
    Info,
    /// The heap, into this file.
    HeapDump(String),
    /// How often the garbage collector runs, in percent.
    SetCollector(i64),
    /// The level of the log.
    SetLevel(Level),
    /// An operation of one kind of program.
    Custom {
        /// The kind of program.
        app: u8,
        /// Its operation.
        op: u8,
    },
    /// The level of a part of the log.
    SetModuleLevel(String, Level),
    /// The level of a part of the log is that of the log again.
    ClearModuleLevel(String),
    /// Messages follow, for this kind of program; 0 for any.
    Channel(u8),
    /// What the program is, and what it can do.
    InfoAndCapabilities,
    /// An op without a name here.
    Other(u8),
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestProblem {
    /// Other bytes than those of the magic.
    #[error("the first bytes are not those of a request to an agent")]
    Magic,
    /// A number of more than 64 bits.
    #[error("a number has more than 64 bits")]
    Number,
    /// A text that is too long, or has a negative length.
    #[error("a text has {0} bytes; {MAX_TEXT} are the most")]
    Length(i64),
    /// A text that is none.
    #[error("a text is not UTF-8")]
    Text,
    /// No level has this number.
    #[error("invalid log level {0}: 0 is panic, 6 is trace")]
    Level(u8),
}

/// The bytes of parameters that are not read yet.
struct Parameters<'b> {
    rest: &'b [u8],
}

/// Why parameters cannot be read.
enum Unread {
    Missing,
    Wrong(RequestProblem),
}

impl Parameters<'_> {
    fn byte(&mut self) -> Result<u8, Unread> {
        let (first, rest) = self.rest.split_first().ok_or(Unread::Missing)?;
        self.rest = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<i64, Unread> {
        let read = varint::read(self.rest).map_err(|_| Unread::Wrong(RequestProblem::Number))?;
        let (value, length) = read.ok_or(Unread::Missing)?;
        self.rest = self.rest.get(length..).unwrap_or_default();
        Ok(value)
    }

    fn text(&mut self) -> Result<String, Unread> {
        let length = self.number()?;
        let fits = usize::try_from(length).ok().filter(|length| *length <= MAX_TEXT);
        let wanted = fits.ok_or(Unread::Wrong(RequestProblem::Length(length)))?;
        let (text, rest) = self.rest.split_at_checked(wanted).ok_or(Unread::Missing)?;
        let text = std::str::from_utf8(text).map_err(|_| Unread::Wrong(RequestProblem::Text))?;
        self.rest = rest;
        Ok(text.to_owned())
    }

    fn level(&mut self) -> Result<Level, Unread> {
        let number = self.byte()?;
        Level::from_number(number).ok_or(Unread::Wrong(RequestProblem::Level(number)))
    }

    fn request(&mut self) -> Result<AgentRequest, Unread> {
        Ok(match self.byte()? {
            op::STACKS => AgentRequest::Stacks,
            op::COLLECT => AgentRequest::Collect,
            op::MEMORY => AgentRequest::Memory,
            op::VERSION => AgentRequest::Version,
            op::HEAP_PROFILE => AgentRequest::HeapProfile,
            op::CPU_PROFILE => AgentRequest::CpuProfile,
            op::STATS => AgentRequest::Stats,
            op::TRACE => AgentRequest::Trace,
            op::PROGRAM => AgentRequest::Program,
            op::INFO => AgentRequest::Info,
            op::HEAP_DUMP => AgentRequest::HeapDump(self.text()?),
            op::SET_COLLECTOR => AgentRequest::SetCollector(self.number()?),
            op::SET_LEVEL => AgentRequest::SetLevel(self.level()?),
            op::CUSTOM => AgentRequest::Custom { app: self.byte()?, op: self.byte()? },
            op::SET_MODULE_LEVEL => {
                let module = self.text()?;
                AgentRequest::SetModuleLevel(module, self.level()?)
            }
            op::CLEAR_MODULE_LEVEL => AgentRequest::ClearModuleLevel(self.text()?),
            op::CHANNEL => AgentRequest::Channel(self.byte()?),
            op::INFO_AND_CAPABILITIES => AgentRequest::InfoAndCapabilities,
            other => AgentRequest::Other(other),
        })
    }
}

impl AgentRequest {
    /// Most bytes of a request.
    pub const LONGEST: usize = MAGIC.len() + 1 + 10 + MAX_TEXT + 1;

    /// Reads a request from the front of `bytes`: the request and its length. `None` while bytes are missing.
    ///
    /// # Errors
    /// As soon as no further byte can make the bytes a request.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, RequestProblem> {
        let seen = bytes.len().min(MAGIC.len());
        if bytes.get(..seen) != MAGIC.get(..seen) {
            return Err(RequestProblem::Magic);
        }
        let Some(rest) = bytes.get(MAGIC.len()..) else { return Ok(None) };
        let mut parameters = Parameters { rest };
        match parameters.request() {
            Ok(request) => Ok(Some((request, bytes.len() - parameters.rest.len()))),
            Err(Unread::Missing) => Ok(None),
            Err(Unread::Wrong(problem)) => Err(problem),
        }
    }

    /// The request as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let text = |out: &mut Vec<u8>, text: &str| {
            varint::write(i64::try_from(text.len()).unwrap_or(i64::MAX), out);
            out.extend_from_slice(text.as_bytes());
        };
        out.push(self.op());
        match self {
            Self::HeapDump(path) => text(&mut out, path),
            Self::SetCollector(percent) => varint::write(*percent, &mut out),
            Self::SetLevel(level) => out.push(level.number()),
            Self::Custom { app, op } => out.extend([*app, *op]),
            Self::SetModuleLevel(module, level) => {
                text(&mut out, module);
                out.push(level.number());
            }
            Self::ClearModuleLevel(module) => text(&mut out, module),
            Self::Channel(app) => out.push(*app),
            _ => {}
        }
        out
    }

    fn op(&self) -> u8 {
        match self {
            Self::Stacks => op::STACKS,
            Self::Collect => op::COLLECT,
            Self::Memory => op::MEMORY,
            Self::Version => op::VERSION,
            Self::HeapProfile => op::HEAP_PROFILE,
            Self::CpuProfile => op::CPU_PROFILE,
            Self::Stats => op::STATS,
            Self::Trace => op::TRACE,
            Self::Program => op::PROGRAM,
            Self::Info => op::INFO,
            Self::HeapDump(_) => op::HEAP_DUMP,
            Self::SetCollector(_) => op::SET_COLLECTOR,
            Self::SetLevel(_) => op::SET_LEVEL,
            Self::Custom { .. } => op::CUSTOM,
            Self::SetModuleLevel(..) => op::SET_MODULE_LEVEL,
            Self::ClearModuleLevel(_) => op::CLEAR_MODULE_LEVEL,
            Self::Channel(_) => op::CHANNEL,
            Self::InfoAndCapabilities => op::INFO_AND_CAPABILITIES,
            Self::Other(op) => *op,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_magic(rest: &[u8]) -> Vec<u8> {
        [&MAGIC[..], rest].concat()
    }

    #[test]
    fn requests_are_those_of_the_wire() {
        let read =
            |rest: &[u8]| AgentRequest::parse(&with_magic(rest)).map(|it| it.map(|(it, _)| it));
        assert_eq!(read(&[0x07]), Ok(Some(AgentRequest::Stats)));
        assert_eq!(read(&[0x0a]), Ok(Some(AgentRequest::Info)));
        assert_eq!(read(&[0x16]), Ok(Some(AgentRequest::InfoAndCapabilities)));
        assert_eq!(read(&[0x10, 0xc8, 0x01]), Ok(Some(AgentRequest::SetCollector(100))));
        assert_eq!(read(&[0x11, 5]), Ok(Some(AgentRequest::SetLevel(Level::Debug))));
        assert_eq!(read(&[0x11, 7]), Err(RequestProblem::Level(7)));
        assert_eq!(read(&[0x12, 2, 128]), Ok(Some(AgentRequest::Custom { app: 2, op: 128 })));
        let module = AgentRequest::SetModuleLevel("link".to_owned(), Level::Trace);
        assert_eq!(read(b"\x13\x08link\x06"), Ok(Some(module)));
        assert_eq!(
            read(b"\x14\x08link"),
            Ok(Some(AgentRequest::ClearModuleLevel("link".to_owned())))
        );
        assert_eq!(read(&[0x15, 1]), Ok(Some(AgentRequest::Channel(1))));
        assert_eq!(read(&[0x80]), Ok(Some(AgentRequest::Other(0x80))));
    }

    #[test]
    fn lengths_are_judged_before_the_text_is_there() {
        let mut long = with_magic(&[0x0b]);
        varint::write(1025, &mut long);
        assert_eq!(AgentRequest::parse(&long), Err(RequestProblem::Length(1025)));
        assert_eq!(AgentRequest::parse(&with_magic(&[0x14, 1])), Err(RequestProblem::Length(-1)));
        assert_eq!(AgentRequest::parse(&with_magic(&[0x14, 2, 0xff])), Err(RequestProblem::Text));
        assert_eq!(AgentRequest::parse(b"GET / HTTP/1.1"), Err(RequestProblem::Magic));
        assert_eq!(AgentRequest::parse(b"\x01\x0bx"), Err(RequestProblem::Magic));
        let longest = AgentRequest::SetModuleLevel("m".repeat(MAX_TEXT), Level::Warn).to_bytes();
        assert!(longest.len() <= AgentRequest::LONGEST);
        assert!(AgentRequest::parse(&longest).unwrap().is_some());
    }

    fn any_request() -> impl Strategy<Value = AgentRequest> {
        let level = (0_u8..7).prop_map(|number| Level::from_number(number).unwrap());
        prop_oneof![
            Just(AgentRequest::Stacks),
            Just(AgentRequest::Memory),
            Just(AgentRequest::Info),
            "[a-z_:]{0,40}".prop_map(AgentRequest::HeapDump),
            any::<i64>().prop_map(AgentRequest::SetCollector),
            level.clone().prop_map(AgentRequest::SetLevel),
            any::<(u8, u8)>().prop_map(|(app, op)| AgentRequest::Custom { app, op }),
            ("\\PC{0,40}", level)
                .prop_map(|(module, level)| AgentRequest::SetModuleLevel(module, level)),
            "\\PC{0,40}".prop_map(AgentRequest::ClearModuleLevel),
            any::<u8>().prop_map(AgentRequest::Channel),
            (0x17_u8..).prop_map(AgentRequest::Other),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(request in any_request(), behind: Vec<u8>) {
            let mut bytes = request.to_bytes();
            let length = bytes.len();
            for shorter in 0..length {
                prop_assert_eq!(AgentRequest::parse(&bytes[..shorter]), Ok(None));
            }
            bytes.extend(behind);
            prop_assert_eq!(AgentRequest::parse(&bytes), Ok(Some((request, length))));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = AgentRequest::parse(&bytes);
            if let Ok(Some((_, length))) = AgentRequest::parse(&with_magic(&bytes)) {
                prop_assert!(length <= bytes.len() + MAGIC.len());
            }
        }
    }
}
