//! Help, manual pages and completions say the same.

use std::{collections::BTreeSet, fs};

use super::kit::{Store, bare, finish};

/// The subcommands, from the help of the command.
fn subcommands() -> Vec<String> {
    let help = finish(bare().arg("--help")).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| *word != "help")
        .map(Into::into)
        .collect()
}

/// The long options that `text` has.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let options = words.filter(|word| word.starts_with("--") && word.len() > 3);
    options
        .map(|word| word.trim_end_matches('-').to_owned())
        .collect()
}

#[test]
fn every_subcommand_has_a_manual_page_with_the_options_of_its_help() {
    let store = Store::new();
    let directory = store.path().join("man/man1");
    let said = finish(bare().arg("man").arg(&directory));
    assert_eq!((said.code(), said.stderr.as_str()), (0, ""));
    let mut expected: BTreeSet<String> = subcommands()
        .iter()
        .map(|name| format!("leasehold-{name}.1"))
        .collect();
    expected.insert("leasehold.1".into());
    let written: BTreeSet<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(written, expected);
    assert_eq!(said.stdout.lines().count(), written.len());
    for name in subcommands() {
        let page = fs::read_to_string(directory.join(format!("leasehold-{name}.1"))).unwrap();
        let help = finish(bare().args([name.as_str(), "--help"])).stdout;
        let fonts = ["\\fB", "\\fR", "\\fI"];
        let plain = fonts
            .iter()
            .fold(page.clone(), |page, font| page.replace(font, " "));
        assert_eq!(options(&plain.replace('\\', "")), options(&help), "{name}");
        assert!(page.contains("leasehold"), "{name}");
    }
}

#[test]
fn completions_know_every_subcommand_and_option() {
    let shells = ["bash", "elvish", "fish", "powershell", "zsh"];
    for shell in shells {
        let said = finish(bare().args(["completions", shell]));
        assert_eq!((said.code(), said.stderr.as_str()), (0, ""));
        for name in subcommands() {
            assert!(said.stdout.contains(&name), "{shell}: {name}");
            let help = finish(bare().args([name.as_str(), "--help"])).stdout;
            for option in options(&help) {
                // Text in the help may name options of other commands.
                let bare_option = option.trim_start_matches('-');
                assert!(
                    said.stdout.contains(bare_option),
                    "{shell}: {name} {option}"
                );
            }
        }
        assert!(
            !said.stdout.contains("__guard") && !said.stdout.contains("__stub"),
            "{shell}"
        );
    }
    assert_eq!(finish(bare().args(["completions", "tcsh"])).code(), 2);
}

#[test]
fn what_is_internal_is_not_shown() {
    let said = finish(bare().arg("--help"));
    assert!(!said.stdout.contains("__"), "{}", said.stdout);
    for internal in ["__guard", "__stub"] {
        assert_eq!(finish(bare().arg(internal)).code(), 125);
    }
}
