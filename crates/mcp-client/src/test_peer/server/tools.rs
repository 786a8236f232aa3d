//! The tools of the misbehaving server, one for each fault.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{SUBSCRIPTION, Server};

impl Server {
    pub(super) fn call(
        &mut self,
        id: &Value,
        tool: &str,
        arguments: &Value,
        params: &Value,
    ) -> io::Result<()> {
        let count = |name: &str| usize::try_from(arguments[name].as_u64().unwrap_or(0)).unwrap_or(0);
        match tool {
            "echo" => self.text(id, arguments["text"].as_str().unwrap_or_default()),
            "wait" => Ok(()),
            "variable" => {
                let value = std::env::var(arguments["name"].as_str().unwrap_or_default());
                eprintln!("the variable has the value {}", value.as_deref().unwrap_or("(none)"));
                self.text(id, value.as_deref().unwrap_or("(none)"))
            }
            "cancelled" => self.text(id, &self.cancelled.to_string()),
            "requests" => self.text(id, &self.requests.join(" ")),
            "banner" => {
                for number in 0..count("lines") {
                    self.line(&format!("INFO step {number} of something"))?;
                }
                self.text(id, "after the banner")
            }
            "long" => self.text(id, &"x".repeat(count("bytes"))),
            "long-nameless" => {
                let padding = "x".repeat(count("bytes"));
                self.line(&format!(r#"{{"jsonrpc":"2.0","padding":"{padding}","id":{id},"result":{{}}}}"#))?;
                self.text(id, "after the long line")
            }
            "endless" => {
                let piece = vec![b'x'; 1 << 16];
                for _ in 0..count("bytes") >> 16 {
                    self.out.write_all(&piece)?;
                }
                self.out.flush()
            }
            "last-words" => {
                write!(self.out, "{}", self.text_of(id, "last words"))?;
                self.out.flush()?;
                std::process::exit(0)
            }
            "crlf" => {
                write!(self.out, "\r\n\n  \n{}\r\n", self.text_of(id, "with a carriage return"))?;
                self.out.flush()
            }
            "pretty" => {
                let value: Value = serde_json::from_str(&self.text_of(id, "pretty")).unwrap_or_default();
                let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
                self.line(&pretty)?;
                self.text(id, "after the pretty one")
            }
            "bad-utf8" => {
                write!(self.out, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"x":""#)?;
                self.out.write_all(b"\xff\xfe\"}}\n")?;
                self.out.flush()
            }
            "lone-surrogate" => self.broken(id, r#""result":{"content":[{"type":"text","text":"\ud800"}]}"#),
            "nul" => self.broken(id, "\"result\":{\"content\":[],\"x\":\"\0\"}"),
            "duplicate-keys" => self.broken(id, r#""result":{"content":[],"content":[]}"#),
            "deep" => {
                let deep = format!(r#""result":{{"content":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
                self.broken(id, &deep)
            }
            "stderr" => {
                let line = [vec![b'y'; 1023], vec![b'\n']].concat();
                let mut stderr = io::stderr().lock();
                for _ in 0..count("bytes") >> 10 {
                    stderr.write_all(&line)?;
                }
                drop(stderr);
                self.text(id, "after the flood")
            }
            "exit" => {
                eprintln!("Traceback (most recent call last): it broke");
                std::process::exit(i32::try_from(count("code")).unwrap_or(1))
            }
            "die" => {
                let _ = Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
                Ok(())
            }
            "leave-grandchild" => {
                Command::new("sleep").arg("60").stdin(Stdio::null()).spawn()?;
                std::process::exit(0)
            }
            "close-stdin" => {
                self.text(id, "closing")?;
                close_stdin()?;
                loop {
                    std::thread::park();
                }
            }
            "stop-reading" => {
                self.text(id, "not reading")?;
                loop {
                    std::thread::park();
                }
            }
            "twice" => {
                self.text(id, "first")?;
                self.text(id, "second")
            }
            "id-string" => self.misaddressed(id, &json!(id.to_string())),
            "id-float" => self.misaddressed(id, &json!(id.as_f64())),
            "id-null" => self.misaddressed(id, &Value::Null),
            "id-unknown" => self.misaddressed(id, &json!(987_654_321)),
            "both" => self.broken(id, r#""result":{"content":[]},"error":{"code":1,"message":"both"}"#),
            "neither" => self.broken(id, r#""nothing":1"#),
            "no-jsonrpc" => self.line(&format!(r#"{{"id":{id},"result":{{"content":[]}}}}"#)),
            "late" => {
                self.waiting.push(id.clone());
                Ok(())
            }
            "ask" => {
                let times = count("times");
                for number in 0..times {
                    self.line(&format!(
                        r#"{{"jsonrpc":"2.0","id":"ask-{number}","method":"sampling/createMessage","params":{{"messages":[],"maxTokens":1}}}}"#
                    ))?;
                }
                self.asking = Some((id.clone(), times, Vec::new()));
                Ok(())
            }
            "change" => self.change(id),
            "flood" => {
                let token = &params["_meta"]["progressToken"];
                for number in 1..=count("count") {
                    self.line(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{number}}}}}"#
                    ))?;
                    self.line(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)?;
                }
                self.text(id, "after the flood")
            }
            "contradicts" => {
                self.result(id, &json!({"content": [], "structuredContent": "not what was promised", "isError": "yes"}))
            }
            "odd-content" => {
                self.result(id, &json!({"content": [{"type": "hologram", "of": "a cat"}, {"type": "text", "text": "a cat"}]}))
            }
            "input-forever" => self.result(
                id,
                &json!({"resultType": "input_required", "requestState": "again",
                    "inputRequests": {"q": {"method": "elicitation/create", "params": {"mode": "form", "message": "Again?",
                        "requestedSchema": {"type": "object", "properties": {}}}}}}),
            ),
            "input-undeclared" => self.result(
                id,
                &json!({"resultType": "input_required",
                    "inputRequests": {"q": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}}}),
            ),
            _ => self.error(id, -32602, "no such tool"),
        }
    }

    fn change(&mut self, id: &Value) -> io::Result<()> {
        let mut changes = Vec::new();
        for subscription in &self.listening {
            changes.push(("tools/list_changed", json!({"_meta": {SUBSCRIPTION: subscription}})));
        }
        if self.listening.is_empty() {
            changes.push(("tools/list_changed", json!({})));
        }
        changes.extend(self.followed.iter().map(|uri| ("resources/updated", json!({"uri": uri}))));
        for (method, params) in changes {
            self.line(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#
            ))?;
        }
        self.text(id, "changed")
    }

    fn misaddressed(&mut self, id: &Value, other: &Value) -> io::Result<()> {
        self.text(other, "for somebody else")?;
        self.text(id, "for you")
    }
}

/// Closes the stdin pipe by replacing it with `/dev/null`.
#[cfg(unix)]
fn close_stdin() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdin(null)?)
}

#[cfg(not(unix))]
fn close_stdin() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
