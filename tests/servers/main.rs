//! Lets our client use servers that others wrote, over stdio and HTTP: `peers/run-servers`
//!
//! `servers PEERS [WORD]`: the folder where they are installed, and which of them; all without a word.

mod ends;
mod own;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};
use mcp_client::protocol::negotiation::Mode;
use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{
    Change, CommandTarget, Error, Force, Handlers, McpClient, Sent, ServerConfig, ServerRequest,
};
use serde_json::{Value, json};

/// What all of one server may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// A call and what its text must contain.
type Call = (&'static str, Value, &'static str);

/// A server and what is tried with it. What it does not offer is `None`, and told in the table.
struct Server {
    name: &'static str,
    reach: Reach,
    eras: &'static [Mode],
    call: Call,
    read: Option<(&'static str, &'static str)>,
    progress: Option<Call>,
    /// A call that is left, and one that tells how many were.
    cancel: Option<(Call, Option<Call>)>,
    ask: Option<Call>,
    change: Option<Call>,
    /// Steps that it does not offer in the modern era, and in the legacy one.
    not_modern: &'static [&'static str],
    not_legacy: &'static [&'static str],
}

/// How a server is reached.
enum Reach {
    /// It is started, and speaks on its standard input and output.
    Stdio(ServerConfig<CommandTarget>),
    /// It is started by us with a port, and restarted in the middle.
    Web(web::Program),
}

const BOTH: &[Mode] = &[Mode::Auto, Mode::Legacy];

fn servers(peers: &Path) -> Vec<Server> {
    let node = |script: PathBuf| ServerConfig::command("node").arg(script);
    let official =
        |name: &str| node(peers.join("node_modules/@modelcontextprotocol").join(name).join("dist/index.js"));
    let python = |script: &str| {
        ServerConfig::command(peers.join("venv/bin/python")).arg(peers.join("servers").join(script))
    };
    let stdio = Reach::Stdio;
    let web = |program: &str, words: &[&str]| {
        let program = match program {
            "servers" => std::env::current_exe().unwrap_or_default(),
            program => peers.join(program),
        };
        Reach::Web(web::Program { program, words: words.iter().map(|word| (*word).into()).collect() })
    };
    let script = |language: &str, script: &str, mode: &str| {
        let program = if language == "python" { peers.join("venv/bin/python") } else { language.into() };
        let words = vec![peers.join("servers").join(script).into(), mode.into()];
        Reach::Web(web::Program { program, words })
    };
    let own = |name, reach, eras, not_modern| Server {
        name,
        reach,
        eras,
        call: ("echo", json!({"text": "hi"}), "hi"),
        read: Some(("note://hello", "hello")),
        progress: Some(("slow", json!({}), "done")),
        cancel: Some((("wait", json!({}), ""), Some(("cancelled", json!({}), "1")))),
        ask: Some(("ask", json!({}), "Hello, Ada!")),
        change: Some(("grow", json!({}), "grown")),
        not_modern,
        not_legacy: &[],
    };
    vec![
        Server {
            name: "server-everything 2026.8.31",
            reach: stdio(official("server-everything")),
            eras: &[Mode::Auto],
            call: ("get-sum", json!({"a": 1, "b": 2}), "3"),
            read: Some(("demo://resource/dynamic/text/1", "Resource 1")),
            progress: Some((
                "trigger-long-running-operation",
                json!({"duration": 0.3, "steps": 3}),
                "completed",
            )),
            // It goes on to its end whatever it is told, and ends only then.
            cancel: Some((("trigger-long-running-operation", json!({"duration": 2, "steps": 2}), ""), None)),
            ask: Some(("trigger-elicitation-request", json!({}), "Ada")),
            change: None,
            not_modern: &[],
            not_legacy: &[],
        },
        Server {
            name: "server-filesystem 2026.8.31",
            reach: stdio(official("server-filesystem").arg(peers)),
            eras: &[Mode::Auto],
            call: ("list_allowed_directories", json!({}), "Allowed directories"),
            read: None,
            progress: None,
            cancel: None,
            ask: None,
            change: None,
            not_modern: &[],
            not_legacy: &[],
        },
        Server {
            name: "server-memory 2026.8.31",
            reach: stdio(official("server-memory").env("MEMORY_FILE_PATH", peers.join("logs/memory.json"))),
            eras: &[Mode::Auto],
            call: ("read_graph", json!({}), "entities"),
            read: None,
            progress: None,
            cancel: None,
            ask: None,
            change: None,
            not_modern: &[],
            not_legacy: &[],
        },
        own("TypeScript SDK 1.32.2", stdio(node(peers.join("servers/ts1.mjs"))), &[Mode::Auto], &[]),
        own("TypeScript SDK 2.4.0", stdio(node(peers.join("servers/ts2.mjs"))), BOTH, &[]),
        own("Python SDK 2.3.0", stdio(python("python_mcp.py")), BOTH, &[]),
        own("rmcp 3.8.0", stdio(ServerConfig::command(peers.join("peer-rmcp-server"))), BOTH, &[]),
        own("FastMCP 4.1.2", stdio(python("fastmcp_server.py")), BOTH, &["change"]),
        own("HTTP: ours", web("servers", &["own"]), BOTH, &[]),
        own("HTTP: TypeScript SDK 1.32.2", script("node", "ts1.mjs", "http"), &[Mode::Auto], &[]),
        own("HTTP+SSE: TypeScript 1.32.2", script("node", "ts1.mjs", "sse"), &[Mode::Auto], &[]),
        // Its handler of both eras has no sessions, and cannot ask nor tell anything without one.
        Server {
            not_legacy: &["ask", "change"],
            ..own("HTTP: TypeScript SDK 2.4.0", script("node", "ts2.mjs", "http"), BOTH, &[])
        },
        own("HTTP: TypeScript 2, sessions", script("node", "ts2.mjs", "sessions"), &[Mode::Auto], &[]),
        own("HTTP: Python SDK 2.3.0", script("python", "python_mcp.py", "http"), BOTH, &[]),
        own("HTTP: rmcp 3.8.0", web("peer-rmcp-server", &["http"]), BOTH, &[]),
        own("HTTP: FastMCP 4.1.2", script("python", "fastmcp_server.py", "http"), BOTH, &["change"]),
    ]
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(peers) = words.next() else {
        eprintln!("usage: servers PEERS [WORD]");
        return ExitCode::from(2);
    };
    let only = words.next().unwrap_or_default();
    match peers.as_str() {
        "own" => return own::serve(&only),
        "call" => return own::call(&only),
        _ => {}
    }
    let peers = Path::new(&peers);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut failed, mut count) = (0, 0);
    let mut tell = |name: &str, began: Instant, negotiation: Result<String, String>| {
        count += 1;
        failed += usize::from(negotiation.is_err());
        let negotiation = negotiation.unwrap_or_else(|problem| format!("FAILED: {problem}"));
        println!("{name:<28} {:>5.1} s  {negotiation}", began.elapsed().as_secs_f64());
    };
    for server in servers(peers).iter().filter(|server| server.name.contains(&only)) {
        for era in server.eras {
            let began = Instant::now();
            let tried = runtime.block_on(async { tokio::time::timeout(PATIENCE, server.try_it(*era)).await });
            tell(server.name, began, tried.unwrap_or_else(|_| Err("it takes too long".to_owned())));
        }
    }
    if "npx".contains(&only) {
        let began = Instant::now();
        tell("npx, stubborn", began, ends::all(peers));
    }
    if count == 0 {
        eprintln!("no server is called `{only}`");
    }
    if count == 0 || failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl Server {
    /// Takes every step; gives the line of the table.
    async fn try_it(&self, mode: Mode) -> Result<String, String> {
        let handlers = Handlers::new().on_form(async |asked: ServerRequest<ElicitFormParams>| {
            let fields = asked.params.requested_schema;
            let mut answer = ElicitResult::accept([("name".to_owned(), "Ada".into())]);
            if let Some(content) = &mut answer.content {
                content.retain(|name, _| fields.fields.contains_key(name));
                fields.fill_defaults(content);
            }
            answer
        });
        let (config, mut web): (ServerConfig, _) = match &self.reach {
            Reach::Stdio(config) => (config.clone().into(), None),
            Reach::Web(program) => {
                let web = program.start().await?;
                (ServerConfig::url(&web.url).into(), Some(web))
            }
        };
        let builder = McpClient::builder(config).handlers(handlers).era(mode);
        let client = builder.connect().await.map_err(|error| format!("connect: {error}"))?;
        let group = client.process_group();
        let mut taken = vec!["connect"];
        let mut left = Vec::new();
        let is_modern = client.version().era() == Some(mcp_client::protocol::Era::Modern);
        let tools = client.list_tools().await.map_err(|error| format!("list: {error}"))?;
        if !tools.iter().any(|tool| tool.name == self.call.0) {
            return Err(format!("there is no tool `{}`", self.call.0));
        }
        taken.push("list");
        self.call(&client, &self.call).await.map_err(|problem| format!("call: {problem}"))?;
        taken.push("call");
        let steps: [(&'static str, bool); 5] = [
            ("read", self.read.is_some()),
            ("progress", self.progress.is_some()),
            ("cancel", self.cancel.is_some()),
            ("ask", self.ask.is_some()),
            ("change", self.change.is_some()),
        ];
        for (step, is_offered) in steps {
            let not = if is_modern { self.not_modern } else { self.not_legacy };
            if !is_offered || not.contains(&step) {
                left.push(step);
                continue;
            }
            self.step(&client, step).await.map_err(|problem| format!("{step}: {problem}"))?;
            taken.push(step);
        }
        let version = client.version().to_string();
        if let Some(web) = &mut web {
            let follows = taken.contains(&"change");
            self.restart(&client, web, follows).await.map_err(|problem| format!("restart: {problem}"))?;
            taken.push("restart");
        }
        let shutdown = client.close().await;
        if shutdown.force != Force::None {
            return Err(format!("it did not end by itself: {shutdown:?}"));
        }
        if group.is_some_and(group_lives) {
            return Err("something of it still lives".to_owned());
        }
        taken.push("end");
        let not = if left.is_empty() { String::new() } else { format!("; not offered: {}", left.join(" ")) };
        Ok(format!("{version}: {}{not}", taken.join(" ")))
    }

    async fn step(&self, client: &McpClient, step: &str) -> Result<(), String> {
        let text = |error: mcp_client::Error| error.to_string();
        match step {
            "read" => {
                let Some((uri, wanted)) = self.read else { return Ok(()) };
                let read = client.read_resource(uri).await.map_err(text)?;
                let found =
                    read.contents.first().and_then(|contents| contents.text.clone()).unwrap_or_default();
                if found.contains(wanted) { Ok(()) } else { Err(format!("{found:?}")) }
            }
            "progress" => {
                let Some((tool, arguments, wanted)) = &self.progress else { return Ok(()) };
                let (tell, told) = std::sync::mpsc::channel();
                let call =
                    client.call(*tool, arguments.clone()).on_progress(move |step| drop(tell.send(step)));
                let outcome = call.await.map_err(text)?;
                let steps: Vec<f64> = told.try_iter().map(|step| step.progress).collect();
                if steps == [1.0, 2.0, 3.0] && outcome.text().contains(wanted) {
                    return Ok(());
                }
                Err(format!("{steps:?} {}", outcome.text()))
            }
            "cancel" => {
                let Some(((tool, arguments, _), tells)) = &self.cancel else { return Ok(()) };
                let call = client.call(*tool, arguments.clone()).into_future();
                if tokio::time::timeout(Duration::from_millis(300), call).await.is_ok() {
                    return Err("it ended by itself".to_owned());
                }
                // The server works on, and knows.
                self.call(client, &self.call).await?;
                let Some(tells) = tells else { return Ok(()) };
                // Over HTTP nothing says which of two messages comes first.
                for _ in 0..50 {
                    if self.call(client, tells).await.is_ok() {
                        return Ok(());
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                self.call(client, tells).await
            }
            "ask" => match &self.ask {
                Some(ask) => self.call(client, ask).await,
                None => Ok(()),
            },
            _ => {
                let Some(change) = &self.change else { return Ok(()) };
                let filter = SubscriptionFilter::new().tools_list_changed(true);
                let mut changes = client.changes(filter).await.map_err(text)?;
                self.call(client, change).await?;
                let changed = tokio::time::timeout(Duration::from_secs(5), changes.next()).await;
                match changed {
                    Ok(Some(Change::Tools)) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            }
        }
    }

    /// Has the server restarted while a call is in flight and its changes are followed: the call is lost, at once, and
    /// everything else goes on.
    async fn restart(&self, client: &McpClient, web: &mut web::Web<'_>, follows: bool) -> Result<(), String> {
        let Some(((tool, arguments, _), _)) = &self.cancel else { return Err("no call to lose".to_owned()) };
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let mut changes = match follows {
            true => Some(client.changes(filter).await.map_err(|error| error.to_string())?),
            false => None,
        };
        let lost = tokio::spawn(client.call(*tool, arguments.clone()).into_future());
        tokio::time::sleep(Duration::from_millis(300)).await;
        web.restart().await?;
        match tokio::time::timeout(Duration::from_secs(5), lost).await {
            Ok(Ok(Err(Error::Lost { sent: Sent::Maybe, .. }))) => {}
            other => return Err(format!("the call in flight: {other:?}")),
        }
        self.call(client, &self.call).await?;
        let (Some(changes), Some(change)) = (&mut changes, &self.change) else { return Ok(()) };
        // What it tells before the stream is there again is lost, which the gap says.
        let mut has_gap = false;
        for _ in 0..30 {
            self.call(client, change).await?;
            match tokio::time::timeout(Duration::from_millis(500), changes.next()).await {
                Ok(Some(Change::Gap)) => has_gap = true,
                Ok(Some(Change::Tools)) if has_gap => return Ok(()),
                // What changed before.
                Ok(Some(Change::Tools)) | Err(_) => {}
                Ok(other) => return Err(format!("the changes: {other:?}")),
            }
        }
        Err("the changes: nothing more".to_owned())
    }

    async fn call(&self, client: &McpClient, (tool, arguments, wanted): &Call) -> Result<(), String> {
        let outcome = client.call(*tool, arguments.clone()).await.map_err(|error| error.to_string())?;
        let text = outcome.text();
        if !outcome.is_error() && text.contains(wanted) {
            Ok(())
        } else {
            Err(format!("`{tool}` says {text:?}"))
        }
    }
}

/// True if something in the group runs.
fn group_lives(group: u32) -> bool {
    let group = group.to_string();
    std::fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let words: Vec<&str> =
            stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
        words.get(2) == Some(&group.as_str()) && words.first() != Some(&"Z")
    })
}
