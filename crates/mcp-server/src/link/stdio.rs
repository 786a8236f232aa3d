//! The stdio transport.
//!
//! On Unix, the runtime reads and writes pipes and sockets directly. Files and terminals cannot be polled and are read
//! by a thread. While a server runs, stdout is redirected to stderr, so that only protocol messages reach the client.
//! On Windows, stdin is always read by a thread, and stdout is not redirected.

use std::fs::File;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::call::identity::Principal;
use crate::error::Error;
use crate::link::chunks::{Chunk, ChunkReader};
use crate::link::driver;
use crate::server::McpServer;

impl McpServer {
    /// Serves the client that started this process, on stdin and stdout.
    ///
    /// After the client has closed stdin, waits up to the [`grace`](Self::grace) period for the calls in flight,
    /// cancels the rest, and returns. While the server runs on Unix, stdout is redirected, so that `println!` writes to
    /// stderr. On Windows `println!` writes to stdout, which breaks the protocol: use `eprintln!` there.
    ///
    /// # Errors
    /// Fails if the server is not configured correctly, or reading or writing fails.
    #[doc(alias = "stdin")]
    #[doc(alias = "stdout")]
    pub async fn serve_stdio(self) -> Result<(), Error> {
        let core = self.into_core(usize::MAX)?;
        let mut reader = platform::input()?;
        let mut writer = platform::output()?;
        let _guard = platform::StdoutGuard::new()?;
        driver::drive(&core, &mut reader, &mut writer, None, Principal::default()).await?;
        Ok(())
    }
}

type StdinReader = Pin<Box<dyn AsyncRead + Send>>;
type StdoutWriter = Pin<Box<dyn AsyncWrite + Send>>;

/// The size of one read by the thread in bytes, and the maximum number of reads that are queued.
const READ_BYTES: usize = 64 << 10;
const MAX_QUEUED_READS: usize = 4;

/// Reads a file or terminal in a thread, which ends at the end of input or when the process exits.
fn read_in_thread(mut file: File) -> io::Result<StdinReader> {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_READS);
    std::thread::Builder::new().name("mcp-stdin".into()).spawn(move || {
        loop {
            let mut chunk = vec![0; READ_BYTES];
            let read = match file.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read,
            };
            let is_end = !matches!(read, Ok(1..));
            let chunk = read.map(|count| {
                chunk.truncate(count);
                Chunk { bytes: chunk, _memory: None }
            });
            if sender.blocking_send(chunk).is_err() || is_end {
                return;
            }
        }
    })?;
    Ok(Box::pin(ChunkReader::new(receiver)))
}

/// A file or terminal, written with blocking calls.
struct BlockingWriter(File);

impl AsyncWrite for BlockingWriter {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.write(buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(unix)]
mod platform {
    use std::fs::{File, Metadata};
    use std::io::{self, Write};
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    use std::os::unix::net::UnixStream as StdUnixStream;

    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;

    use super::{BlockingWriter, StdinReader, StdoutWriter, read_in_thread};

    fn metadata(fd: BorrowedFd<'_>) -> io::Result<Metadata> {
        File::from(fd.try_clone_to_owned()?).metadata()
    }

    /// Returns true if both descriptors refer to the same file. `O_NONBLOCK` belongs to the open file and would then
    /// affect both.
    fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
        match (metadata(one), metadata(other)) {
            (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
            _ => false,
        }
    }

    fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
        let stream = StdUnixStream::from(fd);
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    }

    pub(super) fn input() -> io::Result<StdinReader> {
        let stdin = io::stdin();
        let fd = stdin.as_fd();
        let kind = metadata(fd)?.file_type();
        let owned = fd.try_clone_to_owned()?;
        if kind.is_fifo() {
            // Reopened, so that `O_NONBLOCK` does not affect other processes that share the open file.
            if let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
                return Ok(Box::pin(pipe));
            }
            Ok(Box::pin(pipe::Receiver::from_owned_fd(owned)?))
        } else if kind.is_socket() {
            Ok(Box::pin(socket(owned)?))
        } else {
            read_in_thread(File::from(owned))
        }
    }

    pub(super) fn output() -> io::Result<StdoutWriter> {
        let stdout = io::stdout();
        let fd = stdout.as_fd();
        let is_shared = is_same(fd, io::stderr().as_fd());
        let kind = metadata(fd)?.file_type();
        if kind.is_fifo()
            && let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1")
        {
            return Ok(Box::pin(pipe));
        }
        let owned = fd.try_clone_to_owned()?;
        if kind.is_fifo() && !is_shared {
            Ok(Box::pin(pipe::Sender::from_owned_fd(owned)?))
        } else if kind.is_socket() && !is_shared {
            Ok(Box::pin(socket(owned)?))
        } else {
            Ok(Box::pin(BlockingWriter(File::from(owned))))
        }
    }

    /// Redirects stdout to stderr until it is dropped.
    pub(super) struct StdoutGuard(OwnedFd);

    impl StdoutGuard {
        pub(super) fn new() -> io::Result<Self> {
            // Output that was printed before the redirection still goes to stdout.
            io::stdout().flush()?;
            let original = io::stdout().as_fd().try_clone_to_owned()?;
            rustix::stdio::dup2_stdout(io::stderr())?;
            Ok(Self(original))
        }
    }

    impl Drop for StdoutGuard {
        fn drop(&mut self) {
            // Buffered output must not reach stdout after the redirection ends.
            let _ = io::stdout().flush();
            // If this fails, stdout stays redirected to stderr.
            let _ = rustix::stdio::dup2_stdout(&self.0);
        }
    }
}

#[cfg(windows)]
mod platform {
    use std::fs::File;
    use std::io;
    use std::os::windows::io::AsHandle;

    use super::{BlockingWriter, StdinReader, StdoutWriter, read_in_thread};

    pub(super) fn input() -> io::Result<StdinReader> {
        read_in_thread(File::from(io::stdin().as_handle().try_clone_to_owned()?))
    }

    pub(super) fn output() -> io::Result<StdoutWriter> {
        Ok(Box::pin(BlockingWriter(File::from(io::stdout().as_handle().try_clone_to_owned()?))))
    }

    /// Stdout is not redirected on Windows.
    pub(super) struct StdoutGuard;

    impl StdoutGuard {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }
    }
}
