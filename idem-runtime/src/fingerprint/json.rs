//! JSON by its meaning, in one pass: what is canonical in the text is taken over as it stands, the rest is rewritten, and
//! an object whose members are out of order is put in order when it closes.

use std::{cmp::Ordering, mem, ops::Range};

use super::{digest::Sink, number::Number, select::Selection, text};

/// How deep values may nest.
const DEPTH: usize = 128;

/// A document in canonical form.
pub(super) struct Document<'a> {
    out: Vec<u8>,
    /// What follows `out`: text that was canonical.
    rest: &'a [u8],
    /// What each pointer of a keeping selection found; canonical JSON is never empty.
    found: Option<Vec<Vec<u8>>>,
}

impl<'a> Document<'a> {
    /// Reads a document; `None` if it isn't one, repeats a member's name, nests too deep, or holds a number whose exponent
    /// is beyond `i64`.
    pub(super) fn read(text: &'a [u8], selection: Option<&Selection>) -> Option<Self> {
        std::str::from_utf8(text).ok()?;
        let pointers = selection.map_or(0, Selection::len);
        let mut reader = Reader {
            text,
            at: 0,
            run: 0,
            out: Vec::new(),
            open: Vec::new(),
            names: Vec::new(),
            buffer: Vec::new(),
            selection,
            active: (0..pointers).collect(),
            found: vec![Vec::new(); pointers],
        };
        reader.space();
        reader.value(0, 0)?;
        if reader.settle(0, 0, 0) {
            reader.cut(0);
        }
        let rest = text.get(reader.run..reader.at)?;
        let only_space = text.get(reader.at..)?.iter().all(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
        let found = selection.filter(|selection| selection.keep).map(|_| reader.found);
        only_space.then_some(Self { out: reader.out, rest, found })
    }

    /// Writes what counts.
    pub(super) fn write(&self, out: &mut impl Sink) {
        match &self.found {
            None => {
                out.put(&self.out);
                out.put(self.rest);
            }
            Some(found) => found.iter().for_each(|value| out.framed(value)),
        }
    }
}

struct Reader<'a, 's> {
    text: &'a [u8],
    at: usize,
    /// `text[run..at]` follows `out`, and is not copied until something else has to follow it.
    run: usize,
    out: Vec<u8>,
    /// The members of the objects that are not closed yet.
    open: Vec<Member>,
    /// Their names, where these have escapes.
    names: Vec<u8>,
    buffer: Vec<u8>,
    selection: Option<&'s Selection>,
    /// For each value that is not closed yet, the pointers that lead to it or into it.
    active: Vec<usize>,
    found: Vec<Vec<u8>>,
}

struct Member {
    /// Where the name is, without quotes and escapes: in `names` or in the text.
    name: Range<usize>,
    escaped: bool,
    /// The ranks of the name's first eight bytes, which decide most comparisons.
    prefix: u64,
    /// Where the member is in the output; empty when it doesn't count.
    range: Range<usize>,
}

impl Reader<'_, '_> {
    fn value(&mut self, depth: usize, active: usize) -> Option<()> {
        match self.peek() {
            b'{' => self.object(depth, active),
            b'[' => self.array(depth, active),
            b'"' => self.string().map(|_| ()),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize, active: usize) -> Option<()> {
        if depth == DEPTH {
            return None;
        }
        self.at += 1;
        let start = self.length();
        let (base, names) = (self.open.len(), self.names.len());
        self.space();
        if !self.skip(b'}') {
            loop {
                self.member(depth, active)?;
                self.space();
                if self.skip(b'}') {
                    break;
                }
                self.skip(b',').then_some(())?;
                self.space();
            }
            self.sort(base, start)?;
            self.open.truncate(base);
            self.names.truncate(names);
        }
        Some(())
    }

    fn member(&mut self, depth: usize, active: usize) -> Option<()> {
        let start = self.length();
        let quote = self.at;
        let escaped = self.string()?;
        let name = if escaped {
            self.names.extend_from_slice(&self.buffer);
            self.names.len() - self.buffer.len()..self.names.len()
        } else {
            quote + 1..self.at - 1
        };
        self.space();
        self.skip(b':').then_some(())?;
        self.space();
        let mut member = Member { name, escaped, prefix: 0, range: 0..0 };
        member.prefix = prefix(name_of(&member, self.text, &self.names));
        let counts = self.child(depth, active, |reader, selection, pointer| {
            selection.names(pointer, depth, name_of(&member, reader.text, &reader.names))
        })?;
        if counts {
            member.range = start..self.length();
        }
        self.open.push(member);
        Some(())
    }

    /// Puts the members of an object that has just been closed in order.
    fn sort(&mut self, base: usize, start: usize) -> Option<()> {
        let members = self.open.get_mut(base..)?;
        let order = |a: &Member, b: &Member| {
            a.prefix.cmp(&b.prefix).then_with(|| {
                let [a, b] =
                    [a, b].map(|member| name_of(member, self.text, &self.names).iter().map(|&byte| rank(byte)));
                a.cmp(b)
            })
        };
        let ascending = members.is_sorted_by(|a, b| order(a, b) == Ordering::Less);
        if ascending && (self.selection.is_none() || members.iter().all(|member| !member.range.is_empty())) {
            return Some(());
        }
        members.sort_unstable_by(order);
        if !members.is_sorted_by(|a, b| order(a, b) == Ordering::Less) {
            return None;
        }
        // The members stand in the text as they are, unless something before the object's end had to be rewritten.
        let from = if let Some(before) = start.checked_sub(self.out.len()) {
            let from = self.run + before;
            self.copy_run(from);
            self.text.get(from..)?
        } else {
            self.copy_run(self.at);
            self.buffer.clear();
            self.buffer.extend_from_slice(self.out.get(start..)?);
            self.out.truncate(start);
            &self.buffer
        };
        for member in self.open.get(base..)?.iter().filter(|member| !member.range.is_empty()) {
            if self.out.len() > start {
                self.out.push(b',');
            }
            self.out.extend_from_slice(from.get(member.range.start - start..member.range.end - start)?);
        }
        self.out.push(b'}');
        Some(())
    }

    fn array(&mut self, depth: usize, active: usize) -> Option<()> {
        if depth == DEPTH {
            return None;
        }
        self.at += 1;
        self.space();
        if self.skip(b']') {
            return Some(());
        }
        let mut kept = false;
        let mut start = self.length();
        for index in 0.. {
            if self.child(depth, active, |_, selection, pointer| selection.indexes(pointer, depth, index))? {
                kept = true;
            } else {
                self.cut(start);
            }
            self.space();
            if self.skip(b']') {
                break;
            }
            start = self.length();
            self.skip(b',').then_some(())?;
            if !kept {
                self.cut(start);
            }
            self.space();
        }
        Some(())
    }

    /// Reads a value inside another one; says whether it counts.
    #[inline]
    fn child(&mut self, depth: usize, active: usize, leads: impl Fn(&Self, &Selection, usize) -> bool) -> Option<bool> {
        let end = self.active.len();
        if active < end
            && let Some(selection) = self.selection
        {
            for at in active..end {
                if let Some(&pointer) = self.active.get(at)
                    && leads(self, selection, pointer)
                {
                    self.active.push(pointer);
                }
            }
        }
        let start = self.length();
        self.value(depth + 1, end)?;
        Some(self.active.len() == end || !self.settle(depth + 1, end, start))
    }

    /// Leaves a value that begins at `start` in the output; says whether it is to be taken out.
    fn settle(&mut self, depth: usize, active: usize, start: usize) -> bool {
        let Some(selection) = self.selection else { return false };
        self.copy_run(self.at);
        let value = self.out.get(start..).unwrap_or_default();
        let mut hit = false;
        for &pointer in self.active.get(active..).unwrap_or_default() {
            if let Some(found) = self.found.get_mut(pointer)
                && selection.ends(pointer, depth)
            {
                hit = true;
                if selection.keep {
                    *found = value.to_vec();
                }
            }
        }
        self.active.truncate(active);
        hit && !selection.keep
    }

    /// Reads a string; says whether it has escapes, and then leaves what it means in `buffer`.
    fn string(&mut self) -> Option<bool> {
        let quote = self.at;
        self.skip(b'"').then_some(())?;
        self.at = text::plain_run(self.text, self.at);
        if self.skip(b'"') {
            return Some(false);
        }
        let mut buffer = mem::take(&mut self.buffer);
        buffer.clear();
        let end = text::decode(self.text, quote + 1, &mut buffer);
        self.buffer = buffer;
        self.at = end?;
        self.copy_run(quote);
        text::encode(&self.buffer, &mut self.out);
        Some(true)
    }

    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        self.text.get(self.at..)?.starts_with(literal).then_some(())?;
        self.at += literal.len();
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        let negative = self.skip(b'-');
        let whole = self.digits()?;
        if !negative && self.peek() < b'.' && whole.len() < 16 && !whole.starts_with(b"0") {
            return Some(());
        }
        if whole.len() > 1 && whole.starts_with(b"0") {
            return None;
        }
        let fraction = if self.skip(b'.') { self.digits()? } else { &[] };
        let mut exponent = None;
        if self.skip(b'e') || self.skip(b'E') {
            let start = self.at;
            let _ = self.skip(b'+') || self.skip(b'-');
            self.digits()?;
            exponent = self.text.get(start..self.at);
        }
        let number = Number { negative, whole, fraction, exponent };
        if !number.is_canonical() {
            self.copy_run(start);
            number.write(&mut self.out)?;
        }
        Some(())
    }

    /// Copies the run up to a place in the text; it goes on where reading goes on.
    fn copy_run(&mut self, end: usize) {
        if self.out.capacity() == 0 {
            self.out.reserve(self.text.len());
        }
        self.out.extend_from_slice(self.text.get(self.run..end).unwrap_or_default());
        self.run = self.at;
    }

    /// Takes back what was put out since `length`.
    fn cut(&mut self, length: usize) {
        self.copy_run(self.at);
        self.out.truncate(length);
    }

    fn length(&self) -> usize {
        self.out.len() + (self.at - self.run)
    }

    #[inline]
    fn space(&mut self) {
        if self.peek() <= b' ' {
            self.skip_space();
        }
    }

    #[cold]
    fn skip_space(&mut self) {
        let start = self.at;
        while let b' ' | b'\n' | b'\r' | b'\t' = self.peek() {
            self.at += 1;
        }
        if self.at > start {
            self.copy_run(start);
        }
    }
}

impl<'a> Reader<'a, '_> {
    fn digits(&mut self) -> Option<&'a [u8]> {
        let rest = self.text.get(self.at..)?;
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        rest.get(..count).filter(|digits| !digits.is_empty())
    }

    #[inline]
    fn skip(&mut self, byte: u8) -> bool {
        if self.peek() != byte {
            return false;
        }
        self.at += 1;
        true
    }

    /// The next byte; at the end a zero, which no document has outside of strings.
    #[inline]
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }
}

fn name_of<'b>(member: &Member, text: &'b [u8], names: &'b [u8]) -> &'b [u8] {
    if member.escaped { names } else { text }.get(member.name.clone()).unwrap_or_default()
}

/// Where a byte of a name sorts: UTF-16 puts what needs surrogates, whose UTF-8 begins with F0 to F4, below U+E000, whose
/// UTF-8 begins with EE.
fn rank(byte: u8) -> u8 {
    match byte {
        0xEE | 0xEF => byte + 5,
        0xF0.. => byte - 2,
        _ => byte,
    }
}

/// The ranks of up to eight bytes, so that two names which differ in them sort as these numbers do.
fn prefix(name: &[u8]) -> u64 {
    let mut eight = [0; 8];
    match name.first_chunk() {
        Some(first) => eight = *first,
        None => eight.iter_mut().zip(name).for_each(|(to, byte)| *to = *byte),
    }
    let word = u64::from_be_bytes(eight);
    if word & 0x8080_8080_8080_8080 == 0 { word } else { u64::from_be_bytes(eight.map(rank)) }
}
