//! The whole matrix of ends, with real processes.

use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::*;
use crate::connection::feed::FeedItem;

fn shell(script: &str) -> ServerConfig<CommandTarget> {
    ServerConfig::command("sh").args(["-c", script])
}

/// A child that has started a grandchild; both ignore the end of input and TERM if told so. It says both numbers.
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

/// True if the process runs. A zombie that is somebody else's to reap does not.
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

/// True if the child was reaped: it is not even a zombie.
fn is_reaped(pid: Pid) -> bool {
    test_kill_process(pid).is_err()
}

#[tokio::test]
async fn n_8_a_child_that_honours_the_end_of_its_input_is_not_signalled() {
    let (process, pipes) = Process::start(&shell("cat; exit 7")).unwrap();
    drop(pipes.stdin);
    let end = process.end(Patience::ORDERLY).await;
    assert_eq!((end.status.and_then(|status| status.code()), end.force), (Some(7), Force::None));
}

#[tokio::test]
async fn n_1_f_11_a_group_that_ignores_everything_is_killed_within_the_bound() {
    let (process, pipes, pids) = started(&stubborn()).await;
    assert_eq!(pids.len(), 2);
    drop(pipes);
    let before = Instant::now();
    let end = process.end(Patience::ORDERLY).await;
    assert_eq!(end.force, Force::Killed);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    gone_within(&pids, Duration::from_millis(100));
    assert!(is_reaped(pids[0]));
}

#[tokio::test]
async fn x_27_a_group_that_honours_term_is_not_killed() {
    let (process, _pipes, pids) = started(&shell("sleep 60 & echo $$ $!; wait")).await;
    let patience = Patience { close: Duration::ZERO, terminate: Duration::from_secs(5) };
    assert_eq!(process.end(patience).await.force, Force::Terminated);
    gone_within(&pids, Duration::ZERO);
}

#[tokio::test]
async fn f_10_a_grandchild_that_outlives_the_child_is_ended_too() {
    // The child ends at once; the grandchild holds all pipes.
    let (process, mut pipes, pids) = started(&shell("sleep 60 & echo $$ $!")).await;
    process.exited().await;
    assert!(lives(pids[1]));
    let mut rest = [0];
    let read = tokio::time::timeout(Duration::from_millis(20), pipes.stdout.read(&mut rest)).await;
    assert!(read.is_err(), "the pipe is open");
    assert_eq!(process.end(Patience::ORDERLY).await.force, Force::Terminated);
    gone_within(&pids, Duration::ZERO);
}

#[tokio::test]
async fn x_27_dropping_kills_the_group_and_reaps_the_child_at_once() {
    let (process, _pipes, pids) = started(&stubborn()).await;
    drop(process);
    assert!(is_reaped(pids[0]), "before anything else could run");
    gone_within(&pids, Duration::from_secs(1));
}

#[test]
fn n_2_dropping_after_the_runtime_is_gone_kills_and_reaps() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (process, pipes, pids) = runtime.block_on(started(&stubborn()));
    drop(runtime);
    drop(process);
    assert!(is_reaped(pids[0]));
    gone_within(&pids, Duration::from_secs(1));
    drop(pipes);
}

#[test]
fn n_2_a_panic_that_unwinds_kills_and_reaps() {
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

/// Not a test of its own: the program that is killed by the next one.
#[tokio::test]
async fn a_host_that_waits_to_be_killed() {
    let Ok(report) = std::env::var("TEST_HOST_REPORTS_TO") else { return };
    let (_process, _pipes, pids) = started(&shell("echo $$; cat")).await;
    std::fs::write(report, pids[0].as_raw_nonzero().to_string()).unwrap();
    std::future::pending::<()>().await;
}

#[test]
fn n_3_x_37_after_a_host_was_killed_a_server_that_honours_the_end_of_input_is_gone() {
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
async fn n_9_processes_end_in_any_order_and_from_any_future() {
    let (first, ..) = started(&stubborn()).await;
    let (second, ..) = started(&stubborn()).await;
    let patience = Patience { close: Duration::ZERO, terminate: Duration::ZERO };
    let first = tokio::spawn(async move { first.end(patience).await });
    assert_eq!(second.end(patience).await.force, Force::Killed);
    assert_eq!(first.await.unwrap().force, Force::Killed);
}

#[tokio::test]
async fn s0_36_dropping_an_end_in_the_middle_leaves_nothing() {
    let (process, _pipes, pids) = started(&stubborn()).await;
    let ending = process.end(Patience::ORDERLY);
    assert!(tokio::time::timeout(Duration::from_millis(20), ending).await.is_err());
    drop(process);
    gone_within(&pids, Duration::from_secs(1));
}

#[tokio::test]
async fn n_21_f_6_a_flood_on_standard_error_is_drained_and_a_tail_kept() {
    let script =
        "head -c 10000000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo last words >&2; echo done; cat";
    let (process, mut pipes) = Process::start(&shell(script)).unwrap();
    let mut line = String::new();
    BufReader::new(&mut pipes.stdout).read_line(&mut line).await.unwrap();
    assert_eq!(line, "done\n");
    drop(pipes.stdin);
    process.exited().await;
    process.stderr().settled().await;
    assert_eq!(process.stderr().tail(), "last words");
}

#[tokio::test]
async fn x_38_values_that_were_given_are_masked_in_the_tail_and_in_lines() {
    let config = shell("read x; echo \"key $KEY and $LONGER\" >&2; printf '\\033[31m\\n' >&2; cat")
        .env("KEY", "hush-hush")
        .env("LONGER", "hush-hush-hush");
    let (process, mut pipes) = Process::start(&config).unwrap();
    let mut lines = process.stderr().lines();
    pipes.stdin.write_all(b"\n").await.unwrap();
    assert_eq!(lines.next().await, Some(FeedItem::Next("key *** and ***".into())));
    drop(pipes);
    process.exited().await;
    process.stderr().settled().await;
    assert_eq!(process.stderr().tail(), "key *** and ***\n\\u{1b}[31m");
}

#[tokio::test]
async fn a_secret_that_was_cut_at_the_beginning_of_the_tail_is_not_shown() {
    let config = shell("while :; do printf %s \"$KEY\"; done | head -c 100000 >&2; echo >&2; echo end >&2")
        .env("KEY", "abcdefghijklmnopqrstuvwxyz");
    let (process, _pipes) = Process::start(&config).unwrap();
    process.exited().await;
    process.stderr().settled().await;
    assert_eq!(process.stderr().tail(), "end");
}

#[tokio::test]
async fn f_8_a_file_of_another_kind_is_told_apart() {
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
async fn s0_23_no_shell_is_involved_and_arguments_arrive_as_they_are() {
    let odd = ["$(touch x)", "a b", "", "*", "--", "\n;"];
    let config = ServerConfig::command("printf").arg("[%s]").args(odd);
    let (_process, mut pipes) = Process::start(&config).unwrap();
    let mut text = String::new();
    pipes.stdout.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, odd.map(|argument| format!("[{argument}]")).concat());
}

#[tokio::test]
async fn x_38_the_beginning_of_a_value_at_the_end_of_a_line_that_was_cut_is_masked() {
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
async fn x_38_whoever_listens_in_the_middle_of_a_line_gets_the_next_one_first() {
    let script = "printf 'key: hush-' >&2; read x; printf 'hush\\nnext\\n' >&2; cat";
    let (process, mut pipes) = Process::start(&shell(script).env("KEY", "hush-hush")).unwrap();
    while process.stderr().tail() != "key: hush-" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut lines = process.stderr().lines();
    pipes.stdin.write_all(b"\n").await.unwrap();
    assert_eq!(lines.next().await, Some(FeedItem::Next("next".into())));
}
