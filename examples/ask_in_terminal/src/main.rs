//! Calls a tool and answers its elicitation requests in the terminal:
//! `cargo run -p example-ask-in-terminal -- TOOL COMMAND ARGS…`

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult, ElicitUrlParams, FieldSchema};
use mcp_client::protocol::safe_text::SafeText;
use mcp_client::{Handlers, McpClient, ServerConfig, ServerRequest};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = call().await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn call() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(tool), Some(program)) = (words.next(), words.next()) else {
        return Err("usage: ask-in-terminal TOOL COMMAND ARGS…".into());
    };
    let handlers = Handlers::new().on_form(form).on_url(url);
    let config = ServerConfig::command(program).args(words);
    let client = McpClient::builder(config).handlers(handlers).connect().await?;
    let outcome = client.call(tool, ()).await?.ok()?;
    println!("{}", SafeText::new(&outcome.text()));
    client.close().await;
    Ok(())
}

async fn form(asked: ServerRequest<ElicitFormParams>) -> ElicitResult {
    // Without a terminal there is no user to ask.
    if !std::io::stdin().is_terminal() {
        return ElicitResult::cancel();
    }
    println!("{} asks: {}", SafeText::new(&asked.server), SafeText::new(&asked.params.message));
    println!("Leave a field empty for its default; type `decline` to decline. Never type a password here.");
    let mut result = ElicitResult::accept([]);
    for (name, field) in &asked.params.requested_schema.fields {
        loop {
            let Some(line) = read(&prompt(name, field)).await else { return ElicitResult::cancel() };
            match (line.as_str(), field.parse(&line)) {
                ("decline", _) => return ElicitResult::decline(),
                ("", _) => {}
                (_, Ok(value)) => result = result.field(name, value),
                (_, Err(problem)) => {
                    println!("{problem}");
                    continue;
                }
            }
            break;
        }
    }
    result
}

/// The label of a field with its help text and choices.
fn prompt(name: &str, field: &FieldSchema) -> String {
    let mut prompt = SafeText::new(field.title().unwrap_or(name)).to_string();
    if let Some(description) = field.description() {
        prompt.push_str(&format!(" ({})", SafeText::new(description)));
    }
    let choices: Vec<String> =
        field.choices().iter().map(|(_, title)| SafeText::new(title).to_string()).collect();
    if !choices.is_empty() {
        prompt.push_str(&format!(", one of {}", choices.join(", ")));
    }
    prompt + ": "
}

async fn url(asked: ServerRequest<ElicitUrlParams>) -> ElicitResult {
    if !std::io::stdin().is_terminal() {
        return ElicitResult::cancel();
    }
    println!("{} asks: {}", SafeText::new(&asked.server), SafeText::new(&asked.params.message));
    println!("The server asks you to open this page: {}", SafeText::new(&asked.params.url));
    println!("Host: {}", host(&asked.params.url));
    match read("Type `yes` to agree and open it yourself: ").await.as_deref() {
        Some("yes") => ElicitResult::accept([]),
        Some(_) => ElicitResult::decline(),
        None => ElicitResult::cancel(),
    }
}

/// The host of a URL, with non-ASCII characters escaped, because they can imitate others.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let mut shown: String = host
        .chars()
        .map(|c| if c.is_ascii() { c.to_string() } else { c.escape_unicode().to_string() })
        .collect();
    if !host.is_ascii() || host.split('.').any(|label| label.starts_with("xn--")) {
        shown.push_str(" (beware: this name has characters that can imitate others)");
    }
    SafeText::new(&shown).to_string()
}

/// Reads a line from the terminal on a thread of its own: unlike for `spawn_blocking`, the end of the program does not
/// wait for it.
async fn read(prompt: &str) -> Option<String> {
    print!("{prompt}");
    std::io::stdout().flush().ok()?;
    let (sender, line) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || sender.send(std::io::stdin().lines().next()));
    line.await.ok()??.ok().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deceptive_url_host_is_shown_escaped_with_a_warning() {
        assert_eq!(host("https://example.com/login?x"), "example.com");
        assert_eq!(host("https://bank.com@evil.example/"), "evil.example");
        assert!(host("https://\u{430}pple.com/").starts_with("\\u{430}pple.com (beware"));
        assert!(host("https://xn--pple-43d.com/").contains("beware"));
        assert!(!host("https://a\u{1b}[2J.com").contains('\u{1b}'));
    }
}
