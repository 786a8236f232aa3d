//! Legacy sessions that are opened and abandoned.

use std::time::Duration;

use serde_json::json;

use crate::call;
use crate::http::{Connection, legacy_headers};
use crate::server::{Growth, Server};

const SESSIONS: u64 = 100_000;
/// More than the server keeps at once, 10,000, so that it is as full as it gets.
const WARM: u64 = 20_000;
const CONNECTIONS: u64 = 16;
/// Long enough for the server to be full before the first ends, also on a slow machine.
const IDLE: Duration = Duration::from_secs(3);
/// How often the server looks for sessions that are idle.
const LOOK: Duration = Duration::from_secs(1);

/// Most make room for others; the last 10,000 end because nobody uses them.
pub(crate) fn abandoned() -> Result<String, String> {
    let (server, port) = Server::http(&["--session-idle-ms", &IDLE.as_millis().to_string()])?;
    let mut crowd = Crowd::connect(port)?;
    let last = crowd.open(WARM)?;
    crowd.wait_until_reaped(&last)?;
    let warm = server.resident()?;
    let last = crowd.open(SESSIONS - WARM)?;
    let full = server.resident()?;
    crowd.wait_until_reaped(&last)?;
    let growth = Growth { warm, end: server.resident()? }.check()?;
    Ok(format!("{SESSIONS} opened and abandoned, {growth} ({full} KiB when full)"))
}

/// Connections that open sessions, one after the other, and never come back to them.
struct Crowd(Vec<Connection>);

impl Crowd {
    fn connect(port: u16) -> Result<Self, String> {
        Ok(Self((0..CONNECTIONS).map(|_| Connection::open(port)).collect::<Result<_, _>>()?))
    }

    /// Opens so many, and gives the last of one connection.
    fn open(&mut self, count: u64) -> Result<String, String> {
        std::thread::scope(|scope| {
            let opening: Vec<_> = self
                .0
                .iter_mut()
                .map(|connection| {
                    scope.spawn(move || {
                        let mut last = String::new();
                        for _ in 0..count / CONNECTIONS {
                            last = connection.open_session()?;
                        }
                        Ok(last)
                    })
                })
                .collect();
            opening.into_iter().try_fold(String::new(), |_, thread| {
                thread.join().unwrap_or_else(|_| Err("a client panicked".into()))
            })
        })
    }

    /// Waits until nobody has used any session for long enough, and the server has looked.
    fn wait_until_reaped(&mut self, session: &str) -> Result<(), String> {
        // The server looks for idle ones once a second, and may have looked just before they were.
        std::thread::sleep(IDLE + LOOK + Duration::from_millis(100));
        let connection = self.0.first_mut().ok_or("no connection")?;
        let body = call(1, "echo", &json!({ "text": "" }), false);
        let response = connection.exchange(&legacy_headers(session), &body)?;
        match response.status() {
            "404" => Ok(()),
            status => Err(format!("a session that nobody used for {} ms got {status}", IDLE.as_millis())),
        }
    }
}
