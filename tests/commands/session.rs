//! The sessions of redis-cli in the examples: who sends what, and what is shown.

use crate::support::Protocol;

pub struct Session {
    pub protocol: Protocol,
    pub steps: Vec<Step>,
}

/// A command and its reply, or a reply that came later than its command.
#[derive(Debug)]
pub struct Step {
    /// The name of the connection.
    pub who: String,
    /// None for a reply that came later.
    pub command: Option<String>,
    /// The lines that redis-cli showed; none if the reply came later.
    pub reply: Vec<String>,
    /// Whether redis-cli said how long the reply took: half a second or longer.
    pub is_slow: bool,
}

/// `name> rest` and `name: rest`.
fn spoken<'l>(line: &'l str, mark: &str) -> Option<(&'l str, &'l str)> {
    let (who, rest) = line.split_once(mark)?;
    let is_name = !who.is_empty() && who.chars().all(|letter| letter.is_ascii_alphanumeric());
    is_name.then_some((who, rest))
}

/// `(1.23s)`.
fn is_time(line: &str) -> bool {
    let number = line.strip_prefix('(').and_then(|rest| rest.strip_suffix("s)"));
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

impl Session {
    #[track_caller]
    pub fn parse(block: &str) -> Session {
        let mut session = Session {
            protocol: Protocol::Resp2,
            steps: Vec::new(),
        };
        for line in block.lines() {
            if line == "$ redis-cli -3" {
                session.protocol = Protocol::Resp3;
            } else if let Some((who, command)) = spoken(line, "> ") {
                session.add(who, Some(command), None);
            } else if let Some((who, reply)) = spoken(line, ": ") {
                session.add(who, None, Some(reply));
            } else {
                let step = session.steps.last_mut().expect("a command before its reply");
                match is_time(line) {
                    true => step.is_slow = true,
                    false => step.reply.push(line.to_owned()),
                }
            }
        }
        session
    }

    fn add(&mut self, who: &str, command: Option<&str>, reply: Option<&str>) {
        self.steps.push(Step {
            who: who.to_owned(),
            command: command.map(str::to_owned),
            reply: reply.map(str::to_owned).into_iter().collect(),
            is_slow: false,
        });
    }
}

/// The words of a command as redis-cli reads them: separated by spaces, or in double quotes.
#[track_caller]
pub fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = command.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').expect("a closing quote"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        assert!(!word.contains('\\'), "escapes are not read here: {command}");
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

#[test]
fn a_session_is_commands_and_replies() {
    let session = Session::parse(
        "A> GET a\n(nil)\n(1.00s)\nB> BLPOP b 0\nA> RPUSH b 1\n(integer) 1\nB: 1) \"b\"\n2) \"1\"\n",
    );
    let steps: Vec<_> = session
        .steps
        .iter()
        .map(|step| (step.who.as_str(), step.reply.len()))
        .collect();
    assert_eq!(steps, [("A", 1), ("B", 0), ("A", 1), ("B", 2)]);
    assert!(session.steps[0].is_slow && session.steps[3].command.is_none());
    assert_eq!(words("EVAL \"return 1\" 0"), ["EVAL", "return 1", "0"]);
}
