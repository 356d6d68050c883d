//! The ways to hold a lock: by many at once, several times over, tied to a
//! connection, and closed for a while after a holder was lost.
//!
//! | file | proves |
//! |---|---|
//! | `shared.rs` | SHARED: many readers or one writer, in the order of their arrival |
//! | `permits.rs` | PERMITS: never more than n, whoever comes and goes |
//! | `mixed.rs` | one token, one mode; requests of all modes in one queue |
//! | `reentrant.rs` | REENTRANT: one fence, counted, as many releases |
//! | `delay.rs` | DELAY: when a lock is closed, to whom, and for how long |
//! | `opening.rs` | what opens a closed lock, and who is served then |
//! | `session.rs` | SESSION: a hold that ends with its connection, however that ends |
//! | `severed.rs` | what the loss of a session leaves behind, and connections that the server closes |
//! | `tied.rs` | which connection a hold is tied to after retries, moves, reloads and pauses |
//! | `stream.rs` | what each transition sends to replicas, word for word |
//! | `kept.rs` | what comes back from the disk, and from DUMP |
//! | `followed.rs` | what replicas know, and do once promoted |

#[path = "../support/mod.rs"]
mod support;

mod connection;
mod delay;
mod followed;
mod kept;
mod look;
mod mixed;
mod opening;
mod permits;
mod reentrant;
mod session;
mod severed;
mod shared;
mod stream;
mod tied;
