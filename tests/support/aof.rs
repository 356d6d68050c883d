//! The append-only file as it lies on the disk, command by command.

use std::fs;
use std::path::{Path, PathBuf};

use redis::Parser;

use super::reply::Reply;

/// The increments of a server's append-only file, oldest first.
pub fn increments(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory.join("appendonlydir"))
        .expect("the folder of the append-only file")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .collect();
    files.sort_by_key(|path| sequence(path));
    files
}

/// `appendonly.aof.12.incr.aof` is number 12.
fn sequence(path: &Path) -> u64 {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let number = name.split('.').nth(2).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("not the name of an increment: {name}"))
}

/// The commands of the newest increment, one string each, SELECT left out.
pub fn newest_commands(directory: &Path) -> Vec<String> {
    let file = increments(directory).pop().expect("an increment");
    let bytes = fs::read(&file).expect("the increment");
    let mut rest: &[u8] = &bytes;
    let mut parser = Parser::new();
    let mut commands = Vec::new();
    while let Ok(value) = parser.parse_value(&mut rest) {
        let words: Vec<_> = Reply::from(value).items().iter().map(Reply::text).collect();
        if !words[0].eq_ignore_ascii_case("SELECT") {
            commands.push(words.join(" "));
        }
    }
    commands
}
