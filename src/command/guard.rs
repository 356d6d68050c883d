//! FLOCK.GUARD: runs a command only while a token holds a lock.

use super::errors::{self, reply_if_failed, Error};
use super::parse;
use super::table::{COMMAND, INNER_ARGS, KEY, TOKEN};
use crate::ffi::command::{Access, Command, Keys, Spec};
use crate::ffi::{call, Ctx, Str};
use crate::server::state::{self, State};
use crate::server::{clock, transition};

pub struct Guard;

/// Where the guarded command begins among the arguments.
const INNER_AT: usize = 3;

impl Command for Guard {
    const SPEC: Spec = Spec {
        name: c"flock.guard",
        arity: -4,
        // Not `write`: what it does is what the guarded command does, and the server checks that.
        flags: c"may-replicate getkeys-api",
        is_internal: false,
        keys: Keys::OneAndInner(Access::Read, INNER_AT),
        acl: "slow flock",
        summary: c"Runs a command only if the token holds the lock at this moment.",
        complexity: c"O(H) with H holders of this lock, and that of the command.",
        since: c"0.1.0",
        args: &[KEY, TOKEN, COMMAND, INNER_ARGS],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, key, token, _, ..] => reply_if_failed(ctx, guard(ctx, key, token, &args[INNER_AT..])),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

/// Commands of the connection that scripts may run, to no effect.
const OF_CONNECTION: [&str; 4] = ["select", "asking", "readonly", "readwrite"];

/// Commands that run scripts. A script may not run them, but here they are what one wants: a whole
/// read-decide-write in one guarded step.
const OF_SCRIPTS: [&str; 6] = ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"];

/// How many verdicts about commands are kept.
const VERDICTS_MAX: usize = 512;

fn guard(ctx: &Ctx, key: &Str, token: &Str, command: &[Str]) -> Result<(), Error> {
    let token = parse::token(token)?;
    let name = command[0].bytes().to_ascii_lowercase();
    let (is_primary, is_nested) = state::with(|state| (state.is_primary, state.is_guarding));
    // A script inside a script ends the server.
    let is_nested = is_nested || ctx.flags().is_in_script() && is_of_scripts(&name);
    if is_nested || is_refused(ctx, &name) {
        return Err(errors::NOT_GUARDED);
    }
    if !is_primary {
        return Err(errors::GUARD_READ_ONLY);
    }
    let now = clock::monotonic();
    let fence = transition::look(ctx, key, |lock, _| {
        let mut holders = lock.into_iter().flat_map(|lock| lock.live_holders(now));
        Some(holders.find(|holder| holder.token.bytes() == token)?.fence)
    })?;
    state::with(|state| match fence {
        Some(fence) => {
            // Whoever has the token was told of the grant.
            state.engine.arrived(fence);
            state.metrics.guards += 1;
            Ok(())
        }
        None => {
            state.metrics.guards_refused += 1;
            Err(errors::NOT_HELD)
        }
    })?;
    let denies_with_err = state::with(|state| state.quirks.denies_with_err);
    let _guarding = Guarding::begin();
    match call::run_for_client(ctx, command, !is_of_scripts(&name), denies_with_err) {
        true => Ok(()),
        false => Err(errors::NOT_RUN),
    }
}

fn is_of_scripts(name: &[u8]) -> bool {
    OF_SCRIPTS.iter().any(|known| known.as_bytes() == name)
}

/// Whether a command cannot be guarded. What the server says of a command is kept, for it costs more
/// to ask than to run most of them.
fn is_refused(ctx: &Ctx, name: &[u8]) -> bool {
    if let Some(verdict) = state::with(|state| state.guard_verdicts.get(name).copied()) {
        return verdict;
    }
    let Some(flags) = call::command_flags(ctx, name) else {
        // An unknown command: the server shall say so.
        return false;
    };
    let has = |flag: &str| flags.iter().any(|known| known == flag);
    let is_refused = has("blocking")
        || has("noscript") && !is_of_scripts(name)
        || OF_CONNECTION.iter().any(|known| known.as_bytes() == name)
        || name == Guard::SPEC.name.to_bytes();
    state::with(|state| {
        if state.guard_verdicts.len() >= VERDICTS_MAX {
            state.guard_verdicts.clear();
        }
        state.guard_verdicts.insert(name.into(), is_refused);
    });
    is_refused
}

/// While a guarded command runs; a second one inside is refused.
struct Guarding;

impl Guarding {
    fn begin() -> Guarding {
        state::with(|state: &mut State| state.is_guarding = true);
        Guarding
    }
}

impl Drop for Guarding {
    fn drop(&mut self) {
        state::with(|state| state.is_guarding = false);
    }
}
