//! Proves that a guard gives nobody a right: the command, its keys and its channels are checked for the user who calls,
//! as if the user had sent the command, and a refusal is in ACL LOG.

use crate::support::*;
use crate::{guard, guard_words, holding};

/// A server with the lock `lock` of `tok`, its administrator, and a user with those rules.
struct Scene {
    server: Server,
    admin: Client,
    user: Client,
}

impl Scene {
    #[track_caller]
    fn with_rules(rules: &str) -> Scene {
        let (server, mut admin) = holding();
        for line in ["SET data before", "SET own:data before", "RPUSH list item"] {
            admin.run(line);
        }
        let user = user_with_rules(&server, &mut admin, "worker", rules);
        Scene { server, admin, user }
    }

    /// The guarded command is refused and logged, and nothing has changed.
    #[track_caller]
    fn assert_denied(&mut self, words: &[&str]) {
        assert_eq!(self.admin.run("ACL LOG RESET"), OK);
        let digest = self.admin.run("DEBUG DIGEST");
        let reply = guard_words(&mut self.user, words);
        assert_eq!(reply.error_word(), "NOPERM", "{words:?}: {reply:?}");
        assert_eq!(self.admin.run("DEBUG DIGEST"), digest, "{words:?}");
        let log = self.admin.run("ACL LOG");
        let newest = log
            .items()
            .first()
            .unwrap_or_else(|| panic!("{words:?}: no entry in ACL LOG"));
        assert_eq!(*newest.field("username"), "worker", "{words:?}: {newest:?}");
        assert_eq!(self.user.run("PING"), "PONG");
    }

    #[track_caller]
    fn assert_allowed(&mut self, words: &[&str]) -> Reply {
        let reply = guard_words(&mut self.user, words);
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
        reply
    }
}

/// A client of a user of that name, who is made for it.
#[track_caller]
fn user_with_rules(server: &Server, admin: &mut Client, name: &str, rules: &str) -> Client {
    let line = format!("ACL SETUSER {name} reset on nopass +ping {rules}");
    assert_eq!(admin.run(&line), OK, "{line}");
    let mut user = server.admin();
    assert_eq!(user.run(&format!("AUTH {name} any")), OK);
    user
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn who_may_run_the_command_on_the_key_may_do_so_under_the_guard() {
    let mut scene = Scene::with_rules("~lock ~own:* &own:* +flock.guard +get +set +eval +publish +mget");
    for line in [
        "SET own:data after",
        "GET own:data",
        "MGET own:data own:other",
        "PUBLISH own:channel message",
    ] {
        scene.assert_allowed(&words(line));
    }
    let reply = scene.assert_allowed(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "own:data"]);
    assert_eq!(reply, "after");
    assert_eq!(scene.admin.run("ACL LOG").items().len(), 0);
}

#[test]
fn a_command_that_the_user_may_not_run_is_denied() {
    let mut scene = Scene::with_rules("~* &* +flock.guard +get");
    for line in [
        "SET data after",
        "DEL data",
        "FLUSHALL",
        "SWAPDB 0 1",
        "LRANGE list 0 -1",
        "PUBLISH channel message",
        "FLOCK.BREAK lock",
        "FLOCK.RELEASE lock tok",
        "FLOCK.INFO lock",
        "COMMAND COUNT",
    ] {
        scene.assert_denied(&words(line));
    }
    scene.assert_denied(&["EVAL", "return 1", "0"]);
    scene.assert_allowed(&["GET", "data"]);
}

#[test]
fn a_category_that_the_user_lacks_is_denied() {
    let mut scene = Scene::with_rules("~* &* +@all -@dangerous -@write");
    for line in ["FLUSHALL", "KEYS *", "SET data after", "SORT list"] {
        scene.assert_denied(&words(line));
    }
    scene.assert_allowed(&words("GET data"));
}

#[test]
fn a_subcommand_that_the_user_may_not_run_is_denied() {
    let mut scene = Scene::with_rules("~* &* +flock.guard +object|encoding +memory -memory|doctor");
    scene.assert_allowed(&words("OBJECT ENCODING data"));
    scene.assert_denied(&words("OBJECT FREQ data"));
    scene.assert_denied(&words("MEMORY DOCTOR"));
}

#[test]
fn a_key_that_the_user_may_not_touch_is_denied() {
    let mut scene = Scene::with_rules("~lock ~own:* &* +@all");
    for line in [
        "GET data",
        "SET data after",
        "DEL own:data data",
        "MSET own:data after data after",
        "RENAME own:data data",
        "COPY data own:data",
        "LRANGE list 0 -1",
        "FLOCK.ACQUIRE other tok PX 1000",
        "FLOCK.MACQUIRE 2 own:other other tok PX 1000",
    ] {
        scene.assert_denied(&words(line));
    }
    scene.assert_denied(&["EVAL", "return 1", "1", "data"]);
    scene.assert_denied(&["EVAL_RO", "return 1", "2", "own:data", "data"]);
    scene.assert_allowed(&words("SET own:data after"));
    scene.assert_allowed(&words("FLOCK.REFRESH lock tok PX 600000"));
}

/// Keys that a script does not declare are checked when it uses them, by the server.
#[test]
fn a_key_that_only_a_script_knows_of_is_denied() {
    let mut scene = Scene::with_rules("~lock ~own:* &own:* +@all");
    for body in [
        "return redis.call('SET', 'data', 'after')",
        "return redis.call('GET', 'data')",
        "return redis.pcall('DEL', 'data')",
        "redis.call('MSET', 'own:data', 'after', 'data', 'after')",
        "return redis.call('PUBLISH', 'channel', 'message')",
        "return redis.call('FLOCK.BREAK', 'other')",
    ] {
        scene.admin.run("FLOCK.ACQUIRE other tok PX 600000").fence();
        scene.admin.run("ACL LOG RESET");
        let digest = scene.admin.run("DEBUG DIGEST");
        let direct = scene.user.call(("EVAL", body, 0));
        let reply = guard_words(&mut scene.user, &["EVAL", body, "0"]);
        assert!(matches!(reply, Reply::Error(_)), "{body}: {reply:?}");
        assert_eq!(reply, direct, "{body}: as without a guard");
        assert_eq!(scene.admin.run("DEBUG DIGEST"), digest, "{body}");
        let log = scene.admin.run("ACL LOG");
        assert!(!log.items().is_empty(), "{body}: no entry in ACL LOG");
    }
    let body = "return redis.call('GET', 'own:data')";
    scene.assert_allowed(&["EVAL", body, "0"]);
}

#[test]
fn a_command_that_only_a_script_runs_is_denied() {
    let mut scene = Scene::with_rules("~* &* +flock.guard +eval +get");
    let body = "return redis.call('SET', 'data', 'after')";
    let reply = guard_words(&mut scene.user, &["EVAL", body, "0"]);
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    assert_eq!(scene.admin.run("GET data"), "before");
}

#[test]
fn a_channel_that_the_user_may_not_reach_is_denied() {
    let mut scene = Scene::with_rules("~* &own:* +@all");
    let mut listener = scene.server.admin();
    listener.run("PSUBSCRIBE *");
    scene.assert_denied(&words("PUBLISH other:channel message"));
    scene.assert_denied(&words("SPUBLISH other:channel message"));
    assert_eq!(scene.assert_allowed(&words("PUBLISH own:channel message")), 1);
    let heard: Vec<_> = listener.receive().items().iter().map(Reply::text).collect();
    assert_eq!(heard[2..], ["own:channel", "message"]);
}

#[test]
fn who_may_only_read_a_key_may_only_read_it_under_the_guard() {
    let mut scene = Scene::with_rules("%R~lock %R~data %W~own:* &* +@all");
    scene.assert_allowed(&words("GET data"));
    scene.assert_allowed(&words("STRLEN data"));
    scene.assert_allowed(&words("SET own:data after"));
    for line in [
        "SET data after",
        "GETDEL data",
        "APPEND data more",
        "GET own:data",
        "SET own:data after GET",
        "FLOCK.RELEASE lock tok",
        "DEL lock",
    ] {
        scene.assert_denied(&words(line));
    }
}

#[test]
fn the_guard_itself_and_its_lock_need_a_right_too() {
    let mut scene = Scene::with_rules("~own:* &* +@all");
    scene.assert_denied(&words("GET own:data"));
    let mut scene = Scene::with_rules("~* &* +@all -flock.guard");
    scene.assert_denied(&words("GET data"));
    let mut scene = Scene::with_rules("%W~lock ~data &* +@all");
    scene.assert_denied(&words("GET data"));
}

#[test]
fn a_guard_in_a_script_is_checked_for_the_user_who_called_the_script() {
    let mut scene = Scene::with_rules("~lock ~own:* &* +eval +flock.guard +get +set");
    for (line, is_allowed) in [
        ("SET own:data after", true),
        ("GET own:data", true),
        ("SET data after", false),
        ("DEL own:data", false),
    ] {
        let mut script = vec!["EVAL", "return redis.call(unpack(ARGV))", "0"];
        script.extend(["FLOCK.GUARD", "lock", "tok"]);
        script.extend(words(line));
        let reply = scene.user.call(script);
        assert_eq!(!matches!(reply, Reply::Error(_)), is_allowed, "{line}: {reply:?}");
    }
    assert_eq!(scene.admin.run("GET data"), "before");
    assert_eq!(scene.admin.run("GET own:data"), "after");
}

#[test]
fn a_guard_in_a_transaction_is_checked_too() {
    let mut scene = Scene::with_rules("~lock ~own:* &* +multi +exec +flock.guard +get +set");
    scene.user.run("MULTI");
    for line in ["SET own:data after", "SET data after", "DEL own:data"] {
        // A key is checked as it is queued, a command when it runs.
        scene.user.run(&format!("FLOCK.GUARD lock tok {line}"));
    }
    let reply = scene.user.run("EXEC");
    match &reply {
        Reply::Error(text) => assert!(text.starts_with("EXECABORT"), "{reply:?}"),
        replies => assert_eq!(replies.items()[1].error_word(), "NOPERM", "{reply:?}"),
    }
    assert_eq!(scene.admin.run("GET data"), "before");
    assert_eq!(scene.admin.run("EXISTS own:data"), 1);
}

#[test]
fn a_user_whose_rights_are_taken_away_is_denied_from_then_on() {
    let mut scene = Scene::with_rules("~* &* +@all");
    scene.assert_allowed(&words("SET data after"));
    scene.admin.run("ACL SETUSER worker -set");
    scene.assert_denied(&words("SET data again"));
    scene.admin.run("ACL SETUSER worker +set resetkeys ~lock");
    scene.assert_denied(&words("SET data again"));
    assert_eq!(guard(&mut scene.admin, "GET data"), "after");
}
