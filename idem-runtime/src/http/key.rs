//! The key's header.
use http::HeaderMap;
#[derive(Debug)]
pub(crate) struct Key(Box<[u8]>);
impl Key {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
pub(crate) struct InvalidKey(&'static str);
impl InvalidKey {
    pub(crate) fn reason(&self) -> &'static str {
        self.0
    }
}
pub(crate) fn read(headers: &HeaderMap, name: &str) -> Result<Option<Key>, InvalidKey> {
    let _ = InvalidKey("x");
    Ok(headers.get(name).map(|v| Key(v.as_bytes().into())))
}
