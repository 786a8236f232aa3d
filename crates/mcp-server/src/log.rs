//! Logs of the process, on standard error: standard output belongs to the protocol.

use std::io;

use tracing::level_filters::LevelFilter;

/// Writes what is logged through `tracing` to standard error, from now on: this library's words and the program's.
///
/// The least level comes from the variable `RUST_LOG` (`error`, `warn`, `info`, `debug`, `trace` or `off`); without
/// it, `info`. A program that has set up `tracing` already keeps what it has.
///
/// ```
/// mcp_server::log_to_stderr();
/// tracing::info!("ready");
/// ```
pub fn log_to_stderr() {
    let level = std::env::var("RUST_LOG").ok().and_then(|level| level.parse().ok());
    let subscriber = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_max_level(level.unwrap_or(LevelFilter::INFO))
        .finish();
    // The program has one already.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
