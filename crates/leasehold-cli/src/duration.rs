//! Durations as people write them: a number with a unit, or several.

use std::time::Duration;

/// Unit and nanoseconds, the longest first.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads `1.5s`, `1m30s`, `250ms`. A number without a unit is refused: every reader would think
/// of another one.
///
/// # Errors
///
/// What is wrong, in one line, then a line that begins with `hint:`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let example = "\nhint: write a number with a unit, such as 250ms, 1.5s, 1m30s or 2h";
    let mut rest = text;
    let mut nanos: u128 = 0;
    let mut last = u64::MAX;
    if rest.is_empty() {
        return Err(format!("a duration is missing{example}"));
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        if number.is_empty() {
            return Err(format!("{text:?} is not a duration{example}"));
        }
        if unit.is_empty() && tail.is_empty() {
            let hint = format!("\nhint: write {number}s, {number}ms or {number}m");
            return Err(format!("a duration needs a unit{hint}"));
        }
        let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("{unit:?} is no unit of time{example}"));
        };
        if *scale >= last {
            return Err(format!("{text:?} has its units out of order{example}"));
        }
        last = *scale;
        nanos = scaled(number, *scale)
            .and_then(|part| nanos.checked_add(part))
            .ok_or_else(|| format!("{text:?} is not a duration{example}"))?;
        rest = tail;
    }
    u64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| format!("{text:?} is longer than anything here can last"))
}

/// `number`, which may have a fraction, times `scale`; a rest below a nanosecond counts as one.
fn scaled(number: &str, scale: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u128 = whole.parse().ok()?;
    let digits = u32::try_from(fraction.len()).ok().filter(|&n| n <= 18)?;
    let part: u128 = fraction.parse().ok()?;
    let part = (part * u128::from(scale)).div_ceil(10_u128.pow(digits));
    whole.checked_mul(u128::from(scale))?.checked_add(part)
}

/// `span` for people, in the two units that matter: `18 s`, `1 m 30 s`, `250 ms`.
pub(crate) fn show(span: Duration) -> String {
    let seconds = span.as_secs();
    if span < Duration::from_secs(1) {
        return format!("{} ms", span.as_millis());
    }
    if span < Duration::from_secs(10) {
        let tenths = span.as_millis() / 100;
        let (whole, tenth) = (tenths / 10, tenths % 10);
        return if tenth == 0 {
            format!("{whole} s")
        } else {
            format!("{whole}.{tenth} s")
        };
    }
    let pair = |big: u64, big_unit, small: u64, small_unit| {
        if small == 0 {
            format!("{big} {big_unit}")
        } else {
            format!("{big} {big_unit} {small} {small_unit}")
        }
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        for (text, millis) in [
            ("250ms", 250),
            ("1.5s", 1500),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1d1ms", 86_400_001),
            ("0s", 0),
            ("0.25m", 15_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn b03_what_could_mean_two_things_is_refused_with_a_hint() {
        for text in [
            "", "30", "-5s", "5 s", "5x", "5M", "s", "1s1m", "1s2s", "1.2.3s", "١s",
        ] {
            let complaint = parse(text).expect_err(text);
            assert!(complaint.contains("\nhint: "), "{text}: {complaint}");
        }
        assert!(parse("9999999999d").is_err());
        assert!(parse(&"9".repeat(60)).is_err());
        assert!(parse(&format!("{}s", "9".repeat(60))).is_err());
    }

    #[test]
    fn spans_are_shown_in_the_units_that_matter() {
        for (millis, text) in [
            (5, "5 ms"),
            (1000, "1 s"),
            (9_950, "9.9 s"),
            (18_400, "18 s"),
            (90_000, "1 m 30 s"),
            (7_200_000, "2 h"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
