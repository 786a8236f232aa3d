//! Compiler errors for functions that are not valid handlers.

/// The expected messages depend on the compiler version. After an update, run with `TRYBUILD=overwrite` and review the
/// changes.
#[test]
fn compiler_errors_explain_invalid_handlers() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}
