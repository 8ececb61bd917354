//! The process of Envoy: started, waited for, asked to end, and ended.
//!
//! A thread of its own starts it and waits for it. The system ends Envoy when the thread that started it ends, so Envoy
//! does not outlive us, however we end; a thread of the runtime would come and go.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::sync::{oneshot, watch};

use super::{Options, RunError};

/// How long the connections of a listener that was changed or removed may go on.
const LISTENER_DRAIN_TIME: Duration = Duration::from_secs(30);

/// Part of util-linux. It asks the system to end the program with its parent, which we cannot do without unsafe code.
const SETPRIV: &str = "setpriv";

pub(super) struct Envoy {
    child: Arc<Mutex<Child>>,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Envoy {
    /// It runs in the folder of its sockets.
    pub(super) async fn start(options: &Options, bootstrap: &Path, folder: &Path) -> Result<Self, RunError> {
        let failed = |source| RunError::Start { program: options.envoy.clone(), source };
        let commands = commands(options, bootstrap, folder).map_err(failed)?;
        let (started, start) = oneshot::channel();
        let run = move || match spawn(commands) {
            Ok(child) => {
                let child = Arc::new(Mutex::new(child));
                let (end, ended) = watch::channel(None);
                // Where nobody waits for it any more, it is dropped, which ends the process.
                let _ = started.send(Ok(Self { child: Arc::clone(&child), ended }));
                end.send_replace(Some(wait(&child)));
            }
            Err(error) => drop(started.send(Err(error))),
        };
        thread::Builder::new().name("envoy".to_owned()).spawn(run).map_err(failed)?;
        start.await.unwrap_or_else(|_| Err(io::Error::other("its thread ended"))).map_err(failed)
    }

    /// Waits until it ended, by whatever.
    pub(super) async fn ended(&self) -> ExitStatus {
        let mut ended = self.ended.clone();
        let status = ended.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        // The thread says it before it ends, unless it panicked.
        status.unwrap_or(ExitStatus::from_raw(Signal::KILL.as_raw()))
    }

    /// Asks it to end, and ends it if it does not within `patience`.
    pub(super) async fn terminate(&self, patience: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        if let Ok(status) = tokio::time::timeout(patience, self.ended()).await {
            return status;
        }
        tracing::warn!("Envoy does not end when asked to; killing it.");
        self.signal(Signal::KILL);
        self.ended().await
    }

    /// To the process, never to another one that got its number: it is reaped under the same lock.
    fn signal(&self, signal: Signal) {
        let mut child = lock(&self.child);
        if matches!(child.try_wait(), Ok(None))
            && let Err(error) = kill_process(pid(&child), signal)
        {
            tracing::warn!(%error, "Cannot send a signal to Envoy.");
        }
    }
}

impl Drop for Envoy {
    /// Leaves no process, whichever way the runner goes.
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The way to start it, and the one where there is no setpriv.
fn commands(options: &Options, bootstrap: &Path, folder: &Path) -> io::Result<[Command; 2]> {
    let envoy = std::path::absolute(&options.envoy)?;
    let mut with_setpriv = Command::new(SETPRIV);
    with_setpriv.args(["--pdeathsig", "KILL", "--"]).arg(&envoy);
    let mut commands = [with_setpriv, Command::new(&envoy)];
    for command in &mut commands {
        command.current_dir(folder);
        command.arg("--config-path").arg(bootstrap);
        // Also how long connections of a listener that changes may go on, so a short end must not shorten it.
        command.arg("--drain-time-s").arg(options.drain_time.max(LISTENER_DRAIN_TIME).as_secs().to_string());
        command.args(["--drain-strategy", "immediate", "--disable-hot-restart"]);
        command.args(["--log-level", &options.envoy_log_level]);
        if let Some(concurrency) = options.concurrency {
            command.arg("--concurrency").arg(concurrency.to_string());
        }
        command.stdin(Stdio::null());
        if let Some(file) = &options.envoy_output {
            let output = OpenOptions::new().create(true).append(true).open(file)?;
            command.stdout(output.try_clone()?).stderr(output);
        }
        // Ctrl-C goes to all processes of the terminal's group; Envoy would end without having drained.
        command.process_group(0);
    }
    Ok(commands)
}

fn spawn([mut with_setpriv, mut alone]: [Command; 2]) -> io::Result<Child> {
    match with_setpriv.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::warn!("{SETPRIV} is not there: where this process is killed with SIGKILL, Envoy goes on alone.");
            alone.spawn()
        }
        spawned => spawned,
    }
}

/// Waits without the lock, then reaps under it.
fn wait(child: &Mutex<Child>) -> ExitStatus {
    let pid = pid(&lock(child));
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {}
    lock(child).wait().unwrap_or(ExitStatus::from_raw(Signal::KILL.as_raw()))
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// What is inside is a handle; it is whole even where a thread panicked.
fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}
