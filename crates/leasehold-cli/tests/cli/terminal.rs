//! On a terminal: who has the keyboard, Ctrl-C, Ctrl-Z.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use nix::{pty::openpty, unistd::ttyname};

use super::kit::{Marker, Store, wait_until};

/// A terminal with a shell that does job control.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    shell: Child,
}

impl Terminal {
    fn new(store: &Store) -> Self {
        let pty = openpty(None, None).unwrap();
        let device = ttyname(&pty.slave).unwrap();
        // A terminal becomes that of the session whose leader opens it.
        let script = format!("exec sh -i < {0} > {0} 2>&1", device.display());
        let shell = Command::new("setsid")
            .args(["sh", "-c", &script])
            .env("LEASEHOLD_URL", store.url())
            .env("PS1", "ready> ")
            .env("LEASEHOLD", env!("CARGO_BIN_EXE_leasehold"))
            .env_remove("ENV")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let keyboard = File::from(pty.master);
        let mut output = keyboard.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&screen);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read) = output.read(&mut buffer) {
                if read == 0 {
                    break;
                }
                sink.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        let terminal = Self {
            keyboard,
            screen,
            shell,
        };
        terminal.wait_for("ready> ");
        terminal
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, text: &str) {
        wait_until(&format!("{text:?} on the screen"), || {
            self.text().contains(text)
        });
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        if thread::panicking() {
            eprintln!("on the screen: {}", self.text());
        }
    }
}

#[test]
fn the_command_can_read_the_terminal() {
    let store = Store::new();
    let mut terminal = Terminal::new(&store);
    terminal.press("$LEASEHOLD run j -- sh -c 'read x; echo \"<$x>\"'; echo status $?\n");
    store.wait_held("j");
    terminal.press("typed\n");
    terminal.wait_for("<typed>");
    terminal.wait_for("status 0");
}

#[test]
fn ctrl_c_ends_the_command_and_a_second_one_kills_it() {
    let store = Store::new();
    let marker = Marker::new();
    let mut terminal = Terminal::new(&store);
    let sleep = marker.text();
    terminal.press(&format!(
        "$LEASEHOLD run j -- sleep {sleep}; echo status $?\n"
    ));
    marker.wait_alive(1);
    terminal.press("\u{3}");
    terminal.wait_for("status 130");
    let stubborn = format!("sh -c 'trap \"\" INT; sleep {sleep}; true'");
    terminal.press(&format!(
        "$LEASEHOLD -v run j -- {stubborn}; echo status $?\n"
    ));
    marker.wait_alive(1);
    // Two that come together count as one, and one too many is the shell's.
    terminal.press("\u{3}");
    terminal.wait_for("SIGINT passed on");
    terminal.press("\u{3}");
    terminal.wait_for("interrupted a second time");
    terminal.wait_for("status 137");
    marker.wait_alive(0);
    assert!(!store.is_held("j"));
}

#[test]
fn ctrl_z_stops_the_command_as_a_job_and_fg_lets_it_go_on() {
    let store = Store::new();
    let mut terminal = Terminal::new(&store);
    let script = format!("{}; read x; echo \"<$x>\"", store.script());
    terminal.press(&format!("$LEASEHOLD run j -- sh -c '{script}'\n"));
    store.wait_begun();
    terminal.press("\u{1a}");
    terminal.wait_for("suspended and not renewing");
    terminal.wait_for("Stopped");
    store.let_end();
    terminal.press("fg; echo status $?\n");
    terminal.press("typed\n");
    terminal.wait_for("<typed>");
    terminal.wait_for("status 0");
}

#[test]
fn a_command_in_the_background_stops_when_it_reads() {
    let store = Store::new();
    let mut terminal = Terminal::new(&store);
    terminal.press("$LEASEHOLD run j -- cat &\n");
    terminal.wait_for("suspended and not renewing");
    terminal.press("fg; echo status $?\n");
    terminal.press("typed\n");
    wait_until("it was read", || {
        terminal.text().matches("typed").count() >= 2
    });
    terminal.press("\u{4}");
    terminal.wait_for("status 0");
}
