//! The settings `flock.*`.

use super::state;
use crate::ffi::config::{self, Choice, Number, Switch};
use crate::ffi::{Ctx, Str};
use crate::lock::time::LEASE_MAX_MS;
use crate::lock::{FenceSource, Limits};

/// The most waiters that any setting allows.
const WAITERS_MAX: i64 = 1_000_000_000;

pub struct Settings {
    pub limits: Limits,
    /// The longest lease a client may ask for, in milliseconds.
    pub max_lease_ms: u64,
    /// Whether transitions send keyspace events.
    pub notify: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: Limits {
                per_lock: 1_000,
                total: 10_000,
            },
            max_lease_ms: LEASE_MAX_MS,
            notify: true,
        }
    }
}

static NUMBERS: [Number; 3] = [
    Number {
        name: c"max-waiters",
        min: 0,
        max: WAITERS_MAX,
        get: || state::with(|s| s.settings.limits.per_lock as i64),
        set: |n| state::with(|s| s.settings.limits.per_lock = n as usize),
    },
    Number {
        name: c"max-waiters-total",
        min: 0,
        max: WAITERS_MAX,
        get: || state::with(|s| s.settings.limits.total as i64),
        set: |n| state::with(|s| s.settings.limits.total = n as usize),
    },
    Number {
        name: c"max-lease-ms",
        min: 1,
        max: LEASE_MAX_MS as i64,
        get: || state::with(|s| s.settings.max_lease_ms as i64),
        set: |n| state::with(|s| s.settings.max_lease_ms = n as u64),
    },
];

static CHOICES: [Choice; 1] = [Choice {
    name: c"fence-source",
    words: &[c"clock", c"counter"],
    get: || state::with(|s| usize::from(s.engine.fences.source == FenceSource::Counter)),
    set: |choice| {
        state::with(|s| {
            s.engine.fences.source = match choice {
                0 => FenceSource::Clock,
                _ => FenceSource::Counter,
            };
            s.todo.check_settings = true;
        });
    },
}];

static SWITCHES: [Switch; 1] = [Switch {
    name: c"notify",
    get: || state::with(|s| s.settings.notify),
    set: |on| state::with(|s| s.settings.notify = on),
}];

/// Takes the arguments of `loadmodule`, which become the defaults, then registers the settings,
/// so that the configuration file and CONFIG SET have the last word.
pub fn register(ctx: &Ctx, args: &[Str]) -> Result<(), String> {
    let text = |arg: &Str| String::from_utf8_lossy(arg.bytes()).into_owned();
    for pair in args.chunks(2) {
        let name = text(&pair[0]);
        let Some(value) = pair.get(1) else {
            return Err(format!("the argument '{name}' has no value"));
        };
        set_from_argument(&name.to_ascii_lowercase(), &text(value))?;
    }
    match config::register(ctx, &NUMBERS, &CHOICES, &SWITCHES) {
        true => Ok(()),
        false => Err("the server refused the settings; see the line above".to_owned()),
    }
}

fn set_from_argument(name: &str, value: &str) -> Result<(), String> {
    let bare = name.strip_prefix("flock.").unwrap_or(name);
    let is = |known: &std::ffi::CStr| known.to_bytes() == bare.as_bytes();
    if let Some(number) = NUMBERS.iter().find(|n| is(n.name)) {
        let parsed = value.parse().ok();
        let Some(n) = parsed.filter(|n| (number.min..=number.max).contains(n)) else {
            let (min, max) = (number.min, number.max);
            return Err(format!(
                "the argument '{name}' must be a number from {min} to {max}, not '{value}'"
            ));
        };
        (number.set)(n);
    } else if let Some(choice) = CHOICES.iter().find(|c| is(c.name)) {
        let matches = |word: &&std::ffi::CStr| word.to_bytes().eq_ignore_ascii_case(value.as_bytes());
        let Some(index) = choice.words.iter().position(matches) else {
            return Err(format!(
                "the argument '{name}' must be clock or counter, not '{value}'"
            ));
        };
        (choice.set)(index);
    } else if let Some(switch) = SWITCHES.iter().find(|s| is(s.name)) {
        (switch.set)(match value.to_ascii_lowercase().as_str() {
            "yes" => true,
            "no" => false,
            _ => return Err(format!("the argument '{name}' must be yes or no, not '{value}'")),
        });
    } else {
        return Err(format!(
            "unknown argument '{name}'; known are max-waiters, max-waiters-total, max-lease-ms, fence-source and notify"
        ));
    }
    Ok(())
}
