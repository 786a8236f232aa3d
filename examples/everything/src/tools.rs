//! The tools; each shows one feature.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_server::protocol::elicitation::{ElicitFormParams, FieldValue, FormSchema, StringSchema};
use mcp_server::protocol::tools::ToolAnnotations;
use mcp_server::{Context, McpServer, NoArgs, Structured, ToolError, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    /// The duration in milliseconds.
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Fail {
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Big {
    bytes: usize,
}

/// The largest response of `big`.
const BIGGEST: usize = 64 << 20;

/// Decrements the number of running sleeps when dropped, also on cancellation.
struct Sleeping(Arc<AtomicUsize>);

impl Drop for Sleeping {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn add(server: McpServer) -> McpServer {
    let sleeping = Arc::new(AtomicUsize::new(0));
    let running = Arc::clone(&sleeping);
    let read_only = || ToolAnnotations::new().read_only_hint(true);
    server
        .tool(
            tool("echo", |Text { text }: Text| async { text })
                .description("Returns its argument.")
                .annotations(read_only()),
        )
        .tool(
            tool("add", |Add { a, b }: Add| async move {
                let sum = a.checked_add(b).ok_or_else(|| ToolError::new("the sum is too large"))?;
                Ok::<_, ToolError>(Structured(Sum { sum }))
            })
            .description("Adds two numbers.")
            .annotations(read_only()),
        )
        .tool(
            tool("sleep", move |Sleep { ms }: Sleep, cx: Context| {
                sleeping.fetch_add(1, Ordering::SeqCst);
                let guard = Sleeping(Arc::clone(&sleeping));
                sleep(ms, cx, guard)
            })
            .description("Sleeps and sends progress. Can be cancelled."),
        )
        .tool(
            tool("running", move || {
                let running = running.load(Ordering::SeqCst);
                async move { running.to_string() }
            })
            .description("Returns the number of running sleeps."),
        )
        .tool(tool("ask", ask).description("Asks for a name and greets."))
        .tool(
            tool("fail", |Fail { message }: Fail| async { Err::<(), _>(ToolError::new(message)) })
                .description("Fails."),
        )
        .tool(tool("crash", crash).description("Panics."))
        .tool(
            tool("print", |Text { text }: Text| async move {
                println!("{text}");
                "printed"
            })
            .description("Prints to standard output, which must not reach the client."),
        )
        .tool(
            tool("big", |Big { bytes }: Big| async move {
                if bytes > BIGGEST {
                    return Err(ToolError::new(format!("at most {BIGGEST} bytes")));
                }
                Ok("x".repeat(bytes))
            })
            .description("Returns a text of this size."),
        )
        .tool(
            tool("grow", |_: NoArgs, cx: Context| async move {
                cx.registry().add_tool(
                    tool("grown", || async { "I am new." }).description("A tool that was added later."),
                )?;
                Ok::<_, ToolError>("grown")
            })
            .description("Adds a tool."),
        )
}

async fn sleep(ms: u64, cx: Context, guard: Sleeping) -> String {
    let steps = 10;
    for step in 1..=steps {
        tokio::time::sleep(Duration::from_millis(ms) / steps).await;
        cx.progress(f64::from(step), f64::from(steps));
    }
    drop(guard);
    format!("slept {ms} ms")
}

async fn ask(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let form =
        FormSchema::new().field("name", StringSchema::new().title("Your name")).required(["name".to_owned()]);
    let answer = cx.ask("name", ElicitFormParams::new("Who are you?", form)).await?;
    match answer.content.as_ref().and_then(|content| content.get("name")) {
        Some(FieldValue::String(name)) => Ok(format!("Hello, {name}!")),
        _ => Err(ToolError::new("no name was given")),
    }
}

#[expect(clippy::panic, reason = "the purpose of the tool")]
async fn crash() {
    panic!("on purpose")
}
