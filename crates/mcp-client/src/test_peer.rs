//! A peer that misbehaves on purpose, for testing clients and servers: the program `mcp-test-peer`.
//!
//! As a server, it has one tool for each fault, and behaves correctly until such a tool is called. A test can therefore
//! trigger many faults over one connection, and then check that the connection still works. Options set the faults that
//! occur before the first call.
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
//! | tool | effect |
//! |---|---|
//! | `echo {text}` | responds correctly |
//! | `wait` | never responds |
//! | `cancelled`, `requests` | returns the number of cancellations received; returns the methods of all requests |
//! | `banner {lines}` | writes lines that are not JSON-RPC messages, then responds |
//! | `long {bytes}` | responds with a result of this many bytes |
//! | `long-nameless {bytes}` | writes a line of this many bytes with the id at its end, then responds |
//! | `endless {bytes}` | writes this many bytes without a newline, then nothing more |
//! | `last-words` | responds without a final newline, then exits |
//! | `crlf`, `pretty` | responds with `\r\n` and blank lines; writes JSON over many lines, then responds |
//! | `bad-utf8`, `lone-surrogate`, `nul`, `duplicate-keys`, `deep` | responds with invalid JSON or an invalid message |
//! | `stderr {bytes}` | writes this many bytes to stderr, then responds |
//! | `exit {code}`, `die`, `leave-grandchild` | exits; kills itself; exits and leaves a child that holds the pipe open |
//! | `close-stdin`, `stop-reading` | closes its stdin; stops reading its stdin |
//! | `twice`, `id-string`, `id-float`, `id-null`, `id-unknown` | responds twice, or first with a wrong id |
//! | `both`, `neither`, `no-jsonrpc` | responds with both `result` and `error`, with neither, or without `jsonrpc` |
//! | `late` | responds only when the call is cancelled |
//! | `ask {times}` | sends requests for undeclared capabilities, then returns the error codes of the responses |
//! | `change` | notifies subscribers that the tools and the subscribed resources changed |
//! | `flood {count}` | sends this many progress notifications and list changes, then responds |
//! | `contradicts`, `odd-content` | returns members of a wrong type; returns content of an unknown type |
//! | `input-forever`, `input-undeclared` | requests input in every round; requests undeclared input |
//!
//! | option of `server` | effect |
//! |---|---|
//! | `--era legacy\|modern\|both` | the supported eras; default both |
//! | `--discover JSON`, `--initialize JSON` | responds with this member: `"result":{…}` or `"error":{…}` |
//! | `--discover-as null\|array\|other` | responds to the probe without an id, in an array, or first with another id |
//! | `--noise N` | first writes N lines that are not JSON-RPC messages |
//! | `--bom` | first writes a byte order mark |
//! | `--request-first` | sends `roots/list` before its first response |
//! | `--silent N` | does not respond to the first N requests |
//! | `--dies-of METHOD`, `--exit CODE` | exits when it receives this method; exits immediately |
//! | `--lives FILE` | appends a line to this file at each start; `--dies-of` then applies only to the first start |
//! | `--silent-later` | from the second start on, does not respond to anything (needs `--lives`) |
//! | `--refuses-later` | from the second start on, refuses subscriptions (needs `--lives`) |
//! | `--stubborn` | it and a child process ignore SIGTERM and the end of stdin |
//! | `--list KIND` | `repeated`, `endless`, `many`, `duplicates`, `bad`: the list of tools has this fault |
//! | `--says TEXT` | first writes this to stderr |
//!
//! # Over HTTP
//!
//! `web-server` prints its URL. As over stdio, each tool triggers one fault; otherwise the server behaves correctly.
//!
//! | tool | effect |
//! |---|---|
//! | `echo {text}` | responds correctly |
//! | `requests`, `connections` | returns the methods of all requests; returns the number of connections |
//! | `html`, `empty`, `no-type`, `no-content` | responds with a web page, an empty body, no `Content-Type`, or 204 |
//! | `hang-up`, `half-head` | closes the connection before the response, or in the middle of the response headers |
//! | `cut`, `no-blank-line` | ends an event stream in the middle of an event, or before the blank line that ends it |
//! | `pieces`, `comments` | responds in chunks of 3 bytes, with a very long `retry`; responds after very many comments |
//! | `redirect {to, status}` | responds with a redirect |
//! | `gzip {bytes}` | responds with this many bytes and `Content-Encoding: gzip`, which was not requested |
//! | `short`, `long {bytes}` | responds with fewer bytes than `Content-Length`; responds with this many bytes |
//! | `endless-body {bytes}`, `endless-event {bytes}` | sends a body or event of this many bytes, of unannounced length |
//! | `trickle {ms}` | sends one byte every `ms` milliseconds |
//! | `status {code, header, value, body}` | responds with this status, header and body |
//! | `forget` | forgets the session; legacy |
//! | `silent` | never responds |
//!
//! | option of `web-server` | effect |
//! |---|---|
//! | `--era legacy\|modern` | the supported era; default modern |
//! | `--port N` | the port to listen on; default a free one |
//! | `--streams none\|hang-up\|silent\|busy` | the behaviour of the legacy notification stream (GET); default `none` |

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

/// Runs the program with these arguments, without the program name.
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
        _ => Err("invalid arguments".to_owned()),
    };
    ran.unwrap_or_else(|problem| {
        eprintln!("{problem}\n{HELP}");
        ExitCode::from(2)
    })
}
