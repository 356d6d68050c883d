//! Replies as redis-cli shows them.

use crate::support::Reply;

/// The lines of a reply.
pub fn lines(reply: &Reply) -> Vec<String> {
    show(reply, "").lines().map(str::to_owned).collect()
}

/// The text, whose lines but the first begin with `indent`.
fn show(reply: &Reply, indent: &str) -> String {
    match reply {
        Reply::Nil => "(nil)\n".to_owned(),
        Reply::Int(number) => format!("(integer) {number}\n"),
        Reply::Bool(value) => format!("({value})\n"),
        Reply::Status(text) => format!("{text}\n"),
        Reply::Error(text) => format!("(error) {text}\n"),
        Reply::Bulk(bytes) => format!("{}\n", quoted(bytes)),
        Reply::List(items) if items.is_empty() => "(empty array)\n".to_owned(),
        Reply::Map(pairs) if pairs.is_empty() => "(empty hash)\n".to_owned(),
        Reply::List(items) => numbered(items.len(), ')', indent, |index, indent| {
            show(&items[index], indent)
        }),
        Reply::Map(pairs) => numbered(pairs.len(), '#', indent, |index, indent| {
            let (name, value) = &pairs[index];
            // redis-cli begins a list of its own on the next line.
            let shown = match value {
                Reply::List(items) if !items.is_empty() => format!("\n{indent}{}", show(value, indent)),
                _ => show(value, indent),
            };
            format!("{} => {shown}", show(name, indent).trim_end())
        }),
        other => panic!("redis-cli is not known to show {other:?}"),
    }
}

/// The elements of a list, each behind its number.
fn numbered(count: usize, mark: char, indent: &str, element: impl Fn(usize, &str) -> String) -> String {
    let width = count.to_string().len();
    let deeper = format!("{indent}{}", " ".repeat(width + 2));
    let lines = (0..count).map(|index| {
        let before = if index == 0 { "" } else { indent };
        format!("{before}{:>width$}{mark} {}", index + 1, element(index, &deeper))
    });
    lines.collect()
}

fn quoted(bytes: &[u8]) -> String {
    let letters = bytes.iter().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("\"{}\"", letters.collect::<String>())
}

#[test]
fn lists_and_maps_are_numbered_and_indented() {
    let list = Reply::List(vec![
        Reply::Int(1),
        Reply::List(vec![Reply::Nil, Reply::Bulk(b"a".to_vec())]),
    ]);
    assert_eq!(lines(&list), ["1) (integer) 1", "2) 1) (nil)", "   2) \"a\""]);
    let map = Reply::Map(vec![(Reply::Bulk(b"l".to_vec()), list)]);
    assert_eq!(
        lines(&map),
        [
            "1# \"l\" => ",
            "   1) (integer) 1",
            "   2) 1) (nil)",
            "      2) \"a\""
        ]
    );
}
