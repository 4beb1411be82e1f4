//! Edits of a file's tree: entries leave it or get other values, and each edit is noted with its line.

use super::comments::{Extent, Layout};
use super::note::{KeyNote, KeyOutcome};
use crate::file::is_set;
use crate::yaml::{MapEntry, Node, SourceLocation, YamlTree, YamlValue};

/// The tree of a file while it is edited.
pub(super) struct Editor<'t> {
    pub(super) tree: Node,
    pub(super) text: Layout<'t>,
    pub(super) notes: Vec<KeyNote>,
}

impl<'t> Editor<'t> {
    pub(super) fn new(tree: YamlTree, text: &'t str) -> Self {
        let mut editor = Self { tree: tree.root, text: Layout::of(text), notes: Vec::new() };
        for twice in tree.twice {
            let reason = format!("it is there again in line {}, which counts", twice.last.line);
            editor.note_at(twice.first.line, &twice.key, KeyOutcome::LeftOut, reason);
        }
        editor
    }

    /// The value at a path.
    pub(super) fn find(&self, path: &str) -> Option<&Node> {
        let mut node = &self.tree;
        let mut rest = path;
        while !rest.is_empty() {
            (node, rest) = step(node, rest)?;
        }
        Some(node)
    }

    /// True if there is a value at a path.
    pub(super) fn is_set(&self, path: &str) -> bool {
        self.find(path).is_some_and(|node| is_set(&node.value))
    }

    /// The line of a path's key or element; 0 if the path is not in the tree.
    pub(super) fn line(&self, path: &str) -> usize {
        let mut node = &self.tree;
        let mut rest = path;
        let mut line = 0;
        while !rest.is_empty() {
            let entry = entry_at(node, rest);
            let Some((next, behind)) = step(node, rest) else { return 0 };
            line = entry.map_or(next.location.line, |entry| entry.location.line);
            (node, rest) = (next, behind);
        }
        line
    }

    /// Notes what became of a key.
    pub(super) fn note(&mut self, path: &str, outcome: KeyOutcome, reason: impl Into<String>) {
        self.note_at(self.line(path), path, outcome, reason);
    }

    pub(super) fn note_at(
        &mut self,
        line: usize,
        path: &str,
        outcome: KeyOutcome,
        reason: impl Into<String>,
    ) {
        let note = KeyNote { line, key: path.to_owned(), outcome, reason: reason.into() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Gives a path another value.
    pub(super) fn replace(&mut self, path: &str, value: YamlValue) {
        if let Some(node) = find_mut(&mut self.tree, path) {
            // The text of the file is not that of the value any more.
            node.location.length = 0;
            node.value = value;
        }
    }

    /// Adds an outermost entry before another one, or behind `v`.
    pub(super) fn insert_before(&mut self, other: Option<&str>, key: &str, value: YamlValue) {
        let YamlValue::Map(entries) = &mut self.tree.value else { return };
        let index = match other {
            Some(other) => entries.iter().position(|entry| entry.key == other),
            None => entries.iter().position(|entry| entry.key == "v").map(|index| index + 1),
        };
        let index = index.unwrap_or(0).min(entries.len());
        let beside = entries.get(if other.is_some() { index } else { index.saturating_sub(1) });
        let line = beside.map_or(1, |entry| entry.location.line);
        let location = SourceLocation { line, column: 1, length: 0 };
        let node = Node { location, value, variables: Vec::new() };
        entries.insert(index, MapEntry { key: key.to_owned(), location, node });
    }

    /// Removes the entry or element at a path, and what is empty without it.
    pub(super) fn remove(&mut self, path: &str) {
        let mut path = path;
        loop {
            let Some((parent, last)) = parent_of(&self.tree, path) else { return };
            let parent_line = self.line(parent);
            let Some(node) = find_mut(&mut self.tree, parent) else { return };
            let Some((extent, is_empty)) = take(node, last, parent_line, &self.text) else {
                return;
            };
            if let Some(extent) = extent {
                self.text.leave_out(&extent);
            }
            if !is_empty || parent.is_empty() {
                return;
            }
            path = parent;
        }
    }

    /// Removes a path, and says why.
    pub(super) fn leave_out(&mut self, path: &str, reason: impl Into<String>) {
        self.note(path, KeyOutcome::LeftOut, reason);
        self.remove(path);
    }
}

/// Takes an entry or element out of a map or list: the lines that leave with it, and whether nothing is left.
fn take(
    node: &mut Node,
    last: &str,
    parent_line: usize,
    text: &Layout<'_>,
) -> Option<(Option<Extent>, bool)> {
    let (location, taken, others, is_empty) = match &mut node.value {
        YamlValue::Map(entries) => {
            let index = entries.iter().position(|entry| entry.key == last)?;
            let entry = entries.remove(index);
            let others: Vec<usize> = entries.iter().map(|entry| entry.location.line).collect();
            (entry.location, entry.node, others, entries.is_empty())
        }
        YamlValue::List(items) => {
            let index = last.strip_prefix('[')?.strip_suffix(']')?.parse::<usize>().ok()?;
            if index >= items.len() {
                return None;
            }
            let item = items.remove(index);
            let others: Vec<usize> = items.iter().map(|item| item.location.line).collect();
            (item.location, item, others, items.is_empty())
        }
        _ => return None,
    };
    let SourceLocation { line, column, .. } = location;
    let next = others.iter().copied().filter(|at| *at > line).min();
    let extent = Extent {
        first: line,
        last: last_line(&taken, line, next.unwrap_or(usize::MAX), text),
        column,
        begins_line: parent_line != line,
    };
    // Another value in the same line keeps the line's comments.
    Some(((!others.contains(&line)).then_some(extent), is_empty))
}

/// The last line of a value that begins in a line; values of aliases are elsewhere.
fn last_line(node: &Node, first: usize, next: usize, text: &Layout<'_>) -> usize {
    let is_here = |line: usize| line >= first && line < next;
    let own = text.end_of(node.location);
    let own = if is_here(own) { own } else { first };
    let below = |nodes: &mut dyn Iterator<Item = &Node>| {
        nodes.map(|node| last_line(node, first, next, text)).max().unwrap_or(first)
    };
    own.max(match &node.value {
        YamlValue::Map(entries) => below(&mut entries.iter().map(|entry| &entry.node)),
        YamlValue::List(items) => below(&mut items.iter()),
        _ => first,
    })
}

/// The path of the map or list around a path, and what the path is in it: a key, or `[` index `]`.
fn parent_of<'p>(tree: &Node, path: &'p str) -> Option<(&'p str, &'p str)> {
    let mut node = tree;
    let mut rest = path;
    while !rest.is_empty() {
        let (next, behind) = step(node, rest)?;
        if behind.is_empty() {
            let parent = path.get(..path.len() - rest.len())?;
            return Some((parent, rest.strip_prefix('.').unwrap_or(rest)));
        }
        (node, rest) = (next, behind);
    }
    None
}

/// The length of the part of a path that is a key of a map: names of event handlers may have dots, so that the longest
/// one counts.
fn key_length(entries: &[MapEntry], rest: &str) -> Option<usize> {
    let fits = |entry: &&MapEntry| {
        let behind = rest.strip_prefix(entry.key.as_str());
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(['.', '[']))
    };
    entries.iter().filter(fits).map(|entry| entry.key.len()).max()
}

fn entry_at<'n>(node: &'n Node, rest: &str) -> Option<&'n MapEntry> {
    let YamlValue::Map(entries) = &node.value else { return None };
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    let key = rest.get(..key_length(entries, rest)?)?;
    entries.iter().find(|entry| entry.key == key)
}

fn step<'n, 'p>(node: &'n Node, rest: &'p str) -> Option<(&'n Node, &'p str)> {
    match &node.value {
        YamlValue::List(items) => {
            let (index, behind) = rest.strip_prefix('[')?.split_once(']')?;
            Some((items.get(index.parse::<usize>().ok()?)?, behind))
        }
        _ => {
            let entry = entry_at(node, rest)?;
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            Some((&entry.node, rest.get(entry.key.len()..)?))
        }
    }
}

fn find_mut<'n>(node: &'n mut Node, path: &str) -> Option<&'n mut Node> {
    let mut node = node;
    let mut rest = path;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        match &mut node.value {
            YamlValue::List(items) => {
                let (index, behind) = rest.strip_prefix('[')?.split_once(']')?;
                node = items.get_mut(index.parse::<usize>().ok()?)?;
                rest = behind;
            }
            YamlValue::Map(entries) => {
                let length = key_length(entries, rest)?;
                let (key, behind) = rest.split_at_checked(length)?;
                node = &mut entries.iter_mut().find(|entry| entry.key == key)?.node;
                rest = behind;
            }
            _ => return None,
        }
    }
    Some(node)
}
