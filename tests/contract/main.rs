//! The contract of docs/commands/, line by line: replies, errors, options,
//! settings and what people see. Each file's head says what it proves.

#[path = "../support/mod.rs"]
mod support;

mod acquire;
mod arguments;
mod fences;
mod inspect;
mod metadata;
mod numbers;
mod operators;
mod queue;
mod refresh_release;
mod refused;
mod secrecy;
mod settings;
mod transactions;
