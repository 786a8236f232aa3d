//! Ctrl-C and SIGTERM: a server has a process group of its own and does not get them, so the host has to end it.

use std::pin::pin;

use crate::client::McpClient;

impl McpClient {
    /// Does some work; when the person presses Ctrl-C or the program is asked to end, drops the work, which cancels its
    /// calls on the server, closes the connection, and gives `None`.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::McpClient) -> mcp_client::Result<()> {
    /// let Some(outcome) = client.unless_interrupted(client.call("dig", serde_json::json!({})).into_future()).await else {
    ///     std::process::exit(130);
    /// };
    /// println!("{}", outcome?.text());
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancellation
    /// When dropped, the work is dropped. The signals go on being caught, as tokio has it: a second Ctrl-C does not end a
    /// program that no longer listens.
    pub async fn unless_interrupted<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        {
            let mut work = pin!(work);
            tokio::select! {
                done = &mut work => return Some(done),
                () = interrupted() => {}
            }
        }
        self.clone().close().await;
        None
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
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    let _ = tokio::signal::ctrl_c().await;
}
