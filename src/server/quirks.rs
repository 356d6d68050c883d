//! What some versions of the servers do wrong, and flock goes round.

use crate::ffi::module::Server;

#[derive(Default)]
pub struct Quirks {
    /// Redis and Valkey 7.2: CLIENT UNBLOCK ends the server if it meets a client that was answered
    /// in the same pass of the loop, so it must not find any (fixed in Redis 7.4 by its #13015,
    /// and in Valkey 8.0).
    pub must_not_unblock: bool,
    /// Redis 7.0: in the same case the client gets no answer at all. Closing its connection at
    /// least tells it so.
    pub close_unanswered: bool,
    /// Redis 7.0: where a user is denied a command that a module runs, the error says `ERR acl
    /// verification failed` in place of `NOPERM`.
    pub denies_with_err: bool,
    /// Valkey 8.1 to 9.1: whoever moves or copies a key to another database stays there, if a
    /// module follows such events: a client, and on a replica the link to its primary (fixed by
    /// Valkey's #4024; 9.1.2 has the fix). Without the events, a lock that was renamed or moved
    /// is found again when a command next touches it.
    pub must_not_follow_moves: bool,
}

impl Quirks {
    pub fn of(server: &Server) -> Quirks {
        let release = server.release();
        let is_valkey = server.name == "valkey";
        Quirks {
            must_not_unblock: release[..2] == [7, 2],
            close_unanswered: release[..2] == [7, 0],
            denies_with_err: release[..2] == [7, 0],
            must_not_follow_moves: is_valkey && ([8, 1, 0]..[9, 1, 2]).contains(&release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quirks(name: &str, version: &str) -> Quirks {
        let (name, version) = (name.to_owned(), version.to_owned());
        Quirks::of(&Server { name, version })
    }

    #[test]
    fn each_quirk_is_that_of_the_versions_that_have_it() {
        let oldest = quirks("redis", "7.0.15");
        assert!(oldest.close_unanswered && oldest.denies_with_err);
        assert!(quirks("redis", "7.2.6").must_not_unblock && quirks("valkey", "7.2.9").must_not_unblock);
        for (name, version) in [
            ("redis", "7.4.1"),
            ("redis", "8.6.3"),
            ("valkey", "8.0.1"),
            ("valkey", "9.1.2"),
        ] {
            let quirks = quirks(name, version);
            let any = [
                quirks.must_not_unblock,
                quirks.close_unanswered,
                quirks.denies_with_err,
                quirks.must_not_follow_moves,
            ];
            assert!(!any.contains(&true), "{name} {version}");
        }
        for version in ["8.1.0", "8.1.1", "9.0.3", "9.1.1"] {
            assert!(quirks("valkey", version).must_not_follow_moves, "{version}");
        }
    }
}
