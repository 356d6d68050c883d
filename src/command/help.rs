//! FLOCK.HELP: one line a command.

use super::table;
use crate::ffi::command::{Command, Keys, Spec};
use crate::ffi::{Ctx, Str};

pub struct Help;

impl Command for Help {
    const SPEC: Spec = Spec {
        name: c"flock.help",
        arity: 1,
        flags: c"fast",
        is_internal: false,
        keys: Keys::None,
        acl: "fast flock",
        summary: c"Lists the commands of flock.",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        if args.len() != 1 {
            return ctx.reply_wrong_arity();
        }
        let lines: Vec<_> = table::PUBLIC.iter().map(|spec| line(spec)).collect();
        ctx.reply_array(lines.len());
        lines.iter().for_each(|line| ctx.reply_bytes(line.as_bytes()));
    }
}

fn line(spec: &Spec) -> String {
    format!("{}: {}", spec.syntax(), spec.summary.to_string_lossy())
}
