//! Interrupted programs: unfinished files are removed, and the terminal is restored, before the
//! process ends.
//!
//! A signal may come while a thread waits for a pipe or for the GPU, and such a thread cannot clean
//! up. So a thread of its own waits for SIGINT, SIGTERM and SIGHUP, removes what is
//! [unfinished](Unfinished), and ends the process with status 128 + signal, as shells report it.
//! Signals that were ignored when the program began stay ignored, for `nohup`.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is to be undone if the process is interrupted.
static UNFINISHED: Mutex<State> = Mutex::new(State {
    files: Vec::new(),
    restore: None,
});

struct State {
    files: Vec<PathBuf>,
    restore: Option<fn()>,
}

fn state() -> MutexGuard<'static, State> {
    // Each change of the list is one call, so it is whole after a panic.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that an interrupted process removes. Dropping it keeps the file.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// Calls `create`, and notes the file that it has made. An interruption comes before both or
    /// after both.
    ///
    /// # Errors
    /// The error of `create`.
    pub fn create<T>(create: impl FnOnce() -> io::Result<(T, PathBuf)>) -> io::Result<(T, Self)> {
        let mut state = state();
        let (made, path) = create()?;
        // The working directory may change, and signals come at any time.
        let path = std::path::absolute(&path).unwrap_or(path);
        state.files.push(path.clone());
        Ok((made, Self(path)))
    }

    /// Calls `finish`, which gives the file its own name or removes it. An interruption comes
    /// before it or after it.
    pub fn finish<T>(self, finish: impl FnOnce() -> T) -> T {
        let _state = state();
        finish()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        state().files.retain(|file| *file != self.0);
    }
}

/// Sets what an interrupted process does with the terminal before it ends.
pub fn restore_terminal_with(restore: Option<fn()>) {
    state().restore = restore;
}

/// Begins to wait for signals. Call it once, before any unfinished file exists.
///
/// # Errors
/// If the signals can't be handled, or a thread can't be started.
#[cfg(unix)]
pub fn handle() -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let ignored = ignored();
    let wanted = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| !ignored(*signal));
    let mut signals = Signals::new(wanted)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            end(128 + signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

/// Removes what is unfinished, and ends the process. Destructors do not run, because threads still
/// use what they would free.
pub fn end(status: i32) -> ! {
    // The lock is kept, so nothing new is begun.
    let state = state();
    for file in &state.files {
        // Nobody is left to be told of an error.
        let _ = std::fs::remove_file(file);
    }
    if let Some(restore) = state.restore {
        restore();
    }
    #[cfg(unix)]
    signal_hook::low_level::exit(status);
    #[cfg(not(unix))]
    std::process::exit(status);
}

/// Whether a signal was ignored when the program began. Where the system does not tell, no signal
/// was.
#[cfg(unix)]
fn ignored() -> impl Fn(i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok())
        .unwrap_or(0);
    move |signal| mask >> (signal - 1) & 1 == 1
}

/// Does nothing: on this system an interrupted process leaves its temporary files behind.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn handle() -> io::Result<()> {
    Ok(())
}
