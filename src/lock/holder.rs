//! Who holds a lock, and in which way.

use super::fence::Fence;
use super::time::{Instant, Lease};

/// The longest token, in bytes.
pub const TOKEN_MAX: usize = 1024;
/// The longest label, in bytes.
pub const LABEL_MAX: usize = 256;

/// The caller's name for one attempt to hold a lock: 1 to [`TOKEN_MAX`] bytes, any bytes.
///
/// A token is a secret between its caller and the server, so it has no `Display`, and `Debug`
/// does not show it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Box<[u8]>);

impl Token {
    pub fn new(bytes: &[u8]) -> Option<Token> {
        Token::is_valid(bytes).then(|| Token(bytes.into()))
    }

    pub fn is_valid(bytes: &[u8]) -> bool {
        (1..=TOKEN_MAX).contains(&bytes.len())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::borrow::Borrow<[u8]> for Token {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({} bytes)", self.0.len())
    }
}

/// What people see of a holder or waiter: up to [`LABEL_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(Box<[u8]>);

impl Label {
    pub fn new(bytes: &[u8]) -> Option<Label> {
        (bytes.len() <= LABEL_MAX).then(|| Label(bytes.into()))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// How many may hold a lock at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// One holder.
    #[default]
    Exclusive,
    /// Any number of holders, and no exclusive one.
    Shared,
    /// At most so many holders, each with its own fence and lease.
    Permits(u32),
}

impl Mode {
    /// How many may hold at once; 0 stands for "no limit".
    pub fn permits(self) -> u32 {
        match self {
            Mode::Exclusive => 1,
            Mode::Shared => 0,
            Mode::Permits(n) => n,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
            Mode::Permits(_) => "permits",
        }
    }
}

/// The connection that a hold may be bound to: the server's number of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session(pub u64);

/// What few holds have. A plain hold keeps none of it, and no memory for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub label: Option<Label>,
    /// How often the token has entered the lock (`REENTRANT`); at least 1.
    pub holds: u32,
    /// How long the lock stays closed if the hold runs out, or its session ends.
    pub delay: Lease,
    pub session: Option<Session>,
}

impl Terms {
    const PLAIN: Terms = Terms {
        label: None,
        holds: 1,
        delay: Lease::ZERO,
        session: None,
    };
}

impl Default for Terms {
    fn default() -> Terms {
        Terms::PLAIN
    }
}

/// One hold on a lock.
#[derive(Clone, Debug)]
pub struct Holder {
    pub token: Token,
    pub fence: Fence,
    /// When the lease ends.
    pub deadline: Instant,
    terms: Option<Box<Terms>>,
    /// The hold's entry in the deadline index; 0 while it has none.
    pub(super) ticket: u64,
}

impl Holder {
    pub fn new(token: Token, fence: Fence, deadline: Instant, terms: Terms) -> Holder {
        Holder {
            token,
            fence,
            deadline,
            terms: (terms != Terms::PLAIN).then(|| Box::new(terms)),
            ticket: 0,
        }
    }

    pub fn terms(&self) -> &Terms {
        static PLAIN: Terms = Terms::PLAIN;
        self.terms.as_deref().unwrap_or(&PLAIN)
    }

    pub(super) fn terms_mut(&mut self) -> &mut Terms {
        self.terms.get_or_insert_default()
    }

    pub fn label(&self) -> Option<&Label> {
        self.terms().label.as_ref()
    }

    pub fn holds(&self) -> u32 {
        self.terms().holds
    }

    pub fn delay(&self) -> Lease {
        self.terms().delay
    }

    pub fn session(&self) -> Option<Session> {
        self.terms().session
    }

    /// Bytes of memory outside of the struct itself.
    pub fn heap_bytes(&self) -> usize {
        let terms = self.terms.as_ref().map_or(0, |_| size_of::<Terms>());
        self.token.bytes().len() + terms + self.label().map_or(0, |label| label.bytes().len())
    }

    /// Whether the lease is over.
    pub fn is_due(&self, now: Instant) -> bool {
        self.deadline <= now
    }

    /// What is left of the lease.
    pub fn left(&self, now: Instant) -> Lease {
        Lease::from_micros(self.deadline.micros_after(now))
    }

    /// Until when the lock is closed if the lease runs out; `None` if it has no delay.
    pub fn closes_until(&self) -> Option<Instant> {
        let delay = self.delay();
        (delay > Lease::ZERO).then(|| delay.after(self.deadline))
    }
}

/// Two holders are the same if everything but their place in the deadline index is.
impl PartialEq for Holder {
    fn eq(&self, other: &Holder) -> bool {
        self.token == other.token
            && self.fence == other.fence
            && self.deadline == other.deadline
            && self.terms() == other.terms()
    }
}
