//! What differs from run to run: fences, tokens that the server made, and milliseconds. Such a value stands for one
//! of its kind, and the same value always for the same.

/// Fences that come from the clock: the microseconds of the years 2001 to 2096.
const CLOCK_FENCES: std::ops::Range<i64> = 1_000_000_000_000_000..4_000_000_000_000_000;

/// The values of a page, and what they are in this run.
#[derive(Default)]
pub struct Known {
    fences: Vec<(i64, i64)>,
    tokens: Vec<(String, String)>,
}

impl Known {
    /// A command of the page, with the tokens of this run.
    pub fn put_into(&self, command: &str) -> String {
        let tokens = self.tokens.iter();
        tokens.fold(command.to_owned(), |command, (shown, own)| {
            command.replace(shown, own)
        })
    }

    /// Whether a reply is what the page shows. `is_lease` if it is the milliseconds of a lease.
    pub fn agrees(&mut self, shown: &[String], reply: &[String], is_lease: bool) -> bool {
        let mut field = if is_lease { "ttl_ms" } else { "" };
        let mut agrees = shown.len() == reply.len();
        for (shown, own) in shown.iter().zip(reply) {
            let named = shown.split('"').rev().nth(1).unwrap_or(field);
            agrees &= shown == own || self.stands_for(shown, own, named);
            field = named;
        }
        agrees
    }

    /// Whether two lines are the same but for a value at the end.
    fn stands_for(&mut self, shown: &str, own: &str, field: &str) -> bool {
        if let (Some((before, shown)), Some((own_before, own))) = (number(shown), number(own)) {
            return before == own_before
                && match field {
                    "waited_ms" => own >= 0,
                    "ttl_ms" | "delay_ms" => is_about(shown, own),
                    _ => self.is_fence(shown, own),
                };
        }
        let (Some(shown), Some(own)) = (made_token(shown), made_token(own)) else {
            return false;
        };
        self.tokens.push((shown.to_owned(), own.to_owned()));
        true
    }

    /// Whether a fence of this run may be the one of the page: the same again if it was seen, and else as much greater
    /// or less than the others as the page says.
    fn is_fence(&mut self, shown: i64, own: i64) -> bool {
        let is_in_order = |(other, own_other): &(i64, i64)| shown.cmp(other) == own.cmp(own_other);
        let is_fence = [shown, own].iter().all(|fence| CLOCK_FENCES.contains(fence))
            && self.fences.iter().all(is_in_order);
        if is_fence {
            self.fences.push((shown, own));
        }
        is_fence
    }
}

/// Whether what is left of a lease or a delay, in milliseconds, may be left of the same one at another time.
fn is_about(shown: i64, own: i64) -> bool {
    shown > 0 && own * 3 > shown * 2 && own * 2 < shown * 3
}

/// A line that ends with an integer, taken apart.
fn number(line: &str) -> Option<(&str, i64)> {
    let (before, number) = line.rsplit_once("(integer) ")?;
    Some((before, number.parse().ok()?))
}

/// The token of a line that ends with one.
fn made_token(line: &str) -> Option<&str> {
    let token = line.strip_prefix("2) \"")?.strip_suffix('"')?;
    let is_made = token.len() == 26
        && token
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'));
    is_made.then_some(token)
}

#[test]
fn a_value_stands_for_the_same_value_each_time() {
    let mut known = Known::default();
    let fence = |number: i64| vec![format!("(integer) {}", 1_700_000_000_000_000 + number)];
    assert!(known.agrees(&fence(1), &fence(101), false));
    assert!(known.agrees(&fence(1), &fence(101), false));
    assert!(!known.agrees(&fence(1), &fence(102), false), "another fence");
    assert!(
        !known.agrees(&fence(2), &fence(100), false),
        "a fence that did not grow"
    );
    assert!(known.agrees(&fence(2), &fence(150), false));
    let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert!(!known.agrees(&lines(&["(integer) 1"]), &lines(&["(integer) 0"]), false));
    for (left_ms, agrees) in [
        (29_990, true),
        (25_000, true),
        (59_998, false),
        (14_000, false),
        (-2, false),
    ] {
        let own = lines(&[&format!("(integer) {left_ms}")]);
        assert_eq!(
            known.agrees(&lines(&["(integer) 29998"]), &own, true),
            agrees,
            "{left_ms}"
        );
    }
    let field = ["1) \"delay_ms\"", "2) (integer) 0"];
    assert!(!known.agrees(&lines(&field), &lines(&[field[0], "2) (integer) 5"]), false));
}
