//! The live view of `--watch`: the terminal's screen while a run goes on.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType};

use super::live::Live;
use super::observer::Observer;
use crate::interrupt;

/// Whether the terminal shows the view. The lock is held while something is drawn.
static OPEN: Mutex<bool> = Mutex::new(false);

/// Time between two drawings.
const EVERY: Duration = Duration::from_millis(50);
/// The status of a process that Ctrl-C ends, as shells report it.
const INTERRUPTED: i32 = 130;

/// Whether standard output is a terminal, which the view needs.
pub fn is_possible() -> bool {
    io::stdout().is_terminal()
}

/// Runs `work`, and meanwhile shows `live` in the terminal. The terminal is restored when `work`
/// has returned, or has panicked, and if the process is [interrupted](interrupt).
///
/// The keys q and Ctrl-C end the process like SIGINT does.
///
/// # Errors
/// If the terminal can't show the view; `work` has not run then.
pub fn show<T>(live: &Live, work: impl FnOnce(&dyn Observer) -> T) -> io::Result<T> {
    let mut terminal = open()?;
    let result = thread::scope(|scope| {
        let (running, ended) = channel::<()>();
        scope.spawn(|| {
            let ended = ended;
            draw_until(&mut terminal, live, &ended);
        });
        // Dropping the channel's other end ends the thread, also if `work` panics.
        let _running = running;
        work(live)
    });
    restore();
    Ok(result)
}

fn open() -> io::Result<DefaultTerminal> {
    let mut open = lock();
    // Also restores the terminal before a panic's message is printed.
    let shown = ratatui::try_init();
    // A terminal may be in raw mode already, and fail at the next step.
    *open = true;
    drop(open);
    let terminal = shown.inspect_err(|_| restore())?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        before(panic);
    }));
    interrupt::restore_terminal_with(Some(restore));
    // Not every terminal has a second screen, and drawing leaves out what is blank.
    execute!(io::stdout(), Clear(ClearType::All)).inspect_err(|_| restore())?;
    Ok(terminal)
}

fn lock() -> MutexGuard<'static, bool> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Restores the terminal, once. Nothing is drawn afterwards.
fn restore() {
    // A panic while something is drawn comes here with the lock held, and a terminal that takes no
    // bytes keeps the drawing thread for ever: so the wait for the lock ends.
    for _ in 0..50 {
        match OPEN.try_lock() {
            Ok(mut open) => {
                if std::mem::take(&mut *open) {
                    restore_now();
                }
                return;
            }
            Err(TryLockError::Poisoned(_)) => break,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(2)),
        }
    }
    restore_now();
}

fn restore_now() {
    ratatui::restore();
    // Nobody is left to be told of an error.
    let _ = execute!(io::stdout(), Show);
}

/// Draws the view until `ended` says that the work is over, or the terminal fails.
fn draw_until(terminal: &mut DefaultTerminal, live: &Live, ended: &Receiver<()>) {
    loop {
        {
            let open = lock();
            if !*open || terminal.draw(|frame| live.draw(frame)).is_err() {
                return;
            }
        }
        while event::poll(Duration::ZERO).unwrap_or(false) {
            if event::read().is_ok_and(|event| ends(&event)) {
                // Not while the lock is held: this restores the terminal.
                interrupt::end(INTERRUPTED);
            }
        }
        match ended.recv_timeout(EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Whether an event asks for the end: q, or Ctrl-C, which is a key in raw mode.
fn ends(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind != KeyEventKind::Release
        && match key.code {
            KeyCode::Char('q' | 'Q') => true,
            KeyCode::Char('c') => control,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn q_and_control_c_end_the_program_and_other_keys_do_not() {
        let key = |code, modifiers| Event::Key(KeyEvent::new(KeyCode::Char(code), modifiers));
        assert!(ends(&key('q', KeyModifiers::NONE)) && ends(&key('c', KeyModifiers::CONTROL)));
        assert!(!ends(&key('c', KeyModifiers::NONE)) && !ends(&key('x', KeyModifiers::CONTROL)));
        assert!(!ends(&Event::Resize(3, 4)));
    }
}
