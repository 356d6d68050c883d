//! A server whose wall clock a test steps, by a shim that is preloaded into it.
//! The shim is compiled with `cc` into a directory of the test's own.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Once;

use super::builder::Builder;
use super::server::Server;

const SHIM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/wall_clock.c");
/// In the server's directory, by the shim's own account.
const SHIFT_FILE: &str = "wall-clock-shift";
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Starts the server with a wall clock of its own, which is right at first.
#[track_caller]
pub fn start_with_wall_clock(builder: Builder) -> Server {
    static PRELOADED: Once = Once::new();
    PRELOADED.call_once(|| {
        let shim = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libwall_clock.so");
        let status = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([&shim, Path::new(SHIM)])
            .status()
            .expect("cc, the C compiler, should start");
        assert!(status.success(), "{SHIM} does not compile");
        // From here on every child of this test process has it; this process itself has not.
        std::env::set_var("LD_PRELOAD", &shim);
    });
    builder.undressed().start()
}

/// Steps the server's wall clock to be this far from the right time.
#[track_caller]
pub fn step_wall_clock(server: &Server, seconds: i64) {
    let file = File::options()
        .write(true)
        .open(server.directory().join(SHIFT_FILE));
    let shift = seconds * NANOS_PER_SECOND;
    file.expect("the shim's file")
        .write_all_at(&shift.to_ne_bytes(), 0)
        .expect("a step of the clock");
}
