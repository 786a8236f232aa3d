//! What the client programs share: what to do, and how it is told.

use std::path::PathBuf;
use std::time::Instant;

/// What a client program is asked to do.
pub struct Work {
    pub is_sequential: bool,
    pub is_modern: bool,
    pub is_multi_thread: bool,
    /// Connects again and again instead of calling.
    pub is_spawn: bool,
    /// Knows the era before.
    pub is_given: bool,
    pub calls: u64,
}

/// How many calls are in flight if they are not made one after the other.
pub const IN_FLIGHT: u64 = 64;

impl Work {
    /// `PROGRAM CALLS [sequential] [modern] [multi] [spawn] [given]`
    pub fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let has = |word: &str| arguments.iter().any(|argument| argument == word);
        Self {
            is_sequential: has("sequential"),
            is_modern: has("modern"),
            is_multi_thread: has("multi"),
            is_spawn: has("spawn"),
            is_given: has("given"),
            calls: arguments[0].parse().unwrap(),
        }
    }

    pub fn runtime(&self) -> tokio::runtime::Runtime {
        let mut builder = if self.is_multi_thread {
            tokio::runtime::Builder::new_multi_thread()
        } else {
            tokio::runtime::Builder::new_current_thread()
        };
        builder.enable_all().build().unwrap()
    }
}

/// The same over HTTP.
pub const WEB_IN_FLIGHT: u64 = 32;

/// A responder over HTTP that ends with this value, and its URL.
pub fn web_responder(work: &Work) -> (Ending, String) {
    let mut command = std::process::Command::new(responder().with_file_name("web-responder"));
    if work.is_modern {
        command.arg("--modern");
    }
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut port).unwrap();
    (Ending(child), format!("http://127.0.0.1:{}/mcp", port.trim()))
}

/// A process that is killed when this is dropped.
pub struct Ending(std::process::Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn responder() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("responder")
}

/// CPU time of this process and time that passed, both per call in µs, since it was begun.
pub struct Meter {
    cpu: std::time::Duration,
    start: Instant,
}

impl Meter {
    pub fn begin() -> Self {
        Self { cpu: crate::cpu(std::process::id()), start: Instant::now() }
    }

    pub fn tell(&self, calls: u64) {
        let time = self.start.elapsed();
        let cpu = crate::cpu(std::process::id()) - self.cpu;
        let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / calls as f64;
        println!("{} {}", each(cpu), each(time));
    }
}

/// The median of times, in µs.
pub fn tell_median(mut times: Vec<std::time::Duration>) {
    times.sort();
    let median = times[times.len() / 2].as_secs_f64() * 1e6;
    println!("{median} {median}");
}
