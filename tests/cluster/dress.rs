//! Proves that the cluster dress of the other suites is one: a cluster, names of keys with and without
//! hash tags, and tests that see nothing of it.

use std::collections::HashSet;

use crate::stage::on_stage;
use crate::support::*;

const LOCKS: usize = 40;

#[test]
fn names_have_tags_at_the_server_and_none_in_the_test() {
    let server = on_stage(|| Server::builder().dressed(Dress::Cluster).start());
    let mut client = server.client();
    assert_eq!(client.info("cluster", "cluster_enabled"), "1");
    let names: HashSet<_> = (0..LOCKS).map(|number| format!("lock{number}")).collect();
    for name in &names {
        client.call(("FLOCK.ACQUIRE", name, "t", "PX", 60_000)).fence();
        // Whoever is asked, and however.
        assert!(server.admin().call(("FLOCK.PTTL", name, "t")).int() > 0, "{name}");
        let line = format!("FLOCK.PTTL {name} t");
        assert!(client.script(&line).int() > 0, "{name}");
        let replies = client.transaction(&[&line]);
        assert!(replies[0].int() > 0, "{name}");
        let keys = client.run(&format!("COMMAND GETKEYS {line}"));
        assert_eq!(keys.items()[0], **name);
    }
    assert_eq!(keys(&mut client), names);
    // One that knows nothing of tags.
    let mut bare = Client::connect(server.port(), Protocol::Resp2).expect("a connection");
    let there = keys(&mut bare);
    assert_eq!(there.len(), LOCKS);
    let tagged = there.iter().filter(|key| key.starts_with("{tag-")).count();
    assert!((1..LOCKS).contains(&tagged), "{tagged} of {LOCKS} have a tag");
    let slots = there
        .iter()
        .map(|key| bare.call(("CLUSTER", "KEYSLOT", key)).int());
    assert!(slots.collect::<HashSet<_>>().len() > 1);
}

fn keys(client: &mut Client) -> HashSet<String> {
    client.run("KEYS *").items().iter().map(Reply::text).collect()
}
