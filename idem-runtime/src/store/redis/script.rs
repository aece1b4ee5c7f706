//! One script per verb.

use std::sync::LazyLock;

use ::redis::Cmd;

/// A script and the hash it is called by.
pub(super) struct Script {
    code: &'static str,
    hash: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hash: ::redis::Script::new(code).get_hash().to_owned() }
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

macro_rules! script {
    ($name:ident, $head:literal, $file:literal) => {
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!($head, include_str!("scripts/record.lua"), include_str!(concat!("scripts/", $file))))
        });
    };
}

// Without a first line a script runs until its first write is refused: so a claim still replays on a full server. The
// others finish what a claim was admitted for, full or not. None says `no-writes`, so none is answered by a replica.
script!(CLAIM, "", "claim.lua");
script!(COMPLETE, "#!lua flags=allow-oom\n", "complete.lua");
script!(RENEW, "#!lua flags=allow-oom\n", "renew.lua");
script!(RELEASE, "#!lua flags=allow-oom\n", "release.lua");
script!(HOLD, "#!lua flags=allow-oom\n", "hold.lua");
script!(GET, "#!lua flags=allow-oom\n", "get.lua");
