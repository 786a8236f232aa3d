//! A million calls over one pipe.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use serde_json::json;

use crate::server::{Growth, Server};
use crate::{call, id_and_text, initialize, text_of};

const CALLS: u64 = 1_000_000;
const WARM: u64 = CALLS / 10;
/// Calls in flight; the server takes 1000.
const WINDOW: usize = 500;

/// Every second call is modern: one connection may have both eras.
pub(crate) fn pipelined() -> Result<String, String> {
    let (server, mut input, output) = Server::stdio()?;
    let mut output = BufReader::with_capacity(1 << 18, output);
    writeln!(input, "{}", initialize()).map_err(|error| error.to_string())?;
    let mut line = Vec::new();
    output.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
    let (permits, used) = sync_channel(WINDOW);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_calls(input, permits));
        let growth = read_responses(&server, &mut output, used).and_then(Growth::check);
        if growth.is_err() {
            // The writer may wait for a reader.
            server.kill();
        }
        let growth = growth?;
        // Only now the input ends: memory is that of a server that serves.
        drop(writer.join());
        line.clear();
        output.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if !line.is_empty() {
            return Err(format!("after the last response: {}", String::from_utf8_lossy(&line)));
        }
        if !server.ended_well() {
            return Err("the server did not end well when its input did".into());
        }
        Ok(format!("{CALLS} calls, {WINDOW} in flight, {growth}"))
    })
}

/// Writes all calls, and gives back the input. Ends early when nobody reads.
fn write_calls(input: ChildStdin, permits: SyncSender<()>) -> Option<ChildStdin> {
    let mut input = BufWriter::with_capacity(1 << 14, input);
    let (legacy, modern) = (template(false), template(true));
    for id in 1..=CALLS {
        match permits.try_send(()) {
            Ok(()) => {}
            Err(TrySendError::Full(())) => {
                input.flush().ok()?;
                permits.send(()).ok()?;
            }
            Err(TrySendError::Disconnected(())) => return None,
        }
        let [head, middle, tail] = if id % 2 == 0 { &modern } else { &legacy };
        writeln!(input, "{head}{id}{middle}{}{tail}", text_of(id)).ok()?;
    }
    input.into_inner().ok()
}

/// A call without its id and its text.
fn template(is_modern: bool) -> [String; 3] {
    let line = call(0, "echo", &json!({ "text": "TEXT" }), is_modern);
    let (head, rest) = line.split_once("\"id\":0").unwrap_or_default();
    let (middle, tail) = rest.split_once("TEXT").unwrap_or_default();
    [format!("{head}\"id\":"), middle.into(), tail.into()]
}

fn read_responses(
    server: &Server,
    output: &mut BufReader<ChildStdout>,
    used: Receiver<()>,
) -> Result<Growth, String> {
    let mut is_answered = vec![false; usize::try_from(CALLS).unwrap_or(usize::MAX) + 1];
    let mut line = Vec::new();
    let mut warm = 0;
    for count in 1..=CALLS {
        line.clear();
        output.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if !line.ends_with(b"\n") {
            let lost = is_answered.iter().skip(1).position(|answered| !answered).unwrap_or(0) + 1;
            return Err(format!("the output ended after {} responses; {lost} is not answered", count - 1));
        }
        let (id, text) = id_and_text(&line)?;
        if text != text_of(id) {
            return Err(format!("{id} got the text of another: {text}"));
        }
        match usize::try_from(id).ok().and_then(|id| is_answered.get_mut(id)) {
            Some(answered) if !*answered => *answered = true,
            _ => return Err(format!("{id} is answered twice, or was never asked")),
        }
        used.recv().map_err(|_| "the writer ended early")?;
        if count == WARM {
            warm = server.resident()?;
        }
    }
    Ok(Growth { warm, end: server.resident()? })
}
