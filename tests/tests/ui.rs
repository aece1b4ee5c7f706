//! What a mistake looks like. One mistake per case, named after it; each `.stderr` is read as a new user would.
//!
//! `TRYBUILD=overwrite cargo test -p idem-tests --test ui` accepts what is printed now.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    env::{self, consts::DLL_SUFFIX},
    fs,
    path::Path,
    process::Command,
};

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    for kind in ["arguments", "expressions", "item", "recovery", "signature", "state", "types"] {
        cases.compile_fail(format!("ui/{kind}/*.rs"));
    }
    if cfg!(feature = "postgres") {
        cases.compile_fail("ui/postgres/*.rs");
    }
}

/// Every option has an example, and the errors that the docs quote are printed by some case.
#[test]
fn the_docs_show_each_option_and_real_errors() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_to_string(here.join("../idem-macros/src/docs/attribute.md")).unwrap();
    let mut printed = String::new();
    for kind in fs::read_dir(here.join("ui")).unwrap() {
        for case in fs::read_dir(kind.unwrap().path()).unwrap() {
            let case = case.unwrap().path();
            if case.extension().is_some_and(|extension| extension == "stderr") {
                printed.push_str(&fs::read_to_string(case).unwrap());
            }
        }
    }
    let (_, options) = docs.split_once("# Options").unwrap();
    let options: Vec<_> = options.split("\n## ").skip(1).collect();
    assert_eq!(options.len(), 18);
    for option in options {
        let name = option.lines().next().unwrap();
        assert!(option.contains("#[idempotent(ttl = "), "{name} has no example");
        let (_, quoted) = option.split_once("``error").unwrap_or_else(|| panic!("{name} quotes no error"));
        let (quoted, _) = quoted.split_once("``").unwrap();
        assert!(printed.contains(quoted.trim()), "no case prints {quoted}");
    }
}

/// `IDEM_MACROS_DEBUG=1` prints what the attribute made of a handler.
#[test]
fn the_expansion_is_printed_on_request() {
    let dependencies = env::current_exe().unwrap().parent().unwrap().to_owned();
    let macros = fs::read_dir(dependencies).unwrap().map(|file| file.unwrap()).filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.contains("idem_macros-") && name.ends_with(DLL_SUFFIX)
    });
    let newest = macros.max_by_key(|file| file.metadata().unwrap().modified().unwrap()).unwrap().path();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("lib.rs");
    fs::write(&source, "#[idem_macros::idempotent(ttl = \"24h\")] pub async fn create() {}").unwrap();
    let printed = |switch: Option<&str>| {
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition=2024", "--crate-type=lib", "--emit=metadata"]).arg("--extern");
        rustc.arg(format!("idem_macros={}", newest.display())).arg("--out-dir").arg(folder.path()).arg(&source);
        match switch {
            Some(value) => rustc.env("IDEM_MACROS_DEBUG", value),
            None => rustc.env_remove("IDEM_MACROS_DEBUG"),
        };
        // Without the runtime it doesn't compile; the attribute has run by then.
        String::from_utf8(rustc.output().unwrap().stderr).unwrap().contains("__idem_captured.head")
    };
    assert_eq!([printed(Some("1")), printed(Some("0")), printed(None)], [true, false, false]);
}
