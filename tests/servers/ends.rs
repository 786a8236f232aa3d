//! A server that `npx` starts, with a grandchild, both of which ignore the end of input and SIGTERM: it ends on every way.

use std::path::Path;
use std::time::{Duration, Instant};

use mcp_client::{CommandTarget, McpClient, ServerConfig};

use crate::group_lives;

/// Connects, ends it, and gives the group.
type End = fn(&ServerConfig<CommandTarget>) -> Result<u32, String>;

/// How each way to end it went, as one line.
pub(crate) fn all(peers: &Path) -> Result<String, String> {
    let config = ServerConfig::command("npx").args(["-c", "node servers/stubborn.mjs"]).current_dir(peers);
    let ways: [(&str, Duration, End); 4] = [
        ("close", Duration::from_secs(5), close),
        ("drop", Duration::from_secs(1), dropped),
        ("drop after the runtime", Duration::from_secs(1), dropped_after_the_runtime),
        ("panic", Duration::from_secs(1), panicked),
    ];
    let mut line = Vec::new();
    for (way, most, end) in ways {
        let group = end(&config).map_err(|problem| format!("{way}: {problem}"))?;
        let began = Instant::now();
        while group_lives(group) {
            if began.elapsed() > most {
                return Err(format!("{way}: something still lives {most:?} later"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        line.push(way);
    }
    Ok(line.join(", "))
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

/// A client, once the grandchild runs too.
async fn connect(config: &ServerConfig<CommandTarget>) -> Result<(McpClient, u32), String> {
    let client = McpClient::connect(config.clone()).await.map_err(|error| error.to_string())?;
    let group = client.process_group().ok_or("no process")?;
    for _ in 0..500 {
        if members(group) >= 3 {
            return Ok((client, group));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("there are only {} processes", members(group)))
}

fn members(group: u32) -> usize {
    let group = group.to_string();
    let stats = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2)) == Some(&group))
        .count()
}

fn close(config: &ServerConfig<CommandTarget>) -> Result<u32, String> {
    runtime()?.block_on(async {
        let (client, group) = connect(config).await?;
        let began = Instant::now();
        client.close().await;
        if began.elapsed() > Duration::from_secs(5) {
            return Err(format!("it took {:?}", began.elapsed()));
        }
        Ok(group)
    })
}

fn dropped(config: &ServerConfig<CommandTarget>) -> Result<u32, String> {
    runtime()?.block_on(async {
        let (client, group) = connect(config).await?;
        drop(client);
        Ok(group)
    })
}

fn dropped_after_the_runtime(config: &ServerConfig<CommandTarget>) -> Result<u32, String> {
    let runtime = runtime()?;
    let (client, group) = runtime.block_on(connect(config))?;
    drop(runtime);
    drop(client);
    Ok(group)
}

fn panicked(config: &ServerConfig<CommandTarget>) -> Result<u32, String> {
    let (tell, told) = std::sync::mpsc::channel();
    let config = config.clone();
    let thread = std::thread::spawn(move || {
        let connected = runtime().and_then(|runtime| {
            let connected = runtime.block_on(connect(&config))?;
            Ok((runtime, connected))
        });
        let _held = match connected {
            Ok((runtime, (client, group))) => {
                let _ = tell.send(Ok(group));
                (runtime, client)
            }
            Err(problem) => {
                let _ = tell.send(Err(problem));
                return;
            }
        };
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    let group = told.recv().map_err(|error| error.to_string())?;
    if thread.join().is_ok() {
        return Err("it did not panic".to_owned());
    }
    group
}
