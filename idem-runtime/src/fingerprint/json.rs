//! JSON by its meaning: one pass over the text leaves a list of pieces that are canonical as they stand, and the order
//! in which to write them. Nothing here grows with more than a small multiple of the text.

use std::{cmp::Ordering, ops::Range};

use super::{digest::Sink, number::Number, select::Selection, text};

/// How deep values may nest.
const DEPTH: usize = 128;

/// A document, ready to be written in canonical form.
pub(super) struct Document<'a> {
    text: &'a [u8],
    /// What is not canonical in the text, rewritten; and names whose order can't be seen in the text.
    scratch: Vec<u8>,
    pieces: Vec<Piece>,
    members: Vec<Member>,
    /// The pieces that each pointer of a keeping selection found.
    found: Option<Vec<Range<u32>>>,
}

#[derive(Clone, Copy)]
enum Piece {
    Text {
        start: u32,
        end: u32,
    },
    Scratch {
        start: u32,
        end: u32,
    },
    /// An object, by its members in canonical order; their pieces follow this one.
    Object {
        first: u32,
        last: u32,
    },
}

struct Member {
    /// Where the name is, without quotes and escapes.
    name: Range<u32>,
    in_scratch: bool,
    /// Name, colon and value; empty when it doesn't count.
    pieces: Range<u32>,
}

impl<'a> Document<'a> {
    /// Reads a document; `None` if it isn't one, repeats a member's name, nests too deep, or holds a number whose exponent
    /// is beyond `i64`.
    pub(super) fn read(text: &'a [u8], selection: Option<&Selection>) -> Option<Self> {
        u32::try_from(text.len()).ok()?;
        std::str::from_utf8(text).ok()?;
        let found = selection.filter(|selection| selection.keep).map(|selection| vec![0..0; selection.len()]);
        let document = Self { text, scratch: Vec::new(), pieces: Vec::new(), members: Vec::new(), found };
        let active = selection.map_or(0, Selection::len);
        let mut reader = Reader {
            document,
            selection,
            at: 0,
            floor: 0,
            open: Vec::new(),
            active: (0..active).collect(),
            decoded: Vec::new(),
        };
        reader.value(0, 0..active)?;
        if reader.settle(0, 0..active, 0) {
            reader.document.pieces.clear();
        }
        reader.space();
        (reader.at == text.len()).then_some(reader.document)
    }

    /// Writes what counts, in canonical form.
    pub(super) fn write(&self, out: &mut impl Sink) {
        let Some(found) = &self.found else { return self.write_pieces(0..self.pieces.len(), out) };
        for pieces in found {
            // Canonical JSON has no control characters.
            out.put(if pieces.is_empty() { &[0] } else { &[1] });
            self.write_pieces(usizes(pieces), out);
        }
    }

    fn write_pieces(&self, range: Range<usize>, out: &mut impl Sink) {
        let mut at = range.start;
        while at < range.end {
            let Some(&piece) = self.pieces.get(at) else { return };
            at += 1;
            match piece {
                Piece::Text { start, end } => out.put(slice(self.text, &(start..end))),
                Piece::Scratch { start, end } => out.put(slice(&self.scratch, &(start..end))),
                Piece::Object { first, last } => at = self.write_object(usizes(&(first..last)), at, out),
            }
        }
    }

    /// Returns where the pieces after the object begin.
    fn write_object(&self, members: Range<usize>, mut next: usize, out: &mut impl Sink) -> usize {
        let mut before: &[u8] = b"{";
        for member in self.members.get(members).unwrap_or_default().iter().filter(|member| !member.pieces.is_empty()) {
            let pieces = usizes(&member.pieces);
            next = next.max(pieces.end);
            out.put(before);
            self.write_pieces(pieces, out);
            before = b",";
        }
        out.put(if before == b"{" { b"{}" } else { b"}" });
        next
    }

    fn name(&self, member: &Member) -> &[u8] {
        slice(if member.in_scratch { &self.scratch } else { self.text }, &member.name)
    }
}

struct Reader<'a, 's> {
    document: Document<'a>,
    selection: Option<&'s Selection>,
    at: usize,
    /// Pieces below this one grow no more.
    floor: usize,
    /// The members of the objects that are not closed yet.
    open: Vec<Member>,
    /// For each value that is not closed yet, the pointers that lead to it or into it.
    active: Vec<usize>,
    decoded: Vec<u8>,
}

impl Reader<'_, '_> {
    fn value(&mut self, depth: usize, active: Range<usize>) -> Option<()> {
        self.space();
        match self.peek()? {
            b'{' => self.object(depth, active),
            b'[' => self.array(depth, active),
            b'"' => self.string().map(drop),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize, active: Range<usize>) -> Option<()> {
        if depth == DEPTH {
            return None;
        }
        self.at += 1;
        let head = self.document.pieces.len();
        self.document.pieces.push(Piece::Object { first: 0, last: 0 });
        let base = self.open.len();
        self.space();
        if !self.skip(b'}') {
            loop {
                self.member(depth, active.clone())?;
                self.space();
                if self.skip(b'}') {
                    break;
                }
                self.skip(b',').then_some(())?;
                self.space();
            }
        }
        let object = self.close(base)?;
        *self.document.pieces.get_mut(head)? = object;
        self.barrier();
        Some(())
    }

    fn member(&mut self, depth: usize, active: Range<usize>) -> Option<()> {
        self.barrier();
        let start = self.document.pieces.len();
        let (name, in_scratch) = match self.string()? {
            Some(name) => (name, false),
            None => (self.keep_decoded()?, true),
        };
        self.space();
        self.skip(b':').then_some(())?;
        self.text(self.at - 1, self.at)?;
        let mut member = Member { name, in_scratch, pieces: 0..0 };
        let child =
            self.enter(active, |selection, pointer, document| selection.names(pointer, depth, document.name(&member)));
        let value = self.document.pieces.len();
        self.value(depth + 1, child.clone())?;
        if self.settle(depth + 1, child, value) {
            self.document.pieces.truncate(start);
        }
        member.pieces = self.pieces_from(start)?;
        self.open.push(member);
        Some(())
    }

    /// Sorts the members of the innermost open object.
    fn close(&mut self, base: usize) -> Option<Piece> {
        let document = &mut self.document;
        let members = self.open.get_mut(base..)?;
        let order = |a: &Member, b: &Member| utf16_order(document.name(a), document.name(b));
        if !members.is_sorted_by(|a, b| order(a, b) == Ordering::Less) {
            members.sort_unstable_by(order);
            if !members.is_sorted_by(|a, b| document.name(a) != document.name(b)) {
                return None;
            }
        }
        let first = u32::try_from(document.members.len()).ok()?;
        document.members.extend(self.open.drain(base..));
        Some(Piece::Object { first, last: u32::try_from(document.members.len()).ok()? })
    }

    fn array(&mut self, depth: usize, active: Range<usize>) -> Option<()> {
        if depth == DEPTH {
            return None;
        }
        self.at += 1;
        self.text(self.at - 1, self.at)?;
        self.space();
        if self.skip(b']') {
            return self.text(self.at - 1, self.at);
        }
        let mut kept = false;
        for index in 0.. {
            let comma = self.at - 1;
            let child = self.enter(active.clone(), |selection, pointer, _| selection.indexes(pointer, depth, index));
            let start = self.document.pieces.len();
            if kept {
                self.text(comma, comma + 1)?;
            }
            if !child.is_empty() {
                self.barrier();
            }
            let value = self.document.pieces.len();
            self.value(depth + 1, child.clone())?;
            if self.settle(depth + 1, child, value) {
                self.document.pieces.truncate(start);
            } else {
                kept = true;
            }
            self.space();
            if self.skip(b']') {
                break;
            }
            self.skip(b',').then_some(())?;
        }
        self.text(self.at - 1, self.at)
    }

    /// The pointers that lead to a child, or into it.
    fn enter(
        &mut self,
        active: Range<usize>,
        names: impl Fn(&Selection, usize, &Document<'_>) -> bool,
    ) -> Range<usize> {
        let start = self.active.len();
        if let Some(selection) = self.selection {
            for at in active {
                if let Some(&pointer) = self.active.get(at)
                    && names(selection, pointer, &self.document)
                {
                    self.active.push(pointer);
                }
            }
        }
        if start < self.active.len() {
            self.barrier();
        }
        start..self.active.len()
    }

    /// Leaves a value whose pieces begin at `value`; says whether it is to be taken out.
    fn settle(&mut self, depth: usize, active: Range<usize>, value: usize) -> bool {
        let mut taken_out = false;
        if let Some(selection) = self.selection
            && !active.is_empty()
        {
            self.barrier();
            let pieces = self.pieces_from(value).unwrap_or_default();
            for &pointer in self.active.get(active.clone()).unwrap_or_default() {
                if selection.ends(pointer, depth) {
                    match self.document.found.as_mut().map(|found| found.get_mut(pointer)) {
                        None => taken_out = true,
                        Some(found) => drop(found.map(|found| *found = pieces.clone())),
                    }
                }
            }
            self.active.truncate(active.start);
        }
        taken_out
    }

    fn pieces_from(&self, start: usize) -> Option<Range<u32>> {
        Some(u32::try_from(start).ok()?..u32::try_from(self.document.pieces.len()).ok()?)
    }

    /// Reads a string: says where it is, if it has no escapes, or leaves it in `decoded`.
    fn string(&mut self) -> Option<Option<Range<u32>>> {
        self.skip(b'"').then_some(())?;
        let start = self.at;
        let end = text::plain_run(self.document.text, start);
        if self.document.text.get(end) == Some(&b'"') {
            self.at = end + 1;
            self.text(start - 1, self.at)?;
            return Some(Some(u32::try_from(start).ok()?..u32::try_from(end).ok()?));
        }
        self.decoded.clear();
        self.at = text::decode(self.document.text, start, &mut self.decoded)?;
        let start = self.document.scratch.len();
        text::encode(&self.decoded, &mut self.document.scratch);
        self.scratch(start)?;
        Some(None)
    }

    fn keep_decoded(&mut self) -> Option<Range<u32>> {
        let scratch = &mut self.document.scratch;
        let start = u32::try_from(scratch.len()).ok()?;
        scratch.extend_from_slice(&self.decoded);
        Some(start..u32::try_from(scratch.len()).ok()?)
    }

    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        self.document.text.get(self.at..)?.starts_with(literal).then_some(())?;
        self.at += literal.len();
        self.text(self.at - literal.len(), self.at)
    }

    fn number(&mut self) -> Option<()> {
        let from = self.at;
        let negative = self.skip(b'-');
        let whole = self.digits()?;
        if whole.len() > 1 && self.document.text.get(whole.start) == Some(&b'0') {
            return None;
        }
        let fraction = if self.skip(b'.') { self.digits()? } else { 0..0 };
        let exponent = if self.skip(b'e') || self.skip(b'E') {
            let start = self.at;
            let _ = self.skip(b'+') || self.skip(b'-');
            Some(start..self.digits()?.end)
        } else {
            None
        };
        let text = self.document.text;
        let number = Number {
            negative,
            whole: text.get(whole)?,
            fraction: text.get(fraction)?,
            exponent: exponent.and_then(|exponent| text.get(exponent)),
        };
        if number.is_canonical() {
            return self.text(from, self.at);
        }
        let start = self.document.scratch.len();
        number.write(&mut self.document.scratch)?;
        self.scratch(start)
    }

    fn digits(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(start..self.at)
    }

    /// Adds text that is canonical as it stands, to the piece before if it touches that.
    fn text(&mut self, from: usize, to: usize) -> Option<()> {
        let (from, to) = (u32::try_from(from).ok()?, u32::try_from(to).ok()?);
        if self.document.pieces.len() > self.floor
            && let Some(Piece::Text { end, .. }) = self.document.pieces.last_mut()
            && *end == from
        {
            *end = to;
        } else {
            self.document.pieces.push(Piece::Text { start: from, end: to });
        }
        Some(())
    }

    fn scratch(&mut self, from: usize) -> Option<()> {
        let (start, end) = (u32::try_from(from).ok()?, u32::try_from(self.document.scratch.len()).ok()?);
        self.document.pieces.push(Piece::Scratch { start, end });
        Some(())
    }

    fn barrier(&mut self) {
        self.floor = self.document.pieces.len();
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn skip(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn peek(&self) -> Option<u8> {
        self.document.text.get(self.at).copied()
    }
}

/// The order of two names by their UTF-16 code units: surrogates sort below U+E000 and what follows it.
fn utf16_order(a: &[u8], b: &[u8]) -> Ordering {
    match a.iter().zip(b).find(|(a, b)| a != b) {
        None => a.len().cmp(&b.len()),
        Some((&a, &b)) if a >= 0xEE && b >= 0xEE && (a >= 0xF0) != (b >= 0xF0) => b.cmp(&a),
        Some((a, b)) => a.cmp(b),
    }
}

fn slice<'b>(bytes: &'b [u8], range: &Range<u32>) -> &'b [u8] {
    bytes.get(usizes(range)).unwrap_or_default()
}

fn usizes(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
