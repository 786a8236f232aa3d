//! All ways in which a server process ends, with real processes.

use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::*;
use crate::connection::feed::FeedItem;

fn shell(script: &str) -> ServerConfig<CommandTarget> {
    ServerConfig::command("sh").args(["-c", script])
}

/// A child and a grandchild that both ignore the end of their input and SIGTERM. The child prints both process ids.
fn stubborn() -> ServerConfig<CommandTarget> {
    shell(
        "trap '' TERM; sh -c \"trap '' TERM; while :; do sleep 0.1; done\" & echo $$ $!; while :; do sleep 0.1; done",
    )
}

async fn started(config: &ServerConfig<CommandTarget>) -> (Process, Pipes, Vec<Pid>) {
    let (process, mut pipes) = Process::start(config).unwrap();
    let mut line = String::new();
    BufReader::new(&mut pipes.stdout).read_line(&mut line).await.unwrap();
    let pids = line.split_whitespace().map(|word| Pid::from_raw(word.parse().unwrap()).unwrap()).collect();
    (process, pipes, pids)
}

/// Returns true if the process is running. A zombie, which another process has to reap, is not.
fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    match stat {
        Ok(stat) => !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')),
        Err(_) => cfg!(not(target_os = "linux")) && test_kill_process(pid).is_ok(),
    }
}

#[track_caller]
fn gone_within(pids: &[Pid], time: Duration) {
    let until = Instant::now() + time;
    while pids.iter().any(|pid| lives(*pid)) {
        assert!(Instant::now() < until, "{pids:?} still live");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if the child was reaped, so that not even a zombie is left.
fn is_reaped(pid: Pid) -> bool {
    test_kill_process(pid).is_err()
}

#[tokio::test]
async fn child_that_exits_on_stdin_eof_is_not_signalled() {
    let (process, pipes) = Process::start(&shell("cat; exit 7")).unwrap();
    drop(pipes.stdin);
    let end = process.end(ShutdownTimeouts::DEFAULT).await;
    assert_eq!((end.status.and_then(|status| status.code()), end.force), (Some(7), Force::None));
}

#[tokio::test]
async fn process_group_that_ignores_term_is_killed_within_5_s() {
    let (process, pipes, pids) = started(&stubborn()).await;
    assert_eq!(pids.len(), 2);
    drop(pipes);
    let before = Instant::now();
    let end = process.end(ShutdownTimeouts::DEFAULT).await;
    assert_eq!(end.force, Force::Killed);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    gone_within(&pids, Duration::from_millis(100));
    assert!(is_reaped(pids[0]));
}

#[tokio::test]
async fn process_group_that_exits_on_term_is_not_killed() {
    let (process, _pipes, pids) = started(&shell("sleep 60 & echo $$ $!; wait")).await;
    let timeouts = ShutdownTimeouts { close: Duration::ZERO, terminate: Duration::from_secs(5) };
    assert_eq!(process.end(timeouts).await.force, Force::Terminated);
    gone_within(&pids, Duration::ZERO);
}

#[tokio::test]
async fn grandchild_that_outlives_the_child_is_terminated() {
    // The child exits at once. The grandchild holds all pipes open.
    let (process, mut pipes, pids) = started(&shell("sleep 60 & echo $$ $!")).await;
    process.exited().await;
    assert!(lives(pids[1]));
    let mut rest = [0];
    let read = tokio::time::timeout(Duration::from_millis(20), pipes.stdout.read(&mut rest)).await;
    assert!(read.is_err(), "the pipe is open");
    assert_eq!(process.end(ShutdownTimeouts::DEFAULT).await.force, Force::Terminated);
    gone_within(&pids, Duration::ZERO);
}

#[tokio::test]
async fn drop_kills_the_group_and_reaps_the_child_immediately() {
    let (process, _pipes, pids) = started(&stubborn()).await;
    drop(process);
    assert!(is_reaped(pids[0]), "before anything else could run");
    gone_within(&pids, Duration::from_secs(1));
}

#[test]
fn drop_after_runtime_shutdown_kills_the_group_and_reaps() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (process, pipes, pids) = runtime.block_on(started(&stubborn()));
    drop(runtime);
    drop(process);
    assert!(is_reaped(pids[0]));
    gone_within(&pids, Duration::from_secs(1));
    drop(pipes);
}

#[test]
fn unwinding_panic_kills_the_group_and_reaps_the_child() {
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_process, _pipes, pids) = started(&stubborn()).await;
            send.send(pids).unwrap();
            panic!("on purpose");
        });
    });
    let pids = receive.recv().unwrap();
    assert!(thread.join().is_err());
    assert!(is_reaped(pids[0]));
    gone_within(&pids, Duration::from_secs(1));
}

/// Not a test by itself: the next test runs it as a host and kills it.
#[tokio::test]
async fn a_host_that_waits_to_be_killed() {
    let Ok(report) = std::env::var("TEST_HOST_REPORTS_TO") else { return };
    let (_process, _pipes, pids) = started(&shell("echo $$; cat")).await;
    std::fs::write(report, pids[0].as_raw_nonzero().to_string()).unwrap();
    std::future::pending::<()>().await;
}

#[test]
fn server_that_exits_on_stdin_eof_is_gone_after_host_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("pid");
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stdio::process::tests::a_host_that_waits_to_be_killed"])
        .env("TEST_HOST_REPORTS_TO", &report)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let pid = loop {
        match std::fs::read_to_string(&report).ok().and_then(|text| text.parse().ok()) {
            Some(pid) => break Pid::from_raw(pid).unwrap(),
            None => assert!(Instant::now() < until),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(lives(pid));
    host.kill().unwrap();
    host.wait().unwrap();
    gone_within(&[pid], Duration::from_secs(2));
}

#[tokio::test]
async fn processes_can_be_ended_in_any_order_and_from_any_task() {
    let (first, ..) = started(&stubborn()).await;
    let (second, ..) = started(&stubborn()).await;
    let timeouts = ShutdownTimeouts { close: Duration::ZERO, terminate: Duration::ZERO };
    let first = tokio::spawn(async move { first.end(timeouts).await });
    assert_eq!(second.end(timeouts).await.force, Force::Killed);
    assert_eq!(first.await.unwrap().force, Force::Killed);
}

#[tokio::test]
async fn dropping_an_unfinished_shutdown_leaves_no_process() {
    let (process, _pipes, pids) = started(&stubborn()).await;
    let ending = process.end(ShutdownTimeouts::DEFAULT);
    assert!(tokio::time::timeout(Duration::from_millis(20), ending).await.is_err());
    drop(process);
    gone_within(&pids, Duration::from_secs(1));
}

#[tokio::test]
async fn large_stderr_output_is_drained_and_its_tail_is_kept() {
    let script =
        "head -c 10000000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo last words >&2; echo done; cat";
    let (process, mut pipes) = Process::start(&shell(script)).unwrap();
    let mut line = String::new();
    BufReader::new(&mut pipes.stdout).read_line(&mut line).await.unwrap();
    assert_eq!(line, "done\n");
    drop(pipes.stdin);
    process.exited().await;
    process.stderr().read_to_end().await;
    assert_eq!(process.stderr().tail(), "last words");
}

#[tokio::test]
async fn env_values_are_masked_in_the_stderr_tail_and_lines() {
    let config = shell("read x; echo \"key $KEY and $LONGER\" >&2; printf '\\033[31m\\n' >&2; cat")
        .env("KEY", "hush-hush")
        .env("LONGER", "hush-hush-hush");
    let (process, mut pipes) = Process::start(&config).unwrap();
    let mut lines = process.stderr().lines();
    pipes.stdin.write_all(b"\n").await.unwrap();
    assert_eq!(lines.next().await, Some(FeedItem::Next("key *** and ***".into())));
    drop(pipes);
    process.exited().await;
    process.stderr().read_to_end().await;
    assert_eq!(process.stderr().tail(), "key *** and ***\n\\u{1b}[31m");
}

#[tokio::test]
async fn secret_cut_at_the_start_of_the_stderr_tail_is_not_shown() {
    let config = shell("while :; do printf %s \"$KEY\"; done | head -c 100000 >&2; echo >&2; echo end >&2")
        .env("KEY", "abcdefghijklmnopqrstuvwxyz");
    let (process, _pipes) = Process::start(&config).unwrap();
    process.exited().await;
    process.stderr().read_to_end().await;
    assert_eq!(process.stderr().tail(), "end");
}

#[tokio::test]
async fn file_in_a_wrong_format_is_reported_as_such() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("garbage", "\u{1}\u{2}\u{3}"), ("script", "#!/not/there\n")] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = Process::start(&ServerConfig::command(path.clone())).unwrap_err();
        assert!(matches!(&error, StartError::WrongFormat { path: named } if *named == path), "{error:?}");
    }
}

#[tokio::test]
async fn arguments_are_passed_verbatim_without_a_shell() {
    let odd = ["$(touch x)", "a b", "", "*", "--", "\n;"];
    let config = ServerConfig::command("printf").arg("[%s]").args(odd);
    let (_process, mut pipes) = Process::start(&config).unwrap();
    let mut text = String::new();
    pipes.stdout.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, odd.map(|argument| format!("[{argument}]")).concat());
}

#[tokio::test]
async fn secret_cut_off_by_the_line_length_limit_is_masked() {
    let config = shell("read x; printf 'key: %s\\n' \"$KEY\" >&2; printf 'plain %09000d\\n' 1 >&2; cat")
        .env("KEY", "abcdefghijklmnopqrstuvwxyz".repeat(500));
    let (process, mut pipes) = Process::start(&config).unwrap();
    let mut lines = process.stderr().lines();
    pipes.stdin.write_all(b"\n").await.unwrap();
    assert_eq!(lines.next().await, Some(FeedItem::Next("key: ***".into())));
    let Some(FeedItem::Next(plain)) = lines.next().await else { panic!("no line") };
    assert!(plain.starts_with("plain ") && !plain.contains('*'), "{plain}");
}

#[tokio::test]
async fn subscriber_in_the_middle_of_a_line_starts_at_the_next_line() {
    let script = "printf 'key: hush-' >&2; read x; printf 'hush\\nnext\\n' >&2; cat";
    let (process, mut pipes) = Process::start(&shell(script).env("KEY", "hush-hush")).unwrap();
    while process.stderr().tail() != "key: hush-" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut lines = process.stderr().lines();
    pipes.stdin.write_all(b"\n").await.unwrap();
    assert_eq!(lines.next().await, Some(FeedItem::Next("next".into())));
}
