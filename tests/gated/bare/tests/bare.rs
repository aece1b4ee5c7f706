//! No features: no attribute.

#[test]
fn bare() {
    trybuild::TestCases::new().compile_fail("../../ui/gated/bare/*.rs");
}
