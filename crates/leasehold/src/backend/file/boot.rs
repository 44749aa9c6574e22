//! Which run of the machine this is, and whether this process sees its clock unchanged.

use std::{fs, path::Path};

use super::{super::Failure, config::invalid, failure};

/// The id of this run of the machine: another one means that the clock began anew and that no
/// process of before lives.
pub(super) fn id() -> Result<String, Failure> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(path).map_err(|error| {
        failure::io("read", path, error)
            .with_hint("the file store needs Linux with /proc mounted; use a server instead")
    })?;
    Ok(text.trim().into())
}

/// Refuses a process whose clock is set off against that of the others: their times would not
/// compare.
pub(super) fn check_time_namespace() -> Result<(), Failure> {
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    judge(&offsets)
}

fn judge(offsets: &str) -> Result<(), Failure> {
    let shifted = offsets.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("boottime") && words.any(|word| word.parse() != Ok(0i64))
    });
    if shifted {
        return Err(
            invalid("this process is in a time namespace with a boot time of its own").with_hint(
                "the file store compares clocks between processes; run without the namespace",
            ),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_offset_of_the_boot_time_is_refused() {
        for fine in [
            "",
            "monotonic 0 0\nboottime 0 0\n",
            "monotonic 5 0\nboottime 0 0\n",
        ] {
            assert!(judge(fine).is_ok(), "{fine}");
        }
        for shifted in [
            "boottime 5 0",
            "monotonic 0 0\nboottime     -1        0\n",
            "boottime 0 7",
        ] {
            assert!(judge(shifted).is_err(), "{shifted}");
        }
    }
}
