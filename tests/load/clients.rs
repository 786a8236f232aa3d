//! Our client with many children at once, and through many lives: nothing is left of any of them.

use std::time::Duration;

use mcp_client::{McpClient, ServerConfig};
use serde_json::json;

/// Children at once.
const CHILDREN: usize = 300;
/// Lives before and after the first look.
const WARM_UP: usize = 100;
const CYCLES: usize = 900;
/// What the memory of this program may grow by, in KiB.
const MOST_GROWTH: u64 = 2 << 10;
/// What all of it may take.
const PATIENCE: Duration = Duration::from_secs(120);

fn config() -> Result<ServerConfig, String> {
    let program =
        std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("example-everything");
    Ok(ServerConfig::command(program).into())
}

fn run<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let timed =
        async { tokio::time::timeout(PATIENCE, work).await.map_err(|_| "it takes too long".to_owned())? };
    runtime.block_on(timed)
}

/// What this program holds.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    futures: usize,
    children: usize,
}

impl Held {
    /// True if there is no more of anything than before.
    fn is_within(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && self.futures <= before.futures
            && self.children <= before.children
    }
}

fn held() -> Held {
    let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
    let own = std::process::id().to_string();
    let is_child = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1).map(str::to_owned));
        parent.as_ref() == Some(&own)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    Held {
        descriptors: count("/proc/self/fd"),
        threads: count("/proc/self/task"),
        futures: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        children: processes.map(is_child).filter(|is_child| *is_child).count(),
    }
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

async fn echo(client: &McpClient, text: &str) -> Result<(), String> {
    let outcome = client.call("echo", json!({ "text": text })).await.map_err(|error| error.to_string())?;
    if outcome.text() == text { Ok(()) } else { Err(format!("{text} came back as {}", outcome.text())) }
}

/// Many children at once, all usable, and no thread for any of them.
pub(crate) fn children() -> Result<String, String> {
    run(async {
        let before = held();
        let mut clients = Vec::new();
        for _ in 0..CHILDREN {
            clients.push(McpClient::connect(config()?).await.map_err(|error| error.to_string())?);
        }
        let with_all = held();
        for (number, client) in clients.iter().enumerate() {
            echo(client, &number.to_string()).await?;
        }
        let mut closing = tokio::task::JoinSet::new();
        for client in clients {
            closing.spawn(client.close());
        }
        while closing.join_next().await.is_some() {}
        let after = held();
        // Fewer may be there: a part that ran before may still have been ending a thread of its own.
        if with_all.threads > before.threads || with_all.children != CHILDREN {
            return Err(format!("{before:?} became {with_all:?}"));
        }
        if !after.is_within(&before) {
            return Err(format!("{before:?} became {after:?}"));
        }
        Ok(format!("{CHILDREN} children, {} threads, none left", with_all.threads))
    })
}

/// Many lives one after the other.
pub(crate) fn cycles() -> Result<String, String> {
    run(async {
        let life = async || {
            let client = McpClient::connect(config()?).await.map_err(|error| error.to_string())?;
            echo(&client, "alive").await?;
            client.close().await;
            Ok::<_, String>(())
        };
        for _ in 0..WARM_UP {
            life().await?;
        }
        let (before, memory) = (held(), resident());
        for _ in 0..CYCLES {
            life().await?;
        }
        let (after, grown) = (held(), resident().saturating_sub(memory));
        if !after.is_within(&before) || grown > MOST_GROWTH {
            return Err(format!("{before:?} became {after:?}, and memory grew by {grown} KiB"));
        }
        Ok(format!(
            "{CYCLES} lives, {} descriptors, {} KiB -> {} KiB",
            after.descriptors,
            memory,
            memory + grown
        ))
    })
}
