//! A peer that misbehaves on purpose, to test clients and servers with: the program `mcp-test-peer`.
//!
//! As a server it is a good one, with a tool for each fault: calling the tool commits it, so that one connection can go
//! through many and show afterwards that it is unharmed. What goes wrong before the first call is set by options.
//!
//! ```sh
//! mcp-test-peer server --era legacy
//! mcp-test-peer client duplicate-ids -- my-server --its-arguments
//! mcp-test-peer web-server --era legacy --streams hang-up
//! mcp-test-peer web-client foreign-host http://127.0.0.1:8000/mcp
//! mcp-test-peer help
//! ```
//!
//! # Over stdio
//!
//! | tool | what it does |
//! |---|---|
//! | `echo {text}` | answers as it should |
//! | `wait` | never answers |
//! | `cancelled`, `requests` | tells how many requests were cancelled, and what was requested |
//! | `banner {lines}` | writes text that is no message, then answers |
//! | `long {bytes}` | answers with so many bytes |
//! | `long-nameless {bytes}` | writes a long line whose id stands at its end, then answers |
//! | `endless {bytes}` | writes so many bytes without a newline, and nothing more |
//! | `last-words` | answers without a newline and ends |
//! | `crlf`, `pretty` | answers with `\r\n` and blank lines; writes JSON over many lines, then answers |
//! | `bad-utf8`, `lone-surrogate`, `nul`, `duplicate-keys`, `deep` | answers with what is no message |
//! | `stderr {bytes}` | floods standard error, then answers |
//! | `exit {code}`, `die`, `leave-grandchild` | ends, is killed, ends and leaves a child that holds the pipe |
//! | `close-stdin`, `stop-reading` | closes its input; reads nothing more |
//! | `twice`, `id-string`, `id-float`, `id-null`, `id-unknown` | answers twice, or to somebody else first |
//! | `both`, `neither`, `no-jsonrpc` | answers with a message that contradicts itself |
//! | `late` | answers once it is cancelled |
//! | `ask {times}` | asks for what the client did not declare, then tells the codes of the refusals |
//! | `change` | tells whoever follows that its tools, and the resources that are followed, changed |
//! | `flood {count}` | writes so much progress and so many list changes, then answers |
//! | `contradicts`, `odd-content` | answers against its schema; with content of an unknown kind |
//! | `input-forever`, `input-undeclared` | needs input again and again; needs what was not declared |
//!
//! | option of `server` | what it does |
//! |---|---|
//! | `--era legacy\|modern\|both` | which eras it speaks; default both |
//! | `--discover JSON`, `--initialize JSON` | answers with this member: `"result":{…}` or `"error":{…}` |
//! | `--discover-as null\|array\|other` | answers the probe without id, in an array, or to another id first |
//! | `--noise N` | begins with N lines that are no message |
//! | `--bom` | begins with a byte order mark |
//! | `--request-first` | asks `roots/list` before it answers anything |
//! | `--silent N` | does not answer the first N requests |
//! | `--dies-of METHOD`, `--exit CODE` | ends when it reads this method; ends at once |
//! | `--lives FILE` | writes a line there at each start, and `--dies-of` is only for the first of its lives |
//! | `--silent-later` | answers nothing in any but the first of its lives |
//! | `--stubborn` | ignores the end of its input and SIGTERM, with a child that does the same |
//! | `--list KIND` | `repeated`, `endless`, `many`, `duplicates`, `bad`: a list of tools that is not one |
//! | `--says TEXT` | writes this to standard error first |
//!
//! # Over HTTP
//!
//! `web-server` prints its URL. As above, each tool commits a fault, and it is a good server otherwise.
//!
//! | tool | what it does |
//! |---|---|
//! | `echo {text}` | answers as it should |
//! | `requests`, `connections` | tells what was requested, and how many connections were made |
//! | `html`, `empty`, `no-type`, `no-content` | answers with what is no message |
//! | `hang-up`, `half-head` | closes the connection before an answer, or in the middle of its head |
//! | `cut`, `no-blank-line` | ends a stream in the middle of an event, or without the line that ends it |
//! | `pieces`, `comments` | answers in pieces of three bytes with an absurd `retry`; after a flood of comments |
//! | `redirect {to, status}` | points somewhere else |
//! | `gzip {bytes}` | answers with so many bytes in an encoding that nobody asked for |
//! | `short`, `long {bytes}` | answers with less than it said; with so many bytes |
//! | `endless-body {bytes}`, `endless-event {bytes}` | the same without saying how many |
//! | `trickle {ms}` | sends a byte each so many milliseconds |
//! | `status {code, header, value, body}` | answers with this status, and a header |
//! | `forget` | forgets the session; legacy |
//! | `silent` | never answers |
//!
//! | option of `web-server` | what it does |
//! |---|---|
//! | `--era legacy\|modern` | which era it speaks; default modern |
//! | `--port N` | where to listen; a free port unless told |
//! | `--streams none\|hang-up\|silent\|busy` | what becomes of the stream that belongs to no request |

mod client;
mod options;
mod server;
mod web_client;
mod web_server;

use std::process::ExitCode;

pub use web_client::FAULTS as WEB_FAULTS;

const HELP: &str = "usage: mcp-test-peer server [OPTIONS]
       mcp-test-peer client FAULT -- COMMAND [ARGUMENTS]
       mcp-test-peer web-server [OPTIONS]
       mcp-test-peer web-client FAULT URL
       mcp-test-peer help

A peer that misbehaves on purpose. The faults are listed in the documentation of mcp_client::test_peer; those of the
client are: garbage, batch, deep, duplicate-ids, cancel-unknown, half-a-line, long-line. Those of the client over HTTP:";

/// Runs the program with these arguments.
pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let arguments: Vec<String> = arguments.collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ran = match words.as_slice() {
        ["server", options @ ..] => server::run(options),
        ["client", fault, "--", command, rest @ ..] => client::run(fault, command, rest),
        ["web-server", options @ ..] => web_server::run(options),
        ["web-client", fault, url] => web_client::run(fault, url),
        ["help" | "--help" | "-h"] => {
            println!("{HELP} {}.", WEB_FAULTS.join(", "));
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("the arguments are not understood".to_owned()),
    };
    ran.unwrap_or_else(|problem| {
        eprintln!("{problem}\n{HELP}");
        ExitCode::from(2)
    })
}
