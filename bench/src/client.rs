//! What the client programs share: what to do, and how it is told.

use std::path::PathBuf;
use std::process::Command;
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
    /// Sends a fixed bearer token.
    pub has_header: bool,
    /// Sends the bearer token of a login.
    pub has_login: bool,
    pub calls: u64,
}

/// How many calls are in flight over stdio if they are not made one after the other.
pub const IN_FLIGHT: u64 = 64;
/// The same over HTTP.
pub const WEB_IN_FLIGHT: u64 = 32;

/// A client that can be measured.
pub trait Caller: Clone + Send + 'static {
    /// Makes one call and looks at its result. No other call in flight has this number.
    fn call(&self, number: u64) -> impl Future<Output = ()> + Send;
}

impl Work {
    /// `PROGRAM CALLS [sequential] [modern] [multi] [spawn] [given] [header] [login]`
    pub fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let has = |word: &str| arguments.iter().any(|argument| argument == word);
        Self {
            is_sequential: has("sequential"),
            is_modern: has("modern"),
            is_multi_thread: has("multi"),
            is_spawn: has("spawn"),
            is_given: has("given"),
            has_header: has("header"),
            has_login: has("login"),
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

    /// Warms up, makes the calls, and tells what they cost.
    pub async fn measure(&self, caller: &impl Caller, in_flight: u64) {
        self.make(caller, in_flight, self.calls / 10).await;
        let meter = Meter::begin();
        self.make(caller, in_flight, self.calls).await;
        meter.tell(self.calls);
    }

    async fn make(&self, caller: &impl Caller, in_flight: u64, calls: u64) {
        if self.is_sequential {
            for number in 0..calls {
                caller.call(number).await;
            }
            return;
        }
        let callers: Vec<_> = (0..in_flight)
            .map(|number| {
                let caller = caller.clone();
                tokio::spawn(async move {
                    for round in 0..calls / in_flight {
                        caller.call(round * in_flight + number).await;
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
    }
}

/// Has a client program make calls; gives CPU and time per call in µs.
pub fn run(program: &str, arguments: &[&str], calls: u64, sequential: bool) -> (f64, f64) {
    let mut command = Command::new(responder().with_file_name(program));
    command.arg(calls.to_string()).args(arguments);
    if sequential {
        command.arg("sequential");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace().map(|word| word.parse().unwrap());
    match (words.next(), words.next()) {
        (Some(cpu), Some(time)) => (cpu, time),
        _ => panic!("{program} failed: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// A responder over HTTP that ends with this value, and its URL.
pub fn web_responder(work: &Work) -> (Ending, String) {
    let mut command = Command::new(responder().with_file_name("web-responder"));
    if work.is_modern {
        command.arg("--modern");
    }
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut port)
        .unwrap();
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
