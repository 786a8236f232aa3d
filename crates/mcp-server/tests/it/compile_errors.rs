//! What the compiler says about a function that cannot serve names what is wrong with it.

/// The messages are those of the compiler in use. After an update: `TRYBUILD=overwrite`, and read what changed.
#[test]
fn errors_name_what_is_wrong_with_a_handler() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}
