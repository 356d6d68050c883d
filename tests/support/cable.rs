//! A line between processes that a test cuts and mends. As in a network that has failed nothing is
//! closed: what is sent meanwhile arrives when the line is mended.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

const PIECE_BYTES: usize = 16 * 1024;

/// Leads to a server; whoever connects to [`Cable::port`] reaches it over this line.
pub struct Cable {
    port: u16,
    line: Arc<Line>,
}

#[derive(Default)]
struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    /// The test is over: nobody else is let in.
    is_over: bool,
}

impl Cable {
    pub fn to(server_port: u16) -> Cable {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its own address").port();
        let line = Arc::<Line>::default();
        let cable = Cable {
            port,
            line: line.clone(),
        };
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if line.state().is_over {
                    return;
                }
                line.join(near, server_port);
            }
        });
        cable
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn cut(&self) {
        self.line.change(|state| state.is_cut = true);
    }

    pub fn mend(&self) {
        self.line.change(|state| state.is_cut = false);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.line.change(|state| {
            state.is_over = true;
            state.is_cut = false;
        });
        // The one who lets others in looks up only when somebody comes.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the state of the line")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Carries bytes both ways until either end closes.
    fn join(self: &Arc<Line>, near: TcpStream, server_port: u16) {
        let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port)) else {
            return; // nobody is there: the near end finds its connection closed
        };
        for (from, to) in [(&near, &far), (&far, &near)] {
            let line = self.clone();
            let from = from.try_clone().expect("a second handle");
            let to = to.try_clone().expect("a second handle");
            thread::spawn(move || line.carry(from, to));
        }
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream) {
        let _ = to.set_nodelay(true);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let length = from.read(&mut piece).unwrap_or(0);
            let held_up = self.changed.wait_while(self.state(), |state| state.is_cut);
            drop(held_up.expect("the state of the line"));
            if length == 0 || to.write_all(&piece[..length]).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}
