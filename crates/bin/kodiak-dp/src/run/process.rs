//! The Envoy process: start, wait, terminate, kill.
//!
//! A thread of its own starts it and waits for it. The system kills Envoy when the thread that started it exits, so Envoy
//! does not outlive this process; a thread of the runtime may exit at any time.

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

/// Time for the connections of a changed or removed listener.
const LISTENER_DRAIN_TIME: Duration = Duration::from_secs(30);

/// Part of util-linux. It asks the system to kill the program with its parent, which needs unsafe code otherwise.
const SETPRIV: &str = "setpriv";

pub(super) struct Envoy {
    child: Arc<Mutex<Child>>,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Envoy {
    /// Envoy runs in the folder of its sockets.
    pub(super) async fn start(options: &Options, bootstrap: &Path, folder: &Path) -> Result<Self, RunError> {
        let failed = |source| RunError::Start { program: options.envoy.clone(), source };
        let commands = commands(options, bootstrap, folder).map_err(failed)?;
        let (started, start) = oneshot::channel();
        let run = move || match spawn(commands) {
            Ok(child) => {
                let child = Arc::new(Mutex::new(child));
                let (end, ended) = watch::channel(None);
                // If the receiver is dropped, so is the process, which kills it.
                let _ = started.send(Ok(Self { child: Arc::clone(&child), ended }));
                end.send_replace(Some(wait(&child)));
            }
            Err(error) => drop(started.send(Err(error))),
        };
        thread::Builder::new().name("envoy".to_owned()).spawn(run).map_err(failed)?;
        start.await.unwrap_or_else(|_| Err(io::Error::other("its thread ended"))).map_err(failed)
    }

    /// Waits until it has exited.
    pub(super) async fn ended(&self) -> ExitStatus {
        let mut ended = self.ended.clone();
        let status = ended.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        // The thread sends it before it exits, unless it panicked.
        status.unwrap_or(ExitStatus::from_raw(Signal::KILL.as_raw()))
    }

    /// Terminates it, and kills it if it has not exited within `patience`.
    pub(super) async fn terminate(&self, patience: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        if let Ok(status) = tokio::time::timeout(patience, self.ended()).await {
            return status;
        }
        tracing::warn!("Envoy did not exit on SIGTERM, killing it");
        self.signal(Signal::KILL);
        self.ended().await
    }

    /// Signals the process, never another one with the same pid: it is reaped under the same lock.
    fn signal(&self, signal: Signal) {
        let mut child = lock(&self.child);
        if matches!(child.try_wait(), Ok(None))
            && let Err(error) = kill_process(pid(&child), signal)
        {
            tracing::warn!(%error, "failed to send a signal to Envoy");
        }
    }
}

impl Drop for Envoy {
    /// Leaves no process, however this one ends.
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Command to start it, and the one without setpriv.
fn commands(options: &Options, bootstrap: &Path, folder: &Path) -> io::Result<[Command; 2]> {
    let envoy = std::path::absolute(&options.envoy)?;
    let mut with_setpriv = Command::new(SETPRIV);
    with_setpriv.args(["--pdeathsig", "KILL", "--"]).arg(&envoy);
    let mut commands = [with_setpriv, Command::new(&envoy)];
    for command in &mut commands {
        command.current_dir(folder);
        command.arg("--config-path").arg(bootstrap);
        // Also the time for connections of a changed listener, so a short drain time must not shorten it.
        command.arg("--drain-time-s").arg(options.drain_time.max(LISTENER_DRAIN_TIME).as_secs().to_string());
        command.args(["--drain-strategy", "immediate", "--disable-hot-restart"]);
        // Access logs wait for so long, also those that are forwarded. Envoy's default is ten times as long.
        command.args(["--file-flush-interval-msec", "1000"]);
        command.args(["--log-level", &options.envoy_log_level]);
        if let Some(levels) = &options.envoy_component_log_level {
            command.arg("--component-log-level").arg(levels);
        }
        if let Some(concurrency) = options.concurrency {
            command.arg("--concurrency").arg(concurrency.to_string());
        }
        command.stdin(Stdio::null());
        if let Some(file) = &options.envoy_output {
            let output = OpenOptions::new().create(true).append(true).open(file)?;
            command.stdout(output.try_clone()?).stderr(output);
        }
        // Ctrl-C goes to all processes of the terminal's group; Envoy would exit without draining.
        command.process_group(0);
    }
    Ok(commands)
}

fn spawn([mut with_setpriv, mut alone]: [Command; 2]) -> io::Result<Child> {
    match with_setpriv.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::warn!("{SETPRIV} not found: if this process is killed with SIGKILL, Envoy keeps running");
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

/// The value is a handle, which is consistent even if a thread panicked.
fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}
