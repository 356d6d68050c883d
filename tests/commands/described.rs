//! Proves that each page describes its command as the server does: COMMAND DOCS, COMMAND INFO and FLOCK.HELP.

use std::collections::BTreeSet;

use crate::page::{folder, index, Page, SECTIONS};
use crate::support::*;

/// A server's word on each page.
#[track_caller]
fn for_each_page(check: impl Fn(&Page, &mut Client)) {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    let pages = Page::all();
    assert!(!pages.is_empty());
    pages.iter().for_each(|page| check(page, &mut client));
}

fn docs(client: &mut Client, name: &str) -> Reply {
    client.call(("COMMAND", "DOCS", name)).field(name).clone()
}

fn info(client: &mut Client, name: &str) -> Vec<Reply> {
    client.call(("COMMAND", "INFO", name)).items()[0].items().to_vec()
}

/// The lines of FLOCK.HELP: a syntax, and what the command does.
fn help(client: &mut Client) -> Vec<(String, String)> {
    let reply = client.run("FLOCK.HELP");
    let split = |line: &Reply| {
        let line = line.text();
        let (syntax, summary) = line.split_once(": ").expect("a syntax, a colon, and a summary");
        (syntax.to_owned(), summary.to_owned())
    };
    reply.items().iter().map(split).collect()
}

#[test]
fn each_command_has_a_page_and_each_page_a_command() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    let commands = client.run("COMMAND LIST FILTERBY MODULE flock");
    let commands: Vec<_> = commands.items().iter().map(Reply::text).collect();
    let is_public = |name: &&String| {
        let summary = docs(&mut client, name).field("summary").text();
        !summary.starts_with("Internal: ")
    };
    let public: BTreeSet<_> = commands.iter().filter(is_public).cloned().collect();
    let pages: BTreeSet<_> = Page::all().into_iter().map(|page| page.name).collect();
    assert_eq!(pages, public);
    let helped = help(&mut client);
    let helped = helped.iter().filter_map(|(syntax, _)| syntax.split(' ').next());
    assert_eq!(helped.map(str::to_lowercase).collect::<BTreeSet<_>>(), public);
}

#[test]
fn each_page_has_the_same_sections_in_the_same_order() {
    for page in Page::all() {
        assert_eq!(page.title(), page.name.to_uppercase());
        assert_eq!(page.sections(), SECTIONS, "{}", page.name);
    }
}

#[test]
fn the_syntax_is_the_line_of_flock_help() {
    for_each_page(|page, client| {
        let lines = help(client);
        let is_of_page = |(syntax, _): &&(String, String)| syntax.split(' ').next() == Some(page.title());
        let (syntax, summary) = lines.iter().find(is_of_page).expect("a line of FLOCK.HELP");
        assert_eq!(page.syntax(), syntax, "{}", page.name);
        assert_eq!(page.summary(), *summary, "{}", page.name);
    });
}

#[test]
fn summary_version_and_complexity_are_those_of_command_docs() {
    for_each_page(|page, client| {
        let docs = docs(client, &page.name);
        let since = docs.field("since").text();
        assert_eq!(page.summary(), docs.field("summary").text(), "{}", page.name);
        assert_eq!(page.fact("Available since"), since, "{}", page.name);
        assert_eq!(
            page.fact("Time complexity"),
            docs.field("complexity").text(),
            "{}",
            page.name
        );
        let history = page.section("History").trim();
        let is_first = history.starts_with(&format!("- {since}: "));
        assert!(is_first, "{} begins in {since}: {history}", page.name);
    });
}

/// The number of words of a syntax as the server counts them: negative where more may follow.
fn arity_of(syntax: &str) -> i64 {
    let (mut depth, mut required) = (0, String::new());
    for letter in syntax.chars() {
        depth += i32::from(letter == '[');
        if depth == 0 {
            required.push(letter);
        }
        depth -= i32::from(letter == ']');
    }
    // Of several forms all have the same number of words.
    let forms = required.split('<').map(|part| match part.split_once('>') {
        Some((forms, rest)) => format!("{} {rest}", forms.split('|').next().unwrap_or_default()),
        None => part.to_owned(),
    });
    let words = forms.collect::<String>().split_whitespace().count() as i64;
    match syntax.contains('[') {
        true => -words,
        false => words,
    }
}

#[test]
fn the_syntax_has_as_many_words_as_the_server_wants() {
    for (syntax, arity) in [
        ("A", 1),
        ("A key <PX ms | EX s>", 4),
        ("A key [key ...] b", -3),
        ("A [b [b ...]]", -1),
    ] {
        assert_eq!(arity_of(syntax), arity, "{syntax}");
    }
    for_each_page(|page, client| {
        let arity = info(client, &page.name)[1].int();
        assert_eq!(arity_of(page.syntax()), arity, "{}", page.name);
    });
}

#[test]
fn the_acl_categories_are_those_of_command_info() {
    for_each_page(|page, client| {
        let build = Build::get();
        let listed = page.fact("ACL categories").replace(['`', ','], "");
        let listed = listed.split(' ').map(str::to_owned);
        let is_known = |name: &String| match build.has_own_acl_categories() {
            true => true,
            false => build.has_acl_categories() && name != "@flock",
        };
        let categories = info(client, &page.name)[6].clone();
        let categories: BTreeSet<_> = categories.items().iter().map(Reply::text).collect();
        assert_eq!(
            listed.filter(is_known).collect::<BTreeSet<_>>(),
            categories,
            "{}",
            page.name
        );
    });
}

/// What a page says of the keys that the server finds in that way.
fn keys_in_words(specs: &[Reply]) -> String {
    let [spec] = specs else {
        assert!(specs.is_empty(), "more than one kind of keys: {specs:?}");
        return "none".to_owned();
    };
    let flags: Vec<_> = spec.field("flags").items().iter().map(Reply::text).collect();
    let has = |flag: &str| flags.iter().any(|own| own == flag);
    let found = spec.field("find_keys");
    let (number, first) = match found.field("type").text().as_str() {
        "range" => ("", spec.field("begin_search").field("spec").field("index").int()),
        "keynum" => (
            ", as many as `numkeys` says",
            found.field("spec").field("firstkey").int(),
        ),
        other => panic!("keys are found by {other}"),
    };
    assert_eq!(first, 1, "the keys begin there");
    let access = match (has("RO"), has("RW")) {
        (true, false) => "only read",
        (false, true) => "read and written",
        _ => panic!("keys are read, or read and written: {flags:?}"),
    };
    let inner = match has("incomplete") {
        true => "; and those of the guarded command",
        false => "",
    };
    format!("`key`{number}, {access}{inner}")
}

#[test]
fn the_keys_are_those_of_the_key_specs() {
    for_each_page(|page, client| {
        let specs = info(client, &page.name)[8].clone();
        assert_eq!(page.fact("Keys"), keys_in_words(specs.items()), "{}", page.name);
    });
}

/// The arguments as the first column of the options names them.
fn add_arguments(of: &Reply, names: &mut Vec<String>) {
    if !of.names().contains(&"arguments".to_owned()) {
        return;
    }
    for argument in of.field("arguments").items() {
        let token = argument.names().contains(&"token".to_owned());
        let token = token.then(|| argument.field("token").text());
        let name = argument.field("name").text();
        match argument.field("type").text().as_str() {
            "oneof" | "block" => add_arguments(argument, names),
            "pure-token" => names.push(token.expect("the word itself")),
            _ => names.push(token.map_or(name.clone(), |token| format!("{token} {name}"))),
        }
    }
}

#[test]
fn the_options_are_the_arguments_of_command_docs() {
    for_each_page(|page, client| {
        let mut arguments = Vec::new();
        add_arguments(&docs(client, &page.name), &mut arguments);
        assert_eq!(page.names("Options", "option"), arguments, "{}", page.name);
    });
}

#[test]
fn the_fields_of_flock_info_are_those_of_its_page() {
    in_both_protocols_with(Server::builder().undressed(), |server, client| {
        client.run("FLOCK.ACQUIRE k t PX 600000").fence();
        let _waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
        let info = client.run("FLOCK.INFO k");
        let mut fields = info.names();
        fields.extend(info.field("holders").items()[0].names());
        fields.extend(info.field("queue").items()[0].names());
        assert_eq!(Page::of("FLOCK.INFO").names("Return", "field"), fields);
    });
}

#[test]
fn the_list_of_the_pages_has_each_of_them_with_its_summary() {
    let index = index();
    let lines = index.lines().filter(|line| line.starts_with("- [FLOCK."));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort();
    let pages = Page::all();
    let line_of = |page: &Page| format!("- [{}]({}.md): {}", page.title(), page.name, page.summary());
    let mut expected: Vec<_> = pages.iter().map(line_of).collect();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn every_link_leads_to_a_file() {
    let pages = Page::all();
    let index = index();
    for text in pages.iter().map(Page::text).chain([index.as_str()]) {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(folder().join(link).is_file(), "{link}");
        }
    }
}
