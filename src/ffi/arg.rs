//! The arguments of a command as COMMAND DOCS shows them, and its syntax in one line.

use std::ffi::{c_char, c_int, CStr};

use redis_module::raw;

use super::command::Spec;

/// One argument.
#[derive(Clone, Copy)]
pub struct Arg {
    name: &'static CStr,
    kind: Kind,
    /// The word before it, or the word that it is.
    token: Option<&'static CStr>,
    is_optional: bool,
    is_multiple: bool,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Key,
    String,
    Integer,
    /// The word itself, without a value.
    Word,
    OneOf(&'static [Arg]),
}

impl Arg {
    pub const fn new(name: &'static CStr, kind: Kind) -> Arg {
        Arg {
            name,
            kind,
            token: None,
            is_optional: false,
            is_multiple: false,
        }
    }

    /// The argument comes behind that word, or is that word.
    pub const fn after(mut self, word: &'static CStr) -> Arg {
        self.token = Some(word);
        self
    }

    pub const fn optional(mut self) -> Arg {
        self.is_optional = true;
        self
    }

    /// The argument may be repeated.
    pub const fn multiple(mut self) -> Arg {
        self.is_multiple = true;
        self
    }

    fn syntax(&self) -> String {
        let name = self.name.to_string_lossy();
        let value = match self.kind {
            Kind::Word => String::new(),
            Kind::OneOf(args) => args.iter().map(Arg::syntax).collect::<Vec<_>>().join(" | "),
            Kind::Key | Kind::String | Kind::Integer => name.into_owned(),
        };
        let text = match self.token {
            Some(token) => format!("{} {value}", token.to_string_lossy()),
            None => value,
        };
        let text = text.trim_end();
        match (self.is_optional, self.is_multiple, self.kind) {
            (false, false, Kind::OneOf(_)) => format!("<{text}>"),
            (false, false, _) => text.to_owned(),
            (false, true, _) => format!("{text} [{text} ...]"),
            (true, false, _) => format!("[{text}]"),
            (true, true, _) => format!("[{text} [{text} ...]]"),
        }
    }
}

impl Spec {
    /// The syntax in one line, in the form of the server's own documentation.
    pub fn syntax(&self) -> String {
        let name = self.name.to_string_lossy().to_ascii_uppercase();
        let args = self.args.iter().map(Arg::syntax);
        std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
    }
}

/// Lists of the server's form of arguments.
pub(super) type Lists = Vec<Vec<raw::RedisModuleCommandArg>>;

/// Builds the server's form of some arguments. Every list it needs is kept alive in `lists`.
pub(super) fn list(args: &[Arg], lists: &mut Lists) -> *mut raw::RedisModuleCommandArg {
    if args.is_empty() {
        return std::ptr::null_mut();
    }
    let mut list: Vec<_> = args.iter().map(|arg| server_arg(arg, lists)).collect();
    // SAFETY: zeroes are a valid value of this plain C struct: the one that ends a list.
    list.push(unsafe { std::mem::zeroed() });
    // Moving the list into `lists` does not move its elements.
    let first = list.as_mut_ptr();
    lists.push(list);
    first
}

fn server_arg(arg: &Arg, lists: &mut Lists) -> raw::RedisModuleCommandArg {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), |t| t.as_ptr() as *const c_char);
    let (kind, subargs) = match arg.kind {
        Kind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, &[][..]),
        Kind::String => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            &[][..],
        ),
        Kind::Integer => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            &[][..],
        ),
        Kind::Word => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
            &[][..],
        ),
        Kind::OneOf(args) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, args),
    };
    let key_spec = match arg.kind {
        Kind::Key => 0,
        _ => -1,
    };
    let optional = match arg.is_optional {
        true => raw::REDISMODULE_CMD_ARG_OPTIONAL,
        false => raw::REDISMODULE_CMD_ARG_NONE,
    };
    let multiple = match arg.is_multiple {
        true => raw::REDISMODULE_CMD_ARG_MULTIPLE,
        false => raw::REDISMODULE_CMD_ARG_NONE,
    };
    raw::RedisModuleCommandArg {
        name: arg.name.as_ptr(),
        type_: kind,
        key_spec_index: key_spec,
        token: pointer(arg.token),
        summary: std::ptr::null(),
        since: std::ptr::null(),
        flags: (optional | multiple) as c_int,
        deprecated_since: std::ptr::null(),
        subargs: list(subargs, lists),
        display_text: std::ptr::null(),
    }
}
