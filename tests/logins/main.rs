//! Logins at a real authorization server: `peers/run-logins` starts this program.
//!
//! ```sh
//! logins FOLDER      # the folder with the authorization server
//! ```
//!
//! With other arguments, it is one of the processes that share a login: see `worker.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a program of the tests")]

mod browser;
mod canary;
mod flows;
mod protected;
mod server;
mod shared;
mod worker;

use std::path::Path;
use std::time::Instant;

use crate::canary::Canary;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    canary::log_everything();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["worker", ..] => worker::run(&words[1..]).await,
        [folder] => {
            let (started, canary) = (Instant::now(), Canary::start());
            let mut secrets = flows::run(Path::new(folder), &canary).await;
            for store in ["file", "keychain"] {
                secrets.extend(shared::run(Path::new(folder), store, &canary).await);
            }
            canary.check(&secrets);
            println!("logins: all passed in {:.1} s", started.elapsed().as_secs_f64());
        }
        _ => panic!("usage: logins FOLDER"),
    }
}
