//! Logging to stderr; stdout is reserved for protocol messages (MCP 2026-07-28, basic/transports/stdio).

use std::io;

use tracing::level_filters::LevelFilter;

/// Installs a global `tracing` subscriber that writes all events of the process to stderr.
///
/// The environment variable `RUST_LOG` sets the minimum level (`error`, `warn`, `info`, `debug`, `trace` or `off`);
/// default `info`, also for any other value, such as `my_crate=debug`. Does nothing if a global subscriber is already
/// installed.
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
    // Fails if a global subscriber is already installed.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
