//! The process group of a child: the child and its descendants, unless they leave the group.

use std::io;
use std::sync::Mutex;

use tokio::process::{Child, Command};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Terminate,
    Kill,
}

/// A process group. Once it is known to be empty, it is never signalled again.
#[derive(Debug)]
pub(super) struct Group {
    id: Option<u32>,
    /// `None` once the group is known to be empty: its id may then belong to another group.
    living: Mutex<Option<Living>>,
}

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Self { id: child.id(), living: Mutex::new(Living::of(child)) }
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.id
    }

    /// Sends a signal to all members of the group.
    pub(super) fn signal(&self, signal: Signal) {
        self.with(|living| living.signal(signal));
    }

    /// Returns true if no member of the group is running.
    pub(super) fn is_empty(&self) -> bool {
        self.with(Living::is_there);
        self.lock().is_none()
    }

    /// Marks the group as empty, so that it is never signalled again.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    /// Calls `act` with the group, and marks the group as empty if `act` returns false.
    fn with(&self, act: impl FnOnce(&Living) -> bool) {
        let mut living = self.lock();
        if living.as_ref().is_some_and(|living| !act(living)) {
            *living = None;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Living>> {
        self.living.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(unix)]
pub(super) use unix::{Living, is_format_error, kill, prepare};
#[cfg(windows)]
pub(super) use windows::{Living, is_format_error, kill, prepare};

#[cfg(unix)]
mod unix {
    use rustix::io::Errno;
    use rustix::process::{Pid, kill_process_group, test_kill_process_group};

    use super::{Child, Command, Signal, io};

    #[derive(Debug)]
    pub(in super::super) struct Living(Pid);

    pub(in super::super) fn prepare(command: &mut Command) {
        command.process_group(0);
    }

    pub(in super::super) fn is_format_error(error: &io::Error) -> bool {
        error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
    }

    /// Kills a group that another host started. Returns false if the group was empty.
    pub(in super::super) fn kill(group: u32) -> bool {
        let group = i32::try_from(group).ok().and_then(Pid::from_raw);
        group.is_some_and(|group| Living(group).signal(Signal::Kill))
    }

    impl Living {
        pub(super) fn of(child: &Child) -> Option<Self> {
            child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).map(Self)
        }

        /// Sends the signal to all members. Returns false if the group was empty.
        pub(super) fn signal(&self, signal: Signal) -> bool {
            let signal = match signal {
                Signal::Terminate => rustix::process::Signal::TERM,
                Signal::Kill => rustix::process::Signal::KILL,
            };
            kill_process_group(self.0, signal) != Err(Errno::SRCH)
        }

        pub(super) fn is_there(&self) -> bool {
            test_kill_process_group(self.0) != Err(Errno::SRCH) && has_living_member(self.0)
        }
    }

    /// Returns false if the group consists of zombies only. The init process should reap them, but in many containers
    /// it does not.
    fn has_living_member(group: Pid) -> bool {
        let Ok(entries) = std::fs::read_dir("/proc") else { return true };
        let mut stats = entries.flatten().filter_map(|entry| std::fs::read(entry.path().join("stat")).ok());
        let mut knows = false;
        let lives = stats.any(|stat| {
            knows = true;
            // The process name may contain any character, so fields are counted after it: state, parent, group.
            let rest = stat.iter().rposition(|byte| *byte == b')').map_or(&[][..], |at| &stat[at + 1..]);
            let mut words = rest.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            let (state, id) = (words.next(), words.nth(1));
            let id = id.and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
            id == Some(group.as_raw_nonzero().get()) && !matches!(state, Some(b"Z" | b"X"))
        });
        lives || !knows
    }
}

/// On Windows, a job object serves as the process group: no process can leave it, and all its processes are killed when
/// its last handle is closed, even if the host crashes.
#[cfg(windows)]
mod windows {
    use win32job::{ExtendedLimitInfo, Job};

    use super::{Child, Command, Signal, io};

    /// The flag that prevents a console window.
    const CREATE_NO_WINDOW: u32 = 0x0800_0000;
    const ERROR_BAD_EXE_FORMAT: i32 = 193;

    #[derive(Debug)]
    pub(in super::super) struct Living(Job);

    pub(in super::super) fn prepare(command: &mut Command) {
        command.creation_flags(CREATE_NO_WINDOW);
    }

    pub(in super::super) fn is_format_error(error: &io::Error) -> bool {
        error.raw_os_error() == Some(ERROR_BAD_EXE_FORMAT)
    }

    /// Does nothing, because on Windows a crashed host leaves no processes behind.
    pub(in super::super) fn kill(_: u32) -> bool {
        false
    }

    impl Living {
        /// Creates the job and assigns the child to it. Processes that the child has started before are not part of the
        /// job.
        pub(super) fn of(child: &Child) -> Option<Self> {
            let job = Job::create_with_limit_info(ExtendedLimitInfo::new().limit_kill_on_job_close()).ok()?;
            job.assign_process(child.raw_handle()? as isize).ok()?;
            Some(Self(job))
        }

        /// Windows has no SIGTERM, so `Terminate` does nothing. For `Kill`, returns false: the caller then drops the
        /// job, which kills its processes.
        pub(super) fn signal(&self, signal: Signal) -> bool {
            signal == Signal::Terminate
        }

        pub(super) fn is_there(&self) -> bool {
            self.0.query_process_id_list().is_ok_and(|processes| !processes.is_empty())
        }
    }
}
