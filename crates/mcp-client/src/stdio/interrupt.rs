//! Handling of Ctrl-C and SIGTERM. A server has its own process group and does not receive these signals, so the host
//! has to end it.

use crate::client::McpClient;

/// Runs a future until it completes. On Ctrl-C or SIGTERM it drops the future and returns `None`.
///
/// Use this function for work that begins before there is a client, such as connecting: dropping the future kills the
/// server that it started. The signals are caught from the first poll on, before the future itself is polled.
///
/// ```no_run
/// # async fn example() -> mcp_client::Result<()> {
/// use mcp_client::{McpClient, ServerConfig};
///
/// let connecting = McpClient::connect(ServerConfig::command("weather"));
/// let Some(client) = mcp_client::unless_interrupted(connecting).await else { std::process::exit(130) };
/// # client?.close().await;
/// # Ok(()) }
/// ```
///
/// # Cancellation
/// Dropping the returned future drops `work`. As with `tokio::signal`, the signals stay caught afterwards: a second
/// Ctrl-C does not end the program.
pub async fn unless_interrupted<W: IntoFuture>(work: W) -> Option<W::Output> {
    let work = work.into_future();
    tokio::select! {
        // The signals are polled first, so that a signal cannot leave a started process behind.
        biased;
        () = interrupted() => None,
        done = work => Some(done),
    }
}

impl McpClient {
    /// Runs `work` until it completes. On Ctrl-C or SIGTERM it drops `work`, which cancels its calls on the server,
    /// closes the connection, and returns `None`.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::McpClient) -> mcp_client::Result<()> {
    /// let Some(outcome) = client.unless_interrupted(client.call("dig", ())).await else {
    ///     std::process::exit(130);
    /// };
    /// println!("{}", outcome?.text());
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancellation
    /// Dropping the returned future drops `work`. As with `tokio::signal`, the signals stay caught afterwards: a second
    /// Ctrl-C does not end the program.
    pub async fn unless_interrupted<W: IntoFuture>(&self, work: W) -> Option<W::Output> {
        let done = unless_interrupted(work).await;
        if done.is_none() {
            self.clone().close().await;
        }
        done
    }
}

#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = ctrl_c() => {}
        () = terminated => {}
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    ctrl_c().await;
}

/// Waits for Ctrl-C, or forever if it cannot be caught.
async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
