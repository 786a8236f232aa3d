//! Configurations that make no sense do not compile.

#[test]
fn setters_of_the_other_target_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}
