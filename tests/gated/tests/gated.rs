//! The default features: no store but memory, no `uuid`.

#[test]
fn gated() {
    let cases = trybuild::TestCases::new();
    cases.pass("../ui/gated/pass/*.rs");
    cases.compile_fail("../ui/gated/*.rs");
}
