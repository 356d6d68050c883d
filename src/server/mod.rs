//! Everything that touches the server: where locks are kept, how their transitions are carried
//! out, and what the server's events mean for them.
//!
//! - [`transition`]: one change of one lock, from opening the key to telling everybody
//! - [`many`]: one change of many locks
//! - [`propagation`]: the effects as replicas and AOF files see them
//! - [`followers`]: whether anybody is there to see them
//! - [`value`]: the lock as a value of the server: RDB, AOF, digest
//! - [`waiters`]: blocked clients and their answers
//! - [`sweep`]: what is due, done before the event loop sleeps; woken by the [`alarm`]
//! - [`events`]: keys that go or move, roles, forks
//! - [`settings`], [`metrics`], [`warnings`]: CONFIG, INFO and the log
//! - [`quorum`]: too few replicas to write
//! - [`load`]: all of it registered; [`quirks`]: what some servers do wrong
//! - [`state`]: all that the module keeps beside the keys

pub mod alarm;
pub mod clock;
pub mod events;
pub mod followers;
pub mod load;
pub mod many;
pub mod metrics;
pub mod propagation;
pub mod quirks;
pub mod quorum;
pub mod settings;
pub mod state;
pub mod sweep;
pub mod transition;
pub mod value;
pub mod waiters;
pub mod warnings;
