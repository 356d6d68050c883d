//! Proves the ranges that the pages give: the least and the greatest value are taken, what is beyond is an error.

use crate::page::Page;
use crate::support::*;

/// Each option with a range, and a request with a value of it: a number, so many bytes, or so many keys. Each
/// request has a lock of its own.
const REQUESTS: &[(&str, &str)] = &[
    ("token", "FLOCK.ACQUIRE {key} {bytes} PX 600000"),
    ("PX milliseconds", "FLOCK.ACQUIRE {key} t PX {number}"),
    ("EX seconds", "FLOCK.ACQUIRE {key} t EX {number}"),
    (
        "BLOCK milliseconds",
        "FLOCK.ACQUIRE {key} t PX 600000 BLOCK {number}",
    ),
    ("PERMITS n", "FLOCK.ACQUIRE {key} t PX 600000 PERMITS {number}"),
    ("ABOVE fence", "FLOCK.ACQUIRE {key} t PX 600000 ABOVE {number}"),
    ("LABEL text", "FLOCK.ACQUIRE {key} t PX 600000 LABEL {bytes}"),
    (
        "DELAY milliseconds",
        "FLOCK.ACQUIRE {key} t PX 600000 DELAY {number}",
    ),
    ("token", "FLOCK.REFRESH {key} {bytes} PX 600000"),
    ("PX milliseconds", "FLOCK.REFRESH {key} t PX {number}"),
    ("EX seconds", "FLOCK.REFRESH {key} t EX {number}"),
    ("token", "FLOCK.RELEASE {key} {bytes}"),
    ("token", "FLOCK.PTTL {key} {bytes}"),
    ("token", "FLOCK.GUARD {key} {bytes} PING"),
    ("numkeys", "FLOCK.MACQUIRE {keys} t PX 600000"),
    ("token", "FLOCK.MACQUIRE 1 {key} {bytes} PX 600000"),
    ("PX milliseconds", "FLOCK.MACQUIRE 1 {key} t PX {number}"),
    ("EX seconds", "FLOCK.MACQUIRE 1 {key} t EX {number}"),
    (
        "BLOCK milliseconds",
        "FLOCK.MACQUIRE 1 {key} t PX 600000 BLOCK {number}",
    ),
    ("ABOVE fence", "FLOCK.MACQUIRE 1 {key} t PX 600000 ABOVE {number}"),
    ("LABEL text", "FLOCK.MACQUIRE 1 {key} t PX 600000 LABEL {bytes}"),
    ("numkeys", "FLOCK.MREFRESH {keys} t PX 600000"),
    ("token", "FLOCK.MREFRESH 1 {key} {bytes} PX 600000"),
    ("PX milliseconds", "FLOCK.MREFRESH 1 {key} t PX {number}"),
    ("EX seconds", "FLOCK.MREFRESH 1 {key} t EX {number}"),
    ("numkeys", "FLOCK.MRELEASE {keys} t"),
    ("token", "FLOCK.MRELEASE 1 {key} {bytes}"),
];

/// "1 to 1,024 bytes" as 1 and 1024.
fn range(cell: &str) -> Option<(i64, i64)> {
    let (least, rest) = cell.split_once(" to ")?;
    let greatest = rest.split(' ').next()?.replace(',', "");
    Some((least.parse().ok()?, greatest.parse().ok()?))
}

/// The options of a page that have a range of numbers, and the range.
fn ranges(page: &Page) -> Vec<(String, (i64, i64))> {
    let rows = page.rows("Options", "option");
    let with_range = rows.iter().filter_map(|cells| Some((cells[0], range(cells[1])?)));
    with_range
        .map(|(name, range)| (name.replace('`', ""), range))
        .collect()
}

fn words(request: &str, key: &str, value: i64) -> Vec<Vec<u8>> {
    // A negative number of bytes or keys there is none.
    let count = usize::try_from(value).unwrap_or_default();
    let mut words = Vec::new();
    for word in request.split(' ') {
        match word {
            "{key}" => words.push(key.into()),
            "{number}" => words.push(value.to_string().into()),
            "{bytes}" => words.push(vec![b'x'; count]),
            "{keys}" => {
                words.push(value.to_string().into());
                words.extend((0..count).map(|index| format!("{key}:{index}").into_bytes()));
            }
            word => words.push(word.into()),
        }
    }
    words
}

#[test]
fn the_least_and_the_greatest_value_are_taken_and_those_beyond_are_not() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    for (number, (option, request)) in REQUESTS.iter().enumerate() {
        let ranges = ranges(&Page::of(request));
        let of_option = ranges.iter().find(|(name, _)| name == option);
        let (_, (least, greatest)) = of_option.unwrap_or_else(|| panic!("{request}: no range of {option}"));
        let mut is_taken =
            |value: i64| match client.call(words(request, &format!("k{number}:{value}"), value)) {
                Reply::Error(text) => text.starts_with("NOTHELD "),
                _ => true,
            };
        for value in [*least, *greatest] {
            assert!(is_taken(value), "{request}: {option} {value}");
        }
        assert!(!is_taken(greatest + 1), "{request}: {option} {greatest} + 1");
        // Fewer bytes than none cannot be sent.
        if *least > 0 || !request.contains("{bytes}") {
            assert!(!is_taken(least - 1), "{request}: {option} {least} - 1");
        }
    }
}

#[test]
fn every_range_of_the_pages_is_tried() {
    for page in Page::all() {
        for (option, _) in ranges(&page) {
            let is_tried = REQUESTS
                .iter()
                .any(|(name, request)| *name == option && Page::of(request).name == page.name);
            assert!(is_tried, "{}: {option}", page.name);
        }
    }
}
