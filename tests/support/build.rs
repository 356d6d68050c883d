//! Which server the tests run against, and what that server can do.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A server executable: Redis or Valkey, and its version.
pub struct Build {
    pub executable: PathBuf,
    pub is_valkey: bool,
    pub version: [u32; 3],
}

impl Build {
    /// `FLOCK_SERVER`, else the first of `redis-server` and `valkey-server` that runs.
    pub fn get() -> &'static Build {
        static BUILD: OnceLock<Build> = OnceLock::new();
        BUILD.get_or_init(|| {
            let candidates = match std::env::var_os("FLOCK_SERVER") {
                Some(path) => vec![PathBuf::from(path)],
                None => vec!["redis-server".into(), "valkey-server".into()],
            };
            candidates
                .into_iter()
                .find_map(Build::probe)
                .expect("a server: install redis-server or valkey-server, or set FLOCK_SERVER")
        })
    }

    /// Reads `--version`: "Redis server v=7.0.15 …" or "Valkey server v=9.1.2 …".
    pub fn probe(executable: PathBuf) -> Option<Build> {
        let output = Command::new(&executable).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_once("v=")?.1;
        let end = version.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let mut numbers = version[..end].split('.').map(|number| number.parse().ok());
        Some(Build {
            executable,
            is_valkey: text.starts_with("Valkey"),
            version: [numbers.next()??, numbers.next()??, numbers.next()??],
        })
    }

    /// At least this Redis, or at least this Valkey.
    pub fn is_since(&self, redis: (u32, u32), valkey: (u32, u32)) -> bool {
        let [major, minor, _] = self.version;
        (major, minor) >= if self.is_valkey { valkey } else { redis }
    }

    /// A module may add its own ACL category.
    pub fn has_own_acl_categories(&self) -> bool {
        self.is_since((7, 4), (8, 0))
    }

    /// A module may put a command into the server's ACL categories.
    pub fn has_acl_categories(&self) -> bool {
        self.is_since((7, 2), (7, 2))
    }

    /// Commands that ordinary clients do not even see.
    pub fn has_internal_commands(&self) -> bool {
        !self.is_valkey && self.version >= [8, 0, 0]
    }

    /// 7.2 asserts when CLIENT UNBLOCK meets a module's blocked client that
    /// was just answered, so the module does not offer it there.
    pub fn can_unblock_module_clients(&self) -> bool {
        self.version[..2] != [7, 2]
    }

    /// Older servers, with or without a module, panic ("Unknown btype") when
    /// CLIENT UNBLOCK meets a client whose command a pause has put off: seen on
    /// Redis 7.0.15, 8.0.2 and Valkey 8.1.1, not on 8.6.3 and 9.1.2.
    pub fn bears_unblocking_a_paused_client(&self) -> bool {
        self.is_since((8, 6), (9, 1))
    }

    /// On Valkey 8.1 to 9.1.1 a client that moves a key to another database
    /// stays there itself if a module listens, so flock does not listen.
    pub fn tells_of_moves(&self) -> bool {
        !self.is_valkey || self.version < [8, 1, 0] || self.version >= [9, 1, 2]
    }
}
