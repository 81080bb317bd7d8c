//! How numbers, dates and times are written, and what they mean: the readings of one word of a text.
//!
//! A number may be written `1000`, `1,000.00`, `1.000,00`, `1'000` or `1 000,00` and is read as a plain decimal. Where
//! a notation has two meanings (`1.125` is one and an eighth, or in other countries 1125; `03/04/2024` is in March or in
//! April) it has two readings, and two words are equal if they share one. A comma before exactly three digits groups.
//! Digits that begin with a needless zero (`007`, `0049`) name something and are no number.

/// The decimal that a JSON number means, without exponent or needless zeros: `98.70` → `98.7`, `1e3` → `1000`.
pub fn plain_decimal(text: &str) -> Option<String> {
    /// Longer numbers than any amount; they stay as they are written.
    const EXPONENT_MAX: i32 = 64;
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    if exponent.abs() > EXPONENT_MAX {
        return None;
    }
    let (sign, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    if whole.is_empty() || !is_digits_or_empty(whole) || !is_digits_or_empty(fraction) {
        return None;
    }
    let decimal = shifted(whole, fraction, exponent);
    Some(if decimal == "0" { decimal } else { format!("{sign}{decimal}") })
}

/// Moves the point of `whole.fraction` by `exponent` places to the right.
pub fn shifted(whole: &str, fraction: &str, exponent: i32) -> String {
    let digits = format!("{whole}{fraction}");
    let point = whole.len() as i64 + i64::from(exponent);
    if point <= 0 {
        return trimmed("0", &format!("{}{digits}", "0".repeat(point.unsigned_abs() as usize)));
    }
    let point = point as usize;
    if point >= digits.len() {
        return trimmed(&format!("{digits}{}", "0".repeat(point - digits.len())), "");
    }
    trimmed(&digits[..point], &digits[point..])
}

fn trimmed(whole: &str, fraction: &str) -> String {
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

fn is_digits_or_empty(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && is_digits_or_empty(text)
}

/// A whole part without a needless leading zero.
fn is_whole(text: &str) -> bool {
    is_digits(text) && (text.len() == 1 || !text.starts_with('0'))
}

/// The decimals that digits with `,`, `.` and `'` between them can mean; empty if they are no number.
pub fn number_readings(text: &str) -> Vec<String> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let mut readings = unsigned_readings(unsigned);
    if !sign.is_empty() {
        readings.iter_mut().filter(|reading| *reading != "0").for_each(|reading| reading.insert_str(0, sign));
    }
    readings
}

fn unsigned_readings(text: &str) -> Vec<String> {
    let marks: Vec<char> = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    let Some(last) = marks.last().copied() else {
        return if is_whole(text) { vec![text.to_owned()] } else { Vec::new() };
    };
    if !marks.iter().all(|mark| matches!(mark, ',' | '.' | '\'')) {
        return Vec::new();
    }
    let groups: Vec<&str> = text.split(last).collect();
    if marks.iter().any(|mark| *mark != last) {
        // Two kinds of marks: the last is the decimal point and the others group.
        let [whole, fraction] = groups.as_slice() else { return Vec::new() };
        let grouping: Vec<char> = marks.iter().copied().filter(|mark| *mark != last).collect();
        let all_one = grouping.windows(2).all(|pair| pair[0] == pair[1]);
        return match (grouping.first(), last) {
            (Some(mark), '.' | ',') if all_one && is_digits(fraction) => {
                grouped(whole, *mark).map(|digits| trimmed(&digits, fraction)).into_iter().collect()
            }
            _ => Vec::new(),
        };
    }
    let as_grouped = grouped(text, last).map(|digits| trimmed(&digits, ""));
    let [whole, fraction] = groups.as_slice() else { return as_grouped.into_iter().collect() };
    let as_decimal = (is_whole(whole) && is_digits(fraction)).then(|| trimmed(whole, fraction));
    match last {
        '\'' => as_grouped.into_iter().collect(),
        // `2022,100` is no number but two columns of a table.
        ',' if as_grouped.is_some() || (fraction.len() == 3 && *whole != "0") => as_grouped.into_iter().collect(),
        _ => as_decimal.into_iter().chain(as_grouped).collect(),
    }
}

/// The digits of a number in groups: of three, or of two with a last one of three as in India (`12,34,567`).
fn grouped(text: &str, mark: char) -> Option<String> {
    let groups: Vec<&str> = text.split(mark).collect();
    let (first, rest) = groups.split_first()?;
    let (last, middle) = rest.split_last()?;
    let by_three = rest.iter().all(|group| group.len() == 3) && first.len() <= 3;
    let by_two = mark == ','
        && last.len() == 3
        && !middle.is_empty()
        && first.len() <= 2
        && middle.iter().all(|group| group.len() == 2);
    let sound = groups.iter().all(|group| is_digits(group)) && !first.starts_with('0') && (by_three || by_two);
    sound.then(|| groups.concat())
}

/// The days that a numeric date can mean, as `YYYY-MM-DD`: year first, or day and month in either order.
pub fn date_readings(text: &str) -> Vec<String> {
    let Some(mark) = text.chars().find(|c| !c.is_ascii_digit()) else { return Vec::new() };
    let parts: Vec<&str> = text.split(mark).collect();
    let ([one, two, three], '-' | '/' | '.') = (parts.as_slice(), mark) else { return Vec::new() };
    if !parts.iter().all(|part| is_digits(part)) {
        return Vec::new();
    }
    let mut readings = match (one.len(), two.len(), three.len()) {
        (4, 1 | 2, 1 | 2) => vec![day(one, two, three)],
        (1 | 2, 1 | 2, 4) => vec![day(three, two, one), day(three, one, two)],
        _ => Vec::new(),
    };
    readings.dedup();
    readings.into_iter().flatten().collect()
}

/// `YYYY-MM-DD`, if there can be such a day.
pub fn day(year: &str, month: &str, day: &str) -> Option<String> {
    let (month_number, day_number): (u8, u8) = (month.parse().ok()?, day.parse().ok()?);
    let possible = year.len() == 4 && (1..=12).contains(&month_number) && (1..=31).contains(&day_number);
    possible.then(|| format!("{year}-{month_number:02}-{day_number:02}"))
}

/// The number of an English month, by its name or its first three letters.
pub fn month(name: &str) -> Option<usize> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let whole_or_short = |month: &&str| {
        *month == name || (name.len() == 3 && month.starts_with(name)) || name == "sept" && *month == "september"
    };
    MONTHS.iter().position(whole_or_short).map(|index| index + 1)
}

/// A time of day as `HH:MM`, with seconds only where they are not zero.
pub fn time_reading(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (hour, minute, second) = match parts.as_slice() {
        [hour, minute] => (hour, minute, "00"),
        [hour, minute, second] => (hour, minute, second.split_once('.').map_or(*second, |(whole, _)| whole)),
        _ => return None,
    };
    let shaped = matches!(hour.len(), 1 | 2) && minute.len() == 2 && second.len() == 2;
    let hour_number: u8 = hour.parse().ok()?;
    let possible = hour_number < 24 && minute.parse::<u8>().ok()? < 60 && second.parse::<u8>().ok()? <= 60;
    if !shaped || !possible {
        return None;
    }
    Some(if second == "00" {
        format!("{hour_number:02}:{minute}")
    } else {
        format!("{hour_number:02}:{minute}:{second}")
    })
}

/// A time on a clock of twelve hours: `1:30` or `6`, and `am` or `pm`.
pub fn twelve_hour_reading(clock: &str, half: &str) -> Option<String> {
    let (hour, rest) = clock.split_once(':').unwrap_or((clock, "00"));
    let hour: u8 = hour.parse().ok()?;
    let afternoon = match half {
        "am" | "a.m" => 0,
        "pm" | "p.m" => 12,
        _ => return None,
    };
    if !(1..=12).contains(&hour) {
        return None;
    }
    time_reading(&format!("{}:{rest}", hour % 12 + afternoon))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_numbers_become_plain_decimals() {
        for (text, decimal) in [
            ("98.7", "98.7"),
            ("98.70", "98.7"),
            ("1000.0", "1000"),
            ("0.01", "0.01"),
            ("-0", "0"),
            ("-12.5", "-12.5"),
            ("1e3", "1000"),
            ("1.5E+2", "150"),
            ("25e-3", "0.025"),
            ("12345678901234567890123", "12345678901234567890123"),
        ] {
            assert_eq!(plain_decimal(text).as_deref(), Some(decimal), "{text}");
        }
        for text in ["1e400", "abc", "", "1.2.3", "1e99999999999"] {
            assert_eq!(plain_decimal(text), None, "{text}");
        }
    }

    #[test]
    fn separators_are_read() {
        for (text, readings) in [
            ("1000", vec!["1000"]),
            ("1,000.00", vec!["1000"]),
            ("1.000,00", vec!["1000"]),
            ("1'000.50", vec!["1000.5"]),
            ("1'000", vec!["1000"]),
            ("1,000", vec!["1000"]),
            ("1.000", vec!["1", "1000"]),
            ("1.125", vec!["1.125", "1125"]),
            ("12,50", vec!["12.5"]),
            ("0,125", vec!["0.125"]),
            ("1,234,567", vec!["1234567"]),
            ("12,34,567", vec!["1234567"]),
            ("1.234.567,8", vec!["1234567.8"]),
            ("-34.5", vec!["-34.5"]),
            ("0", vec!["0"]),
            ("1.5000", vec!["1.5"]),
        ] {
            assert_eq!(number_readings(text), readings, "{text}");
        }
        for text in ["007", "1.2.3", "10.0.0.1", "1,2,3", "2022,100", "", "12,5,00", "1'00", "1,000.00.0", "1,000,00"] {
            assert!(number_readings(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn dates_are_read_in_both_orders() {
        assert_eq!(date_readings("2023-12-05"), ["2023-12-05"]);
        assert_eq!(date_readings("2023/1/5"), ["2023-01-05"]);
        assert_eq!(date_readings("05.12.2023"), ["2023-12-05", "2023-05-12"]);
        assert_eq!(date_readings("25/12/2023"), ["2023-12-25"]);
        for text in ["2023-13-05", "10.0.0.1", "1.2.3", "555-123-4567", "2023-12", "20231205"] {
            assert!(date_readings(text).is_empty(), "{text}");
        }
        assert_eq!(
            (month("dec"), month("december"), month("sept"), month("decem")),
            (Some(12), Some(12), Some(9), None)
        );
    }

    #[test]
    fn times_are_read() {
        for (text, time) in
            [("9:30", "09:30"), ("09:30:00", "09:30"), ("23:59:30", "23:59:30"), ("12:00:00.000", "12:00")]
        {
            assert_eq!(time_reading(text).as_deref(), Some(time), "{text}");
        }
        for text in ["24:00", "9:3", "1:2:3:4", "12", "123:00"] {
            assert_eq!(time_reading(text), None, "{text}");
        }
        assert_eq!(twelve_hour_reading("1:30", "pm").as_deref(), Some("13:30"));
        assert_eq!(twelve_hour_reading("12", "am").as_deref(), Some("00:00"));
        assert_eq!(twelve_hour_reading("13", "pm"), None);
    }
}
