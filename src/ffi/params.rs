//! Arguments of a command that flock itself sends: to replicas and the AOF file, into a rewritten
//! AOF file, or to the server.

use std::ffi::{c_char, CStr};
use std::marker::PhantomData;

use super::string::Str;

const WORDS: usize = 18;

/// Arguments for the API's variadic functions (`RedisModule_Replicate` and its kin), built
/// without allocation: a format, and the words it describes.
///
/// Those functions read each argument as one 64-bit word, a pointer or an integer, and stop where
/// the format ends; so all [`WORDS`] words are always passed, as C allows.
pub struct Params<'a> {
    format: [u8; WORDS + 2],
    length: usize,
    words: [usize; WORDS],
    used: usize,
    lent: PhantomData<&'a [u8]>,
}

impl<'a> Params<'a> {
    pub fn new() -> Params<'a> {
        Params {
            format: [0; WORDS + 2],
            length: 0,
            words: [0; WORDS],
            used: 0,
            lent: PhantomData,
        }
    }

    pub fn word(self, word: &'static CStr) -> Params<'a> {
        self.push(b"c", &[word.as_ptr() as usize])
    }

    /// A string of the server, which it need not copy.
    pub fn string(self, string: &'a Str) -> Params<'a> {
        self.push(b"s", &[string.as_ptr() as usize])
    }

    pub fn bytes(self, bytes: &'a [u8]) -> Params<'a> {
        self.push(b"b", &[bytes.as_ptr() as usize, bytes.len()])
    }

    pub fn integer(self, integer: u64) -> Params<'a> {
        self.push(b"l", &[integer as usize])
    }

    /// A list of the server's strings.
    pub fn strings(self, strings: &'a [Str]) -> Params<'a> {
        self.push(b"v", &[strings.as_ptr() as usize, strings.len()])
    }

    /// To the AOF file, and not to replicas.
    pub fn aof_only(self) -> Params<'a> {
        self.flag(b'R')
    }

    /// Changes how the command is sent or run, and adds no argument.
    pub(super) fn flag(self, flag: u8) -> Params<'a> {
        self.push(&[flag], &[])
    }

    fn push(mut self, kind: &[u8; 1], words: &[usize]) -> Params<'a> {
        // One byte of the format stays 0, to end it.
        assert!(self.length + 1 < self.format.len() && self.used + words.len() <= WORDS);
        self.format[self.length] = kind[0];
        self.length += 1;
        self.words[self.used..][..words.len()].copy_from_slice(words);
        self.used += words.len();
        self
    }

    pub(super) fn format(&self) -> *const c_char {
        self.format.as_ptr().cast()
    }

    pub(super) fn words(&self) -> &[usize; WORDS] {
        &self.words
    }
}

/// Calls a variadic API function with the words of some [`Params`].
macro_rules! call_with {
    ($function:expr, $params:expr, $($first:expr),+) => {{
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = *$params.words();
        $function($($first),+, $params.format(), a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
    }};
}

pub(super) use call_with;
