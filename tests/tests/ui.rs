//! What a mistake looks like. One mistake per case, named after it; each `.stderr` is read as a new user would.
//!
//! `TRYBUILD=overwrite cargo test -p idem-tests --test ui` accepts what is printed now.

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
