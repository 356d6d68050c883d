//! The lock of this module, as a client sees it.

use std::time::Duration;

use redis::{cmd, Cmd, Connection};

use super::Fallible;

pub const KEY: &str = "flock-wallet:lock";
/// How long a caller waits in line before that is an error.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// In whole milliseconds, as the commands take them.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn acquire_command(token: &str, lease: Duration) -> Cmd {
    let mut command = cmd("FLOCK.ACQUIRE");
    command.arg(KEY).arg(token).arg("PX").arg(millis(lease));
    command
}

/// Waits in line, and returns the fence.
pub fn acquire(connection: &mut Connection, token: &str, lease: Duration) -> Fallible<i64> {
    acquire_labelled(connection, token, lease, token)
}

/// [`acquire`], under a label that FLOCK.INFO shows.
pub fn acquire_labelled(
    connection: &mut Connection,
    token: &str,
    lease: Duration,
    label: &str,
) -> Fallible<i64> {
    let fence: Option<i64> = acquire_command(token, lease)
        .arg("BLOCK")
        .arg(millis(PATIENCE))
        .arg("LABEL")
        .arg(label)
        .query(connection)?;
    fence.ok_or_else(|| format!("{KEY} was not free within {PATIENCE:?}").into())
}

/// [`acquire`], with a fence above one that the storage has seen.
pub fn acquire_above(connection: &mut Connection, token: &str, lease: Duration, fence: i64) -> Fallible<i64> {
    let fence: Option<i64> = acquire_command(token, lease)
        .arg("BLOCK")
        .arg(millis(PATIENCE))
        .arg("ABOVE")
        .arg(fence)
        .query(connection)?;
    fence.ok_or_else(|| format!("{KEY} was not free within {PATIENCE:?}").into())
}

/// One try: the fence, or None while another holds the lock.
pub fn try_acquire(connection: &mut Connection, token: &str, lease: Duration) -> Fallible<Option<i64>> {
    Ok(acquire_command(token, lease).query(connection)?)
}

/// False if the lock is not this token's any more.
pub fn refresh(connection: &mut Connection, token: &str, lease: Duration) -> Fallible<bool> {
    Ok(cmd("FLOCK.REFRESH")
        .arg(KEY)
        .arg(token)
        .arg("PX")
        .arg(millis(lease))
        .query(connection)?)
}

/// False if the lock was not this token's any more: it came too late.
pub fn release(connection: &mut Connection, token: &str) -> Fallible<bool> {
    Ok(cmd("FLOCK.RELEASE").arg(KEY).arg(token).query(connection)?)
}

/// Whether this token holds the lock.
pub fn holds(connection: &mut Connection, token: &str) -> Fallible<bool> {
    let left_ms: i64 = cmd("FLOCK.PTTL").arg(KEY).arg(token).query(connection)?;
    Ok(left_ms >= 0)
}
