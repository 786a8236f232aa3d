//! The program `credentials`, which uses a store in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running program. It is killed when this value is dropped.
pub(crate) struct Tool {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The command line of the program, to be run as it is or by another program.
pub(crate) fn command_line(kind: &str, folder: &Path) -> [String; 3] {
    let program = env!("CARGO_BIN_EXE_credentials").to_owned();
    [program, kind.to_owned(), folder.to_str().unwrap().to_owned()]
}

impl Tool {
    pub(crate) fn start(kind: &str, folder: &Path) -> Self {
        let [program, kind, folder] = command_line(kind, folder);
        let mut command = Command::new(program);
        command.args([kind, folder]);
        Self::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    /// Runs one command and returns the line that it prints, or an empty string if the program ended.
    pub(crate) fn run(&mut self, command: &str) -> String {
        self.send(command);
        self.line()
    }

    pub(crate) fn send(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ends the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        self.child.wait().unwrap();
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.kill();
    }
}
