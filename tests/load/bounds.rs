//! Clients that leave in the middle, and clients that make the server keep as much as it can.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::http::{Connection, legacy_headers};
use crate::server::Server;
use crate::{call, initialize_as};

/// Clients that leave: as many as the server keeps sessions, then two waves, of which the second is four times as large.
const LEAVERS: [u64; 3] = [10_000, 5_000, 20_000];
const THREADS: u64 = 8;
/// Four times the input may cost five times the time.
const MAX_GROWTH: f64 = 5.0;
/// KiB that the server may have, and has at least, while thousands of sessions with a waiting call are open.
const LEAVERS_CEILING: u64 = 200 << 10;
const LEAVERS_FLOOR: u64 = 40 << 10;

/// Each client initializes, calls a tool that asks, and leaves. However many do, the next one is served.
pub(crate) fn leavers() -> Result<String, String> {
    let (server, port) = Server::http(&[])?;
    let mut costs = Vec::new();
    for count in LEAVERS {
        let before = server.cpu_ticks()?;
        std::thread::scope(|scope| {
            let leaving: Vec<_> = (0..THREADS)
                .map(|_| scope.spawn(move || (0..count / THREADS).try_for_each(|_| leave(port))))
                .collect();
            leaving
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a client panicked".into())))
        })?;
        costs.push(server.cpu_ticks()?.saturating_sub(before).max(1));
    }
    let growth = costs[2] as f64 / costs[1] as f64;
    let resident = server.resident()?;
    if growth > MAX_GROWTH {
        return Err(format!("four times the clients cost {growth:.1} times the time"));
    }
    if !(LEAVERS_FLOOR..=LEAVERS_CEILING).contains(&resident) {
        return Err(format!("{resident} KiB are resident, not {LEAVERS_FLOOR} to {LEAVERS_CEILING}"));
    }
    Connection::open(port)?
        .open_session()
        .map_err(|problem| format!("nobody is connected, but {problem}"))?;
    Ok(format!(
        "{} clients left while they were asked; four times as many cost {growth:.1} times the time, resident {resident} KiB",
        LEAVERS.iter().sum::<u64>()
    ))
}

fn leave(port: u16) -> Result<(), String> {
    let mut connection = Connection::open(port)?;
    let info = json!({"name": "leaver", "version": "1"});
    let session = connection.session_of(&initialize_as(&info))?;
    connection.send(&legacy_headers(&session), &call(1, "ask", &json!({}), false))?;
    connection.wait_for(b"elicitation/create").map(|_| ())
}

/// What the server may hold for sessions and streams, and for bodies: the defaults of `HttpOptions`.
const MEMORY: u64 = 256 << 10;
const BODIES: u64 = 128 << 10;
/// KiB that it may have in all. The rest is the program, its connections, and what the allocator keeps.
const CEILING: u64 = MEMORY + BODIES + (96 << 10);
/// Bodies that begin and never end: more than fit.
const DRIPPING: usize = 60;
const BODY: usize = 4 << 20;

/// Sessions with as much data as they may have, subscriptions to URIs as long as they may be, and bodies that never end:
/// each until the server refuses or makes room, and the memory of the server stays below its ceiling.
pub(crate) fn hoarders() -> Result<String, String> {
    let (server, port) = Server::http(&[])?;
    let mut most = 0;
    let mut look = |what: &str| {
        let resident = server.resident()?;
        most = most.max(resident);
        if resident > CEILING {
            return Err(format!("{what}: {resident} KiB are resident, and {CEILING} are the most"));
        }
        Ok(resident)
    };
    let mut connection = Connection::open(port)?;

    // What costs the server the most for each byte that it is sent.
    let icons = vec![json!({"src": ""}); 5_500];
    let initialize = initialize_as(&json!({"name": "hoarder", "version": "1", "icons": icons}));
    for _ in 0..1_000 {
        connection.session_of(&initialize)?;
    }
    look("sessions")?;

    // Sessions that are read cannot make room for others.
    let mut streams = Vec::new();
    let mut count = 0;
    let refusal = 'full: loop {
        let session = match connection.exchange("", &initialize_as(&json!({"name": "h", "version": "1"})))? {
            opened if opened.status() == "200" => opened.header("mcp-session-id").ok_or("no session")?,
            refused => break 'full refused.status().to_owned(),
        };
        streams.push(event_stream(port, &session)?);
        for number in 0..400 {
            let uri = format!("file:///{number}/{}", "x".repeat(16_000));
            let subscribe = json!({"jsonrpc": "2.0", "id": number, "method": "resources/subscribe", "params": {"uri": uri}});
            let answer = connection.exchange(&legacy_headers(&session), &subscribe.to_string())?;
            if answer.contains("no memory left") {
                break;
            }
            count += 1;
        }
        if streams.len() > 200 {
            return Err("nothing bounds the subscriptions".into());
        }
    };
    if refusal != "503" {
        return Err(format!("the server is full and answers {refusal}"));
    }
    let full = look("subscriptions")?;
    if full < MEMORY * 9 / 10 {
        return Err(format!("the test does not reach the limit: {full} KiB of {MEMORY}"));
    }

    let mut dripping = Vec::new();
    for _ in 0..DRIPPING {
        dripping.push(begin_body(port)?);
    }
    std::thread::sleep(Duration::from_millis(500));
    let with_bodies = look("bodies")?;
    if with_bodies < full + BODIES * 3 / 4 * 9 / 10 {
        return Err(format!(
            "the test does not reach the limit: {with_bodies} KiB with bodies, {full} without"
        ));
    }
    let refused = dripping.iter_mut().map(is_refused).filter(|refused| *refused).count();
    // A quarter is kept for small bodies.
    let fit = (BODIES as usize * 3 / 4) / (BODY >> 10);
    if !(fit - 2..=fit).contains(&(DRIPPING - refused)) {
        return Err(format!("{refused} of {DRIPPING} bodies were refused, and {fit} fit"));
    }
    // Ordinary requests of others go on.
    let answer = Connection::open(port)?.exchange(
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n",
        &call(1, "echo", &json!({"text": "still here"}), true),
    )?;
    if !answer.contains("still here") {
        return Err(format!("another client got {}", answer.status()));
    }
    drop((streams, dripping));
    Ok(format!("{count} subscriptions, {refused} bodies refused, at most {most} KiB of {CEILING} resident"))
}

/// The stand-alone stream of a session, left open.
fn event_stream(port: u16, session: &str) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    let request = format!(
        "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n{}\r\n",
        legacy_headers(session)
    );
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).map_err(|error| error.to_string())?;
    if !head.ends_with(b"200") {
        return Err(format!("no stream: {}", String::from_utf8_lossy(&head)));
    }
    Ok(stream)
}

/// A request whose body lacks its last byte.
fn begin_body(port: u16) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    stream.set_write_timeout(Some(Duration::from_secs(5))).map_err(|error| error.to_string())?;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {BODY}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).map_err(|error| error.to_string())?;
    // One that is refused before its end may be cut off.
    let _ = stream.write_all(&vec![b' '; BODY - 1]);
    Ok(stream)
}

fn is_refused(stream: &mut TcpStream) -> bool {
    let mut head = [0; 12];
    let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
    match stream.read(&mut head) {
        Ok(count) => head[..count].ends_with(b"503") || count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}
