//! Multipart bodies by part, whatever the boundary.

use memchr::memmem::Finder;

use super::digest::Sink;

/// A body in parts.
pub(super) struct Form<'a> {
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    /// Lower-case names, sorted; those of one name in their order.
    headers: Vec<(Vec<u8>, &'a [u8])>,
    content: &'a [u8],
}

impl<'a> Form<'a> {
    /// Reads a body that has nothing before its first and after its last boundary.
    pub(super) fn read(body: &'a [u8], boundary: &[u8]) -> Option<Self> {
        if boundary.is_empty() {
            return None;
        }
        let delimiter = [b"\r\n--", boundary].concat();
        let find = Finder::new(&delimiter);
        let mut parts = Vec::new();
        // The first delimiter has no line before it to end.
        let mut rest = body.strip_prefix(delimiter.get(2..)?)?;
        loop {
            if let Some(end) = rest.strip_prefix(b"--") {
                return end.trim_ascii().is_empty().then_some(Self { parts });
            }
            while let [b' ' | b'\t', after @ ..] = rest {
                rest = after;
            }
            let part = rest.strip_prefix(b"\r\n")?;
            let end = find.find(part)?;
            parts.push(Part::read(part.get(..end)?)?);
            rest = part.get(end + delimiter.len()..)?;
        }
    }

    pub(super) fn write(&self, out: &mut impl Sink) {
        out.length(self.parts.len());
        for part in &self.parts {
            out.length(part.headers.len());
            for (name, value) in &part.headers {
                out.framed(name);
                out.framed(value);
            }
            out.framed(part.content);
        }
    }
}

impl<'a> Part<'a> {
    fn read(mut text: &'a [u8]) -> Option<Self> {
        let mut headers: Vec<(Vec<u8>, &[u8])> = Vec::new();
        loop {
            let end = memchr::memmem::find(text, b"\r\n")?;
            let line = text.get(..end)?;
            text = text.get(end + 2..)?;
            if line.is_empty() {
                // Stable: of one name the last may count, or the first.
                headers.sort_by(|a, b| a.0.cmp(&b.0));
                return Some(Self { headers, content: text });
            }
            let colon = line.iter().position(|&byte| byte == b':')?;
            headers.push((line.get(..colon)?.to_ascii_lowercase(), line.get(colon + 1..)?.trim_ascii()));
        }
    }
}
