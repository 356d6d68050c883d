//! Commands that must fail, and change no lock.

use crate::support::*;

/// Everything of a lock that an error must leave alone. The lease that is left
/// shrinks by itself, so it is compared by what it was set to.
#[track_caller]
fn state(client: &mut Client, key: &str) -> String {
    let info = client.call(("FLOCK.INFO", key));
    if info == NIL {
        return "free".to_owned();
    }
    let holder = &info.field("holders").items()[0];
    let minutes_left = (holder.field("ttl_ms").int() + 30_000) / 60_000;
    let lock = ["mode", "permits", "fence", "delay_ms", "waiters"].map(|name| info.field(name));
    let hold = ["holds", "label", "session"].map(|name| holder.field(name));
    format!("{lock:?} {hold:?} {minutes_left} min")
}

/// Runs a command that must fail with `error`, on a free lock, a lock of the
/// token `mine`, and a lock of another, and changes none of them.
#[track_caller]
pub fn assert_refused(client: &mut Client, error: &str, command: impl Fn(&str) -> Vec<Vec<u8>>) {
    for key in ["free", "mine", "busy"] {
        let before = state(client, key);
        let arguments = command(key);
        let shown: Vec<_> = arguments
            .iter()
            .map(|word| word.escape_ascii().to_string())
            .collect();
        assert_eq!(client.call(arguments), Reply::error(error), "{shown:?}");
        assert_eq!(state(client, key), before, "{shown:?} changed {key}");
    }
}

/// A free lock, one of the token `t`, and one of another.
#[track_caller]
pub fn prepare(client: &mut Client) {
    client.run("FLOCK.ACQUIRE mine t PX 600000 LABEL first").fence();
    client.run("FLOCK.ACQUIRE busy other PX 600000").fence();
}

/// The words of a line; `{key}` stands for a key, `{}` for a value of any bytes.
pub fn words(line: &str, key: &str, value: impl AsRef<[u8]>) -> Vec<Vec<u8>> {
    line.split(' ')
        .map(|word| match word {
            "{key}" => key.as_bytes().to_vec(),
            "{}" => value.as_ref().to_vec(),
            word => word.as_bytes().to_vec(),
        })
        .collect()
}
