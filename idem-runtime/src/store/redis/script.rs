//! One script per verb.

use std::sync::LazyLock;

use ::redis::Cmd;

/// A script and the hash it is called by.
pub(super) struct Script {
    code: &'static str,
    hash: String,
    /// What to run instead where the server is full.
    pub(super) when_full: Option<&'static LazyLock<Script>>,
}

impl Script {
    fn new(code: &'static str, when_full: Option<&'static LazyLock<Self>>) -> Self {
        Self { code, hash: ::redis::Script::new(code).get_hash().to_owned(), when_full }
    }

    /// Calls it by its hash: a server that doesn't know it answers NOSCRIPT.
    pub(super) fn by_hash(&self, key: &[u8], args: &[&[u8]]) -> Cmd {
        invocation("EVALSHA", &self.hash, key, args)
    }

    /// Sends it whole, which also makes its hash known.
    pub(super) fn whole(&self, key: &[u8], args: &[&[u8]]) -> Cmd {
        invocation("EVAL", self.code, key, args)
    }
}

fn invocation(verb: &str, script: &str, key: &[u8], args: &[&[u8]]) -> Cmd {
    let size = script.len() + key.len() + args.iter().map(|arg| arg.len()).sum::<usize>() + 32;
    let mut cmd = Cmd::with_capacity(args.len() + 4, size);
    cmd.arg(verb).arg(script).arg(1).arg(key);
    for arg in args {
        cmd.arg(*arg);
    }
    cmd
}

macro_rules! code {
    ($head:literal $(, $file:literal)+) => {
        concat!("#!lua", $head, "\n" $(, include_str!(concat!("scripts/", $file)))+)
    };
}

macro_rules! script {
    ($name:ident, $code:expr, $when_full:expr) => {
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| Script::new($code, $when_full));
    };
}

// None says `no-writes`, so a server that may not write runs none of them: what a replica, or a primary cut off from its
// replicas, holds may be old, and must decide nothing. A full server refuses a claim, and its second form still answers
// from what is there; the others finish what a claim was admitted for.
script!(CLAIM, code!("\nlocal FULL = false", "replay.lua", "record.lua", "claim.lua"), Some(&CLAIM_WHEN_FULL));
script!(CLAIM_WHEN_FULL, code!(" flags=allow-oom\nlocal FULL = true", "replay.lua", "record.lua", "claim.lua"), None);
script!(COMPLETE, code!(" flags=allow-oom", "running.lua", "record.lua", "complete.lua"), None);
script!(RENEW, code!(" flags=allow-oom", "record.lua", "renew.lua"), None);
script!(RELEASE, code!(" flags=allow-oom", "record.lua", "release.lua"), None);
script!(HOLD, code!(" flags=allow-oom", "record.lua", "hold.lua"), None);
script!(GET, code!(" flags=allow-oom", "record.lua", "get.lua"), None);
