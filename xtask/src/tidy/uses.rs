//! The paths that a Rust file imports or names.

use crate::tree::File;

/// A path with the line it is named on, absolute where it begins at the own crate: `crate::a::b`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
}

/// Every imported path and every `crate::…` in the code, unit tests at the end left out.
pub(super) fn named(file: &File) -> Vec<Named> {
    let here = module(&file.path);
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (line, text) in file.code() {
        let text = text.split("//").next().unwrap_or_default().trim();
        if open.is_none() && !is_use(text) {
            found.extend(inline(text).map(|path| Named { line, path }));
            continue;
        }
        let (start, mut statement) = open.take().unwrap_or((line, String::new()));
        statement.push_str(text);
        match statement.split_once(';') {
            None => open = Some((start, statement)),
            Some((statement, _)) => {
                let tree = statement.split_once("use ").map_or("", |(_, tree)| tree);
                let paths = flatten(tree).into_iter().map(|path| absolute(&here, &path));
                found.extend(paths.map(|path| Named { line: start, path }));
            }
        }
    }
    found
}

fn is_use(text: &str) -> bool {
    let rest = text.strip_prefix("pub").map_or(text, |rest| {
        rest.trim_start_matches(|c: char| c == '(' || c == ')' || c.is_alphabetic())
    });
    rest.trim_start().starts_with("use ")
}

/// `a::{b, c::{d, self}}` as `a::b`, `a::c::d`, `a::c`.
fn flatten(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return vec![path.trim_end_matches("::self").to_owned()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let parts = parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty());
    parts
        .flat_map(|part| flatten(&format!("{}{part}", prefix.trim())))
        .collect()
}

/// The module a file is, as a path below `crate`.
fn module(path: &str) -> Vec<String> {
    let within = path.split_once("/src/").map_or("", |(_, within)| within);
    let name = within.trim_end_matches(".rs");
    let name = name.strip_suffix("/mod").unwrap_or(name);
    let parts = name
        .split('/')
        .filter(|part| !matches!(*part, "" | "lib" | "main" | "mod"));
    parts.map(str::to_owned).collect()
}

fn absolute(here: &[String], path: &str) -> Vec<String> {
    let mut base = here.to_vec();
    let mut parts = path.split("::").map(str::trim).peekable();
    match parts.peek() {
        Some(&"self" | &"super") => {}
        _ => return parts.map(str::to_owned).collect(),
    }
    while let Some(&("self" | "super")) = parts.peek() {
        if parts.next() == Some("super") {
            base.pop();
        }
    }
    let own = std::iter::once("crate".to_owned()).chain(base);
    own.chain(parts.map(str::to_owned)).collect()
}

fn inline(text: &str) -> impl Iterator<Item = Vec<String>> {
    text.match_indices("crate::").map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        let path = &rest[..end.unwrap_or(rest.len())];
        path.split("::")
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(path: &str, text: &str) -> Vec<(usize, String)> {
        let file = File {
            path: path.into(),
            text: text.into(),
        };
        named(&file)
            .into_iter()
            .map(|named| (named.line, named.path.join("::")))
            .collect()
    }

    #[test]
    fn trees_are_flattened_and_made_absolute() {
        let text = "pub(crate) use std::fmt;\nuse super::{\n    Name, // crate::no\n    \
                    redis::{self, keys as k},\n};\nuse self::table::Table;\n";
        let expected = [
            (1, "std::fmt"),
            (2, "crate::backend::Name"),
            (2, "crate::backend::redis"),
            (2, "crate::backend::redis::keys"),
            (6, "crate::backend::file::table::Table"),
        ];
        let expected = expected.map(|(line, path)| (line, path.to_owned()));
        assert_eq!(
            paths("crates/leasehold/src/backend/file/mod.rs", text),
            expected
        );
    }

    #[test]
    fn paths_in_code_count_and_those_in_unit_tests_do_not() {
        let text =
            "fn f() { crate::driver::go(1) }\n#[cfg(test)]\nmod tests {\n use crate::x;\n}\n";
        let expected = [(1, "crate::driver::go".to_owned())];
        assert_eq!(
            paths("crates/leasehold/src/backend/file/table.rs", text),
            expected
        );
    }
}
