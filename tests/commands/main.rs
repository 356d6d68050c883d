//! Proves that the pages of docs/commands say what is so: each command has its page, and what the page says of
//! syntax, options, rights, keys, ranges and errors is what the server does. The examples are run. Each file's
//! head says what it proves.

#[path = "../support/mod.rs"]
mod support;

mod described;
mod errors;
mod examples;
mod known;
mod page;
mod ranges;
mod session;
mod shown;
mod situations;
