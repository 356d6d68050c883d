//! Proves that a token is never shown to anyone: whoever can read INFO, events,
//! errors or the log must not be able to release another's lock.

use crate::support::*;

const SECRET: &str = "a-secret-token";

#[track_caller]
fn assert_secret(where_to: &str, text: &str) {
    assert!(!text.contains(SECRET), "{where_to} shows the token: {text}");
}

#[test]
fn a_token_is_in_no_reply_event_or_log_line() {
    in_both_protocols_with(
        Server::builder().set("loglevel", "debug").append_only(),
        |server, client| {
            client.run("CONFIG SET notify-keyspace-events KEA$lshzxetdmn");
            let mut listener = server.admin();
            listener.run("PSUBSCRIBE *");

            let made = live_through_everything(server, client);

            // The marker ends the listener's messages.
            client.run("PUBLISH marker end");
            loop {
                let message = format!("{:?}", listener.receive());
                assert_secret("an event", &message);
                assert!(!message.contains(&made), "an event shows a made token: {message}");
                if message.contains("marker") {
                    break;
                }
            }
            for line in [
                "INFO all",
                "INFO flock",
                "INFO everything",
                "FLOCK.INFO k",
                "FLOCK.HELP",
            ] {
                let reply = format!("{:?}", client.run(line));
                assert_secret(line, &reply);
                assert!(!reply.contains(&made), "{line} shows a made token: {reply}");
            }
            assert_secret("the log", &server.log());
            assert!(!server.log().contains(&made), "the log shows a made token");
        },
    );
}

/// Grants, refusals, errors and ends of holds and waits of the secret token.
/// No reply shows it. Returns a token that the server made.
#[track_caller]
fn live_through_everything(server: &Server, client: &mut Client) -> String {
    let run = |client: &mut Client, line: &str| {
        let reply = client.run(&line.replace('?', SECRET));
        assert_secret(line, &format!("{reply:?}"));
        reply
    };
    run(client, "FLOCK.ACQUIRE k ? PX 60000 LABEL seen").fence();
    run(client, "FLOCK.ACQUIRE k ? PX 60000");
    run(client, "FLOCK.ACQUIRE k other PX 60000");
    run(client, "FLOCK.INFO k");
    for wrong in [
        "FLOCK.ACQUIRE k ? PX none",
        "FLOCK.ACQUIRE k ? ? ?",
        "FLOCK.ACQUIRE k ? PX 1000 ABOVE -1",
        "FLOCK.ACQUIRE k ? PX 1000 BLOCK x",
        "FLOCK.ACQUIRE k ? PX 0",
        "FLOCK.ACQUIRE k ? PX 1000 PERMITS ?",
        "FLOCK.ACQUIRE k ? PX 1000 DELAY -1",
        "FLOCK.ACQUIRE k ? PX 1000 SHARED ?",
        "FLOCK.ACQUIRE k ? PX 1000 SHARED",
        "FLOCK.ACQUIRE k ? PX 1000 PERMITS 2 BLOCK 0",
        "FLOCK.REFRESH k ? PX 0",
        "FLOCK.RELEASE k ? ?",
    ] {
        assert_eq!(run(client, wrong).error_word(), "ERR", "{wrong}");
    }
    run(client, "FLOCK.REFRESH k ? PX 60000");
    run(client, "DEBUG RELOAD");
    run(client, "FLOCK.RELEASE k ?");

    run(client, "FLOCK.ACQUIRE k other PX 60000").fence();
    let mut older = server.enqueue("k", &format!("FLOCK.ACQUIRE k {SECRET} PX 60000 BLOCK 0"));
    run(client, "FLOCK.INFO k");
    let mut newer = server.admin();
    newer.send_line(&format!("FLOCK.ACQUIRE k {SECRET} PX 60000 BLOCK 0"));
    let superseded = older.receive();
    assert_eq!(superseded.error_word(), "SUPERSEDED");
    assert_secret("SUPERSEDED", superseded.error_text());
    run(client, "FLOCK.BREAK k");
    newer.receive().fence();
    run(client, "FLOCK.BREAK k");

    run(client, "FLOCK.ACQUIRE k ? PX 5").fence();
    eventually(
        "the lease is over",
        || client.run("EXISTS k"),
        |exists| *exists == 0,
    );
    run(client, "FLOCK.RELEASE k ?");
    let made = run(client, "FLOCK.ACQUIRE k * PX 60000").items()[1].text();
    run(client, "BGREWRITEAOF");
    made
}
