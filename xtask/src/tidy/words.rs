//! Words that mislead, promises to do it later, and places that exist on one machine only.

use super::Finding;
use crate::tree::{File, Tree};

/// This file has all of them.
const EXEMPT: [&str; 2] = ["xtask/src/tidy/words.rs", "Cargo.lock"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree
        .files
        .iter()
        .filter(|file| !EXEMPT.contains(&file.path.as_str()));
    files
        .flat_map(|file| BANNED.iter().flat_map(|ban| found(file, ban)))
        .collect()
}

struct Ban {
    phrase: &'static str,
    place: Place,
    instead: &'static str,
}

#[derive(PartialEq)]
enum Place {
    /// Everywhere.
    Anywhere,
    /// Rust, Lua and Markdown.
    Written,
    /// Comments of these, and all of Markdown.
    Prose,
}

fn found(file: &File, ban: &Ban) -> Vec<Finding> {
    let written = [".rs", ".lua", ".md"]
        .iter()
        .any(|end| file.path.ends_with(end));
    if ban.place != Place::Anywhere && !written {
        return Vec::new();
    }
    let prose = ban.place == Place::Prose && !file.path.ends_with(".md");
    let mark = if file.path.ends_with(".lua") {
        "--"
    } else {
        "//"
    };
    let looked_at = |line| {
        if prose {
            comment(line, mark)
        } else {
            Some(line)
        }
    };
    let lines = file
        .lines()
        .filter_map(|(at, line)| Some((at, looked_at(line)?)));
    let hits = lines.filter(|(_, line)| contains(line, ban.phrase));
    hits.map(|(at, _)| Finding::new(&file.path, at, format!("\"{}\"", ban.phrase), ban.instead))
        .collect()
}

fn comment<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.split_once(mark).map(|(_, comment)| comment)
}

/// Whether a phrase stands in a line, whatever its capitals, and is not part of a longer word.
fn contains(line: &str, phrase: &str) -> bool {
    let line = line.to_lowercase();
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(&phrase.to_lowercase())
        .any(|(at, found)| {
            let before = line[..at].chars().next_back();
            let after = line[at + found.len()..].chars().next();
            let first_joins = word(found.chars().next()) && word(before);
            let last_joins = word(found.chars().next_back()) && word(after);
            // A path that begins elsewhere is another path.
            let path =
                found.starts_with('/') && before.is_some_and(|c| c.is_alphanumeric() || c == '.');
            !first_joins && !last_joins && !path
        })
}

const fn ban(phrase: &'static str, place: Place, instead: &'static str) -> Ban {
    Ban {
        phrase,
        place,
        instead,
    }
}

const WHICH: &str = "say *owner* or *fencing token*";
const LATER: &str = "do it now, or file an issue";
const HERE: &str = "a path of one machine: use a relative one, or make it a setting";
const HOST: &str = "a host of one registry: name the package";

const BANNED: &[Ban] = &[
    ban("the token", Place::Prose, WHICH),
    ban("the tokens", Place::Prose, WHICH),
    ban("a token", Place::Prose, WHICH),
    ban(
        "simply",
        Place::Prose,
        "leave it out: it is never so for the reader who asks",
    ),
    ban("TODO", Place::Written, LATER),
    ban("FIXME", Place::Written, LATER),
    ban(
        "#[ignore",
        Place::Written,
        "run it always, or in the deep tier",
    ),
    ban("dbg!(", Place::Written, "use `tracing`, or leave it out"),
    ban("/work", Place::Anywhere, HERE),
    ban("/tmp/wt", Place::Anywhere, HERE),
    ban(concat!("/ro", "ot/"), Place::Anywhere, HERE),
    ban("pypi.org/simple", Place::Anywhere, HOST),
    ban("pythonhosted.org", Place::Anywhere, HOST),
    ban("registry.npmjs.org", Place::Anywhere, HOST),
    ban("proxy.golang.org", Place::Anywhere, HOST),
    ban("index.crates.io", Place::Anywhere, HOST),
    ban("static.crates.io", Place::Anywhere, HOST),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innocent_words_pass() {
        let code = "// the fencing token, the same token\nlet cancel = CancellationToken::new();\n\
                    let the = (the, token); // mytodo, simplify\n// target/work and ./root/x\n";
        let tree = Tree::of(&[("a.rs", code), ("a.toml", "# simply"), ("a.md", "atoken")]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn banned_ones_are_found_where_they_are() {
        let tree = Tree::of(&[
            (
                "a.rs",
                "\n/// Gives The token.\nfn f() { todo!() }\n#[ignore = \"slow\"]\n",
            ),
            ("b.lua", "-- keeps a token\nlocal s = 'simply'\n"),
            ("c.md", "It simply works.\n"),
            ("d.toml", concat!("path = \"/ro", "ot/x\"\n")),
        ]);
        let mut found: Vec<_> = check(&tree).into_iter().map(|f| (f.path, f.line)).collect();
        found.sort();
        let expected = [("a.rs", 2), ("a.rs", 3), ("a.rs", 4)];
        let expected = expected
            .into_iter()
            .chain([("b.lua", 1), ("c.md", 1), ("d.toml", 1)]);
        assert_eq!(
            found,
            expected
                .map(|(path, at)| (path.to_owned(), at))
                .collect::<Vec<_>>()
        );
    }
}
