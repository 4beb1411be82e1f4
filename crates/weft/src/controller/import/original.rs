//! The files of the original's controller: its configuration, and the database that this names.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::failure::{Failure, Result};
use crate::yaml::{self, Node};

/// The name of the database in a cluster's data folder.
const IN_CLUSTER: &str = "ctrl-ha.db";
/// Most bytes of a controller's file.
const MAX_FILE: u64 = 1 << 20;
/// What the first page of a database has at offset 16.
const DATABASE: [u8; 4] = 0xED0C_DAED_u32.to_le_bytes();

/// What an argument names.
pub(super) struct Original {
    /// The controller's file; none if the argument is a database.
    pub(super) file: Option<OriginalFile>,
    /// The database.
    pub(super) database: PathBuf,
}

/// A controller's file of the original.
pub(super) struct OriginalFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) document: Node,
}

impl Original {
    /// Finds the files that an argument means: a controller's file with its database, or a database alone. `database` is
    /// another copy of the database.
    pub(super) fn find(argument: &Path, database: Option<&Path>) -> Result<Self> {
        let is_file = std::fs::metadata(argument).map_err(|error| at(argument, error))?.is_file();
        if !is_file {
            let problem = "is not a file: name the controller's file or its database";
            return Err(at(argument, problem));
        }
        let mut begin = Vec::new();
        let opened = File::open(argument).map_err(|error| at(argument, error))?;
        opened.take(MAX_FILE + 1).read_to_end(&mut begin).map_err(|error| at(argument, error))?;
        // A database with a damaged beginning is told from text by its zeros.
        let is_database = begin.get(16..20) == Some(&DATABASE) || begin.contains(&0);
        if is_database || begin.len() as u64 > MAX_FILE {
            return match database {
                None => Ok(Self { file: None, database: argument.to_owned() }),
                Some(_) => Err(at(argument, "is a database, and --database names another one")),
            };
        }
        let text =
            String::from_utf8(begin).map_err(|_| at(argument, "is neither text nor a database"))?;
        let file = OriginalFile::parse(argument, &text)?;
        let database = match database {
            Some(database) => database.to_owned(),
            None => file.database()?,
        };
        Ok(Self { file: Some(file), database })
    }
}

impl OriginalFile {
    /// Reads the text of a file.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self> {
        let mut documents = yaml::read(text)
            .map_err(|error| at(path, format_args!("line {}: {}", error.line, error.message)))?;
        if documents.is_empty() {
            return Err(at(path, "is empty"));
        }
        let document = documents.remove(0);
        Ok(Self { path: path.to_owned(), text: text.to_owned(), document })
    }

    /// The database that it names.
    pub(super) fn database(&self) -> Result<PathBuf> {
        let settings = self.document.to_json();
        let member = |pointer: &str| settings.pointer(pointer).and_then(Value::as_str);
        let folder = member("/cluster/dataDir").or_else(|| member("/raft/dataDir"));
        let path = match (folder, member("/db")) {
            (Some(folder), _) => Path::new(&self.expanded(folder)?).join(IN_CLUSTER),
            (None, Some(path)) => PathBuf::from(self.expanded(path)?),
            (None, None) => {
                let problem = "names no database: neither `db` nor `cluster.dataDir` is set";
                return Err(at(&self.path, problem));
            }
        };
        Ok(self.beside(&path))
    }

    /// A path of the file. The original begins relative paths at its working folder, which is often that of the file.
    pub(super) fn beside(&self, path: &Path) -> PathBuf {
        match self.path.parent().map(|folder| folder.join(path)) {
            Some(beside) if path.is_relative() && !path.exists() => beside,
            _ => path.to_owned(),
        }
    }

    /// A text with the values of the variables that it names as `${NAME}`.
    pub(super) fn expanded(&self, text: &str) -> Result<String> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, behind)) = after.split_once('}') else { break };
            let value = std::env::var(name).map_err(|_| {
                at(&self.path, format_args!("names the variable {name}, which is not set"))
            })?;
            expanded.push_str(before);
            expanded.push_str(&value);
            rest = behind;
        }
        Ok(expanded + rest)
    }
}

/// The digest of a file, read in parts.
pub(super) fn digest_of(path: &Path) -> Result<[u8; 32]> {
    let mut file = File::open(path).map_err(|error| at(path, error))?;
    let mut digest = Sha256::new();
    let mut part = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut part).map_err(|error| at(path, error))?;
        let Some(read) = part.get(..read).filter(|read| !read.is_empty()) else { break };
        digest.update(read);
    }
    Ok(digest.finalize().into())
}

/// A failure at a file.
pub(super) fn at(path: &Path, problem: impl std::fmt::Display) -> Failure {
    Failure::new(format_args!("{}: {problem}", path.display()))
}
