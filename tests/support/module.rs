//! The module under test. A `cdylib`-only package gets no `.so` from
//! `cargo test`, and one that lies around may be older than the sources, so
//! the harness asks cargo for it, once per test process.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The module's file: `FLOCK_MODULE`, or a fresh release build.
pub fn path() -> &'static Path {
    // A failure is kept too, or each test would build again.
    static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let path = PATH.get_or_init(|| match std::env::var_os("FLOCK_MODULE") {
        Some(path) => std::fs::canonicalize(&path).map_err(|error| format!("FLOCK_MODULE={path:?}: {error}")),
        None => build(),
    });
    path.as_deref().unwrap_or_else(|error| panic!("{error}"))
}

fn build() -> Result<PathBuf, String> {
    // CARGO_TARGET_TMPDIR is `<target dir>/tmp` of the cargo that built this test.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target directory");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "--lib", "--quiet", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo should start");
    match output.status.success() {
        true => Ok(target.join(format!("release/{DLL_PREFIX}flock{DLL_SUFFIX}"))),
        false => Err(format!(
            "the module does not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
