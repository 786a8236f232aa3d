//! A caller whose request is the only one in flight writes it itself, without holding a lock of the connection.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mcp_client::protocol::ProtocolVersion;
use mcp_client::{Error, McpClient, Sent};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};

const TIMEOUT: Duration = Duration::from_secs(10);

type Hook = Box<dyn FnMut(&str, &AtomicBool) + Send>;

/// Calls a hook inside each write of a tool call, after the bytes have left. The driver writes too, while it has not
/// returned the writer; the hook does not run then.
struct HookedWriter<W> {
    inner: W,
    /// The thread of the caller.
    caller: std::thread::ThreadId,
    is_handled: Arc<AtomicBool>,
    hook: Hook,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for HookedWriter<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_handled.store(false, Ordering::Release);
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        let text = String::from_utf8_lossy(bytes);
        if text.contains("tools/call") && std::thread::current().id() == self.caller {
            let Self { is_handled, hook, .. } = &mut *self;
            hook(&text, is_handled);
        }
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Sets a flag when the driver reads again after it has read a response to a tool call.
struct WatchedReader<R> {
    inner: R,
    has_response: bool,
    is_handled: Arc<AtomicBool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for WatchedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.has_response) {
            self.is_handled.store(true, Ordering::Release);
        }
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.has_response |= buffer.filled()[before..].windows(7).any(|window| window == b"content");
        outcome
    }
}

/// Responds to each request, and returns the names of the tools that were called. Disconnects when `leave` is called.
async fn serve(mut stream: DuplexStream) -> Vec<String> {
    let initialized = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
        "serverInfo": {"name": "direct", "version": "1"}});
    let (mut received, mut names) = (Vec::new(), Vec::new());
    while stream.read_buf(&mut received).await.is_ok_and(|count| count > 0) {
        while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).collect();
            let request: Value = serde_json::from_slice(&line).unwrap();
            let result = match request["method"].as_str() {
                Some("initialize") => initialized.clone(),
                Some("tools/call") => {
                    let name = request["params"]["name"].as_str().unwrap().to_owned();
                    names.push(name.clone());
                    if name == "leave" {
                        return names;
                    }
                    json!({"content": []})
                }
                _ => continue,
            };
            let response = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            if stream.write_all(format!("{response}\n").as_bytes()).await.is_err() {
                return names;
            }
        }
    }
    names
}

/// A client on a runtime with threads, whose server runs on a thread of its own. `hook` runs inside the writes of calls,
/// in which the flag tells whether the driver has handled a response.
struct Direct {
    runtime: tokio::runtime::Runtime,
    client: McpClient,
    server: std::thread::JoinHandle<Vec<String>>,
}

impl Direct {
    fn start(hook: impl FnMut(&str, &AtomicBool) + Send + 'static) -> Self {
        let (near, far) = tokio::io::duplex(1 << 20);
        let server = std::thread::spawn(|| {
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(serve(far))
        });
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let (reader, writer) = tokio::io::split(near);
        let is_handled = Arc::new(AtomicBool::new(false));
        let reader =
            WatchedReader { inner: reader, has_response: false, is_handled: Arc::clone(&is_handled) };
        let caller = std::thread::current().id();
        let link = (reader, HookedWriter { inner: writer, caller, is_handled, hook: Box::new(hook) });
        let connect = McpClient::over(link).versions([ProtocolVersion::V2025_06_18]);
        let client = runtime.block_on(async { connect.connect().await.unwrap() });
        Self { runtime, client, server }
    }

    /// Makes a call, which must end in time.
    fn call(&self, tool: &str) -> Result<(), Error> {
        let call = async { tokio::time::timeout(TIMEOUT, self.client.call(tool, ())).await };
        self.runtime.block_on(call).expect("the call ends").map(drop)
    }

    /// Makes calls until the hook has run for one of them. Returns how many.
    fn call_directly(&self, tool: &str, has_run: impl Fn() -> bool) -> usize {
        for calls in 1..=1000 {
            self.call(tool).unwrap();
            if has_run() {
                return calls;
            }
        }
        panic!("no call was written by its caller");
    }

    fn end(self) -> Vec<String> {
        let Self { runtime, client, server } = self;
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, client.close()).await.unwrap() });
        drop(runtime);
        server.join().unwrap()
    }
}

#[test]
fn response_is_handled_while_the_caller_still_writes() {
    let handled_in_write: Arc<Mutex<Vec<bool>>> = Arc::default();
    let seen = Arc::clone(&handled_in_write);
    let direct = Direct::start(move |_, is_handled| {
        let deadline = Instant::now() + TIMEOUT;
        while !is_handled.load(Ordering::Acquire) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        seen.lock().unwrap().push(is_handled.load(Ordering::Acquire));
    });
    direct.call_directly("echo", || !handled_in_write.lock().unwrap().is_empty());
    direct.end();
    assert_eq!(*handled_in_write.lock().unwrap(), [true]);
}

#[test]
fn request_made_while_a_caller_writes_is_sent_afterwards() {
    let client: Arc<Mutex<Option<McpClient>>> = Arc::default();
    let second: Arc<Mutex<Option<tokio::task::JoinHandle<()>>>> = Arc::default();
    let (for_hook, made) = (Arc::clone(&client), Arc::clone(&second));
    let direct = Direct::start(move |text, _| {
        if !text.contains("first") {
            return;
        }
        let client = for_hook.lock().unwrap().clone().unwrap();
        let (sender, is_queued) = mpsc::channel();
        let call = tokio::spawn(async move {
            let mut call = std::pin::pin!(client.call("second", ()).into_future());
            // The first poll queues the request.
            assert!(std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await.is_pending());
            sender.send(()).unwrap();
            call.await.unwrap();
        });
        is_queued.recv_timeout(TIMEOUT).expect("the lock is free");
        *made.lock().unwrap() = Some(call);
    });
    *client.lock().unwrap() = Some(direct.client.clone());
    let calls = direct.call_directly("first", || second.lock().unwrap().is_some());
    let second = second.lock().unwrap().take().unwrap();
    direct.runtime.block_on(async { tokio::time::timeout(TIMEOUT, second).await.unwrap().unwrap() });
    client.lock().unwrap().take();
    let mut expected = vec!["first"; calls];
    expected.push("second");
    assert_eq!(direct.end(), expected);
}

#[test]
fn connection_that_ends_during_a_write_may_have_sent_it() {
    let is_direct = Arc::new(AtomicBool::new(false));
    let has_run = Arc::clone(&is_direct);
    let direct = Direct::start(move |text, _| {
        has_run.store(true, Ordering::Release);
        if text.contains("leave") {
            // The driver notices the end meanwhile.
            std::thread::sleep(Duration::from_millis(900));
        }
    });
    direct.call_directly("echo", || is_direct.load(Ordering::Acquire));
    let error = direct.call("leave").unwrap_err();
    assert!(matches!(error, Error::Lost { sent: Sent::Maybe, .. }), "{error:?}");
    let error = direct.call("echo").unwrap_err();
    assert!(matches!(error, Error::Lost { sent: Sent::No, .. }), "{error:?}");
    direct.end();
}

#[test]
fn writer_that_panics_once_is_returned_to_the_driver() {
    let direct = Direct::start(|_, _| panic!("the writer panics"));
    let panicked = (0..1000).any(|_| {
        let call = std::panic::AssertUnwindSafe(|| direct.call("echo"));
        std::panic::catch_unwind(call).map_or(true, |outcome| outcome.is_err())
    });
    assert!(panicked, "no call was written by its caller");
    // The lines went back to the driver, which goes on with the writer.
    direct.call("echo").unwrap();
    direct.end();
}
