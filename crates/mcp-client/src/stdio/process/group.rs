//! The group of a child: everything that it starts and that does not leave on purpose.

use std::io;
use std::sync::Mutex;

use tokio::process::{Child, Command};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Terminate,
    Kill,
}

/// A group that has members, or is not known to have none.
#[derive(Debug)]
pub(super) struct Group {
    id: Option<u32>,
    /// `None` once it is known to be empty: then its number may be given to others.
    living: Mutex<Option<Living>>,
}

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Self { id: child.id(), living: Mutex::new(Living::of(child)) }
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.id
    }

    /// Signals everything in the group, if there is something.
    pub(super) fn signal(&self, signal: Signal) {
        self.with(|living| living.signal(signal));
    }

    /// True if nothing is left in it. The child counts until it is reaped.
    pub(super) fn is_empty(&self) -> bool {
        self.with(Living::is_there);
        self.lock().is_none()
    }

    /// Never signals it again.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    /// Does something with the group; when that says that nothing is there, it is forgotten.
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

    /// Kills everything in a group that is not ours. False if nobody was there.
    pub(in super::super) fn kill(group: u32) -> bool {
        let group = i32::try_from(group).ok().and_then(Pid::from_raw);
        group.is_some_and(|group| Living(group).signal(Signal::Kill))
    }

    impl Living {
        pub(super) fn of(child: &Child) -> Option<Self> {
            child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).map(Self)
        }

        /// False if nobody was there.
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

    /// False if all that is left of a group is dead and waits to be reaped. That is the business of the init process,
    /// and in many a container there is none that does it.
    fn has_living_member(group: Pid) -> bool {
        let Ok(entries) = std::fs::read_dir("/proc") else { return true };
        let mut stats = entries.flatten().filter_map(|entry| std::fs::read(entry.path().join("stat")).ok());
        let mut knows = false;
        let lives = stats.any(|stat| {
            knows = true;
            // Behind the name, which may hold anything: state, parent, group.
            let rest = stat.iter().rposition(|byte| *byte == b')').map_or(&[][..], |at| &stat[at + 1..]);
            let mut words = rest.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            let (state, id) = (words.next(), words.nth(1));
            let id = id.and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
            id == Some(group.as_raw_nonzero().get()) && !matches!(state, Some(b"Z" | b"X"))
        });
        lives || !knows
    }
}

/// A job is what Windows has for a group: it is left by nobody, and what is in it dies when the last handle to it is
/// closed, with a crashed host as well.
#[cfg(windows)]
mod windows {
    use win32job::{ExtendedLimitInfo, Job};

    use super::{Child, Command, Signal, io};

    /// No window for a program that only speaks on its pipes.
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

    /// Nothing is left behind by a crashed host, so there is nothing to kill.
    pub(in super::super) fn kill(_: u32) -> bool {
        false
    }

    impl Living {
        /// What the child starts before it is in the job is not in it.
        pub(super) fn of(child: &Child) -> Option<Self> {
            let job = Job::create_with_limit_info(ExtendedLimitInfo::new().limit_kill_on_job_close()).ok()?;
            job.assign_process(child.raw_handle()? as isize).ok()?;
            Some(Self(job))
        }

        /// Nobody can be asked to end. To be killed, the job is closed: false has it forgotten.
        pub(super) fn signal(&self, signal: Signal) -> bool {
            signal == Signal::Terminate
        }

        pub(super) fn is_there(&self) -> bool {
            self.0.query_process_id_list().is_ok_and(|processes| !processes.is_empty())
        }
    }
}
