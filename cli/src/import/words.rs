//! Where a text falls into words: accounts, addresses, amounts and names, each whole.
//!
//! A value counts as standing in a text only as a whole sequence of whole words, so what is one word decides everything:
//!
//! - Letters and digits, held together by `. - _ @ & + ' /` between them, and by `,` and `:` between digits:
//!   `a@b.com`, `bill-2023.txt`, `2023-12-05`, `09:30`, `1,000.00`, `l'ami`. So `a@b` does not stand in `a@b.com`, nor
//!   100 in `1000`, `100.5`, `100-200` or `R100`. A `/` holds together paths, addresses and numbers (`24/7`), not `and/or`.
//! - Punctuation at the ends is no part of a word: quotes, brackets, the full stop of a sentence, currency signs, `%`,
//!   Markdown's marks, and the `'s` of a possessive. A sign before digits is: `-5`. An underscore at the end is if a value
//!   has it, `External_`; in a text it may be Markdown's.
//! - An address of the web is one word with its path and query, without `http(s)://` and a last slash.
//! - In scripts that do not part words (Han, Hiragana, Thai, Lao, Khmer, Burmese) each character is a word; a value of a
//!   single such character has to stand alone. Katakana runs are words. Hangul runs are words, also without a particle.
//!   Where the script changes a word ends: `付给Ann共1000元` holds `ann` and 1000, and `3万` is 30000.
//!
//! A word has one or more readings, and words are equal if they share one. Readings begin with a letter that tells what
//! they are, so that kinds do not meet: `w` a word, `n` a number, `d` a date, `t` a time, `c` a long code without hyphens.

use super::numbers;

/// What stands between a word and the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// Nothing: the script changes, or does not part words.
    Joined,
    /// One space.
    Space,
    /// Other white space.
    Blank,
    /// Brackets and single spaces, as in a telephone number.
    Brackets,
    /// Punctuation or symbols.
    Marks,
}

/// One word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word<'a> {
    /// As it stands in the normalised text.
    pub raw: &'a str,
    /// What stands before it.
    pub gap: Gap,
    /// Whether its script does not part words.
    pub spaceless: bool,
    /// What it can mean.
    pub readings: Vec<String>,
}

/// The words of a text that has been [normalised](super::normalise::normalise).
pub fn words(text: &str) -> Vec<Word<'_>> {
    let mut scanner = Scanner { text, at: 0, gap_from: 0, words: Vec::new() };
    while let Some(c) = scanner.peek(0) {
        scanner.step(c);
    }
    scanner.words
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    None,
    Parted,
    Spaceless,
    Katakana,
    Hangul,
}

fn script(c: char) -> Script {
    match u32::from(c) {
        0x0e00..=0x0eff
        | 0x1000..=0x109f
        | 0x1780..=0x17ff
        | 0x3041..=0x309f
        | 0x3005..=0x3007
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff
        | 0xf900..=0xfaff
        | 0x20000..=0x3ffff
            if c.is_alphanumeric() || is_mark(c) || matches!(c, '\u{3005}'..='\u{3007}') =>
        {
            Script::Spaceless
        }
        0x30a1..=0x30fa | 0x30fc..=0x30ff | 0x31f0..=0x31ff => Script::Katakana,
        0x1100..=0x11ff | 0x3130..=0x318f | 0xac00..=0xd7a3 => Script::Hangul,
        _ if c.is_alphanumeric() || is_mark(c) => Script::Parted,
        _ => Script::None,
    }
}

fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    gap_from: usize,
    words: Vec<Word<'a>>,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest().chars().nth(ahead)
    }

    fn previous(&self) -> Option<char> {
        self.text[..self.at].chars().next_back()
    }

    fn step(&mut self, c: char) {
        let starts_word = self.previous().is_none_or(|previous| script(previous) != Script::Parted);
        if starts_word && let Some(length) = web_address(self.rest()) {
            let raw = &self.rest()[..length];
            self.push(raw, false, vec![format!("w{}", plain_address(raw))]);
            self.advance(length);
            return;
        }
        match script(c) {
            Script::None if self.is_sign(c) => self.chunk(),
            Script::None => self.at += c.len_utf8(),
            Script::Spaceless => {
                let length = run_length(self.rest(), c.len_utf8(), is_mark);
                let raw = &self.rest()[..length];
                self.push(raw, true, vec![format!("w{raw}")]);
                self.advance(length);
            }
            Script::Katakana | Script::Hangul => {
                let length = run_length(self.rest(), 0, |next| script(next) == script(c) || is_mark(next));
                let raw = &self.rest()[..length];
                let mut readings = vec![format!("w{raw}")];
                if script(c) == Script::Hangul {
                    readings.extend(without_particle(raw).map(|stem| format!("w{stem}")));
                }
                self.push(raw, false, readings);
                self.advance(length);
            }
            Script::Parted => self.chunk(),
        }
    }

    /// Whether a minus stands here that belongs to the digits after it.
    fn is_sign(&self, c: char) -> bool {
        let digit_follows = self.peek(1).is_some_and(|next| next.is_ascii_digit());
        c == '-'
            && digit_follows
            && self.previous().is_none_or(|before| before.is_whitespace() || "([:=\"'".contains(before))
    }

    /// A word with what holds it together, as it stands; then what it means.
    fn chunk(&mut self) {
        let start = self.at;
        let rooted = matches!(self.previous(), Some('/' | '~'));
        let length = chunk_length(self.rest());
        let mut raw = &self.text[start..start + length];
        let mut end = start + length;
        // `c++`, `c#`: signs that belong to a single letter.
        if raw.chars().count() == 1 && raw.starts_with(char::is_alphabetic) {
            end += self.text[end..].bytes().take_while(|byte| matches!(byte, b'+' | b'#')).count();
            raw = &self.text[start..end];
        }
        if let Some((number, longer)) = counted(raw, &self.text[end..]) {
            let length = raw.len() + longer;
            self.push(&self.text[start..start + length], false, vec![number]);
            self.advance(length);
            return;
        }
        let is_emphasised = self.previous() == Some('_');
        self.meaning(raw, rooted);
        if !is_emphasised {
            self.read_underscores(end);
        }
        self.advance(end - start);
    }

    /// `External_` is called so, and is not `External`; but in a text the mark may be Markdown's: `_by Ann Smith_`.
    fn read_underscores(&mut self, end: usize) {
        let underscores = run_length(&self.text[end..], 0, |c| c == '_');
        if let Some(word) = self.words.last_mut().filter(|_| underscores > 0)
            && word.readings.iter().all(|reading| reading.starts_with('w'))
        {
            let with_them = word.readings.first().map(|reading| reading.clone() + &"_".repeat(underscores));
            word.readings.splice(0..0, with_them);
        }
    }

    fn advance(&mut self, length: usize) {
        self.at += length;
        self.gap_from = self.at;
    }

    fn push(&mut self, raw: &'a str, spaceless: bool, readings: Vec<String>) {
        let start = raw.as_ptr() as usize - self.text.as_ptr() as usize;
        let gap = gap(&self.text[self.gap_from..start.max(self.gap_from)]);
        self.gap_from = start + raw.len();
        self.words.push(Word { raw, gap, spaceless, readings });
    }

    fn meaning(&mut self, chunk: &'a str, rooted: bool) {
        let chunk = ["''s", "'s"].iter().find_map(|possessive| chunk.strip_suffix(possessive)).unwrap_or(chunk);
        let readings = numeric_readings(chunk);
        if !readings.is_empty() {
            return self.push(chunk, false, readings);
        }
        if chunk.contains(',') {
            return chunk.split(',').for_each(|part| self.meaning(part, rooted));
        }
        if let Some((date, time)) = chunk.split_once('t')
            && !numbers::date_readings(date).is_empty()
            && time.starts_with(|c: char| c.is_ascii_digit())
        {
            let clock = time.split(['+', '-', 'z']).next().unwrap_or(time);
            self.meaning(date, false);
            self.meaning(clock, false);
            let offset = time[clock.len()..].trim_start_matches('z');
            if !offset.is_empty() {
                self.push(offset, false, vec![format!("w{offset}")]);
            }
            return;
        }
        if chunk.contains('/') && !rooted && !is_path(chunk) {
            return chunk.split('/').filter(|part| !part.is_empty()).for_each(|part| self.meaning(part, false));
        }
        let word = chunk.replace("''", "'");
        let readings = std::iter::once(format!("w{word}")).chain(code(chunk).map(|code| format!("c{code}")));
        self.push(chunk, false, readings.collect());
    }
}

fn gap(between: &str) -> Gap {
    match between {
        "" => Gap::Joined,
        " " => Gap::Space,
        _ if between.chars().all(char::is_whitespace) => Gap::Blank,
        " (" | ") " | ")" | "(" => Gap::Brackets,
        _ => Gap::Marks,
    }
}

fn run_length(text: &str, least: usize, belongs: impl Fn(char) -> bool) -> usize {
    text.char_indices().find(|(at, c)| *at >= least && !belongs(*c)).map_or(text.len(), |(at, _)| at)
}

/// The length of a word of a script that parts words, joined over marks that stand between its letters and digits.
fn chunk_length(text: &str) -> usize {
    let mut length = usize::from(text.starts_with('-'));
    loop {
        length += run_length(&text[length..], 0, |c| script(c) == Script::Parted || is_mark(c));
        let before = text[..length].chars().next_back();
        let mut after = text[length..].chars();
        let (Some(before), Some(mark), Some(mut next)) = (before, after.next(), after.next()) else { return length };
        let mut mark_length = mark.len_utf8();
        // YAML doubles the apostrophes of what it quotes.
        if mark == '\'' && next == '\'' {
            let Some(third) = after.next() else { return length };
            next = third;
            mark_length += 1;
        }
        let joins = match mark {
            '.' | '-' | '_' | '@' | '&' | '+' | '/' | '\'' => true,
            ',' | ':' => before.is_ascii_digit() && next.is_ascii_digit(),
            _ => false,
        };
        if !joins || script(next) != Script::Parted {
            return length;
        }
        length += mark_length;
    }
}

/// What digits mean, alone or with a currency or a half of the day written against them.
fn numeric_readings(chunk: &str) -> Vec<String> {
    if !chunk.bytes().any(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    let number = |text: &str| numbers::number_readings(text).into_iter().map(|reading| format!("n{reading}"));
    let mut readings: Vec<String> = number(chunk).collect();
    readings.extend(numbers::date_readings(chunk).into_iter().map(|reading| format!("d{reading}")));
    readings.extend(numbers::time_reading(chunk).map(|reading| format!("t{reading}")));
    if readings.is_empty() && chunk.is_ascii() && chunk.len() > 2 {
        let (head, half) = chunk.split_at(chunk.len() - 2);
        readings.extend(numbers::twelve_hour_reading(head, half).map(|reading| format!("t{reading}")));
    }
    if readings.is_empty() && chunk.is_ascii() && chunk.len() > 3 {
        let (front, amount_behind) = chunk.split_at(3);
        let (amount_before, back) = chunk.split_at(chunk.len() - 3);
        for (currency, amount) in [(front, amount_behind), (back, amount_before)] {
            if CURRENCIES.contains(&currency) {
                readings.extend(number(amount));
            }
        }
    }
    if !readings.is_empty() {
        readings.extend(code(chunk).map(|code| format!("c{code}")));
    }
    readings
}

/// Currencies that are often written against their amount: `USD34,500`.
const CURRENCIES: [&str; 20] = [
    "usd", "eur", "gbp", "chf", "jpy", "cny", "rmb", "inr", "krw", "aud", "cad", "nzd", "sek", "nok", "dkk", "pln",
    "czk", "brl", "mxn", "zar",
];

/// A number with a Chinese or Japanese multiplier after it, and the multiplier's length: `3万` is 30000.
fn counted(raw: &str, after: &str) -> Option<(String, usize)> {
    let multiplier = after.chars().next()?;
    let power = match multiplier {
        '百' => 2,
        '千' => 3,
        '万' | '萬' => 4,
        '億' | '亿' => 8,
        '兆' => 12,
        _ => return None,
    };
    let reading = numbers::number_readings(raw).pop()?;
    let length = multiplier.len_utf8();
    if after[length..].starts_with(|next: char| next.is_ascii_digit() || "百千万萬億亿兆".contains(next)) {
        // `1億2000万`: a longer number, which is kept as it is written and so is not taken for one of its parts.
        let longer = run_length(after, 0, |c| c.is_ascii_digit() || "百千万萬億亿兆".contains(c));
        return Some((format!("w{raw}{}", &after[..longer]), longer));
    }
    let (whole, fraction) = reading.split_once('.').unwrap_or((&reading, ""));
    Some((format!("n{}", numbers::shifted(whole, fraction, power)), length))
}

/// A long code without its hyphens: at least eight letters and digits of ASCII, of which four are digits.
pub fn code(raw: &str) -> Option<String> {
    let squeezed: String = raw.chars().filter(|c| *c != '-').collect();
    let digits = squeezed.bytes().filter(u8::is_ascii_digit).count();
    let sound = squeezed.bytes().all(|byte| byte.is_ascii_alphanumeric()) && (8..=64).contains(&squeezed.len());
    (sound && digits >= 4).then_some(squeezed)
}

fn is_path(chunk: &str) -> bool {
    let digits_only = chunk.split('/').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let has_name = chunk.char_indices().any(|(at, c)| c == '.' && chunk[at + 1..].starts_with(char::is_alphabetic));
    digits_only || has_name || chunk.contains('@') || chunk.matches('/').count() >= 2
}

/// The length of an address of the web that begins here.
fn web_address(text: &str) -> Option<usize> {
    let begins = ["http://", "https://", "ftp://", "www."].iter().any(|start| text.starts_with(start));
    if !begins && !is_host_with_path(text) {
        return None;
    }
    let mut open_round = 0_i32;
    let mut open_square = 0_i32;
    let mut previous = ' ';
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        match c {
            '(' => open_round += 1,
            ')' => open_round -= 1,
            '[' => open_square += 1,
            ']' => open_square -= 1,
            _ => {}
        }
        // Beyond ASCII only the letters of a path: `…/wiki/北京`.
        let foreign = !c.is_ascii() && !(c.is_alphanumeric() && (previous == '/' || !previous.is_ascii()));
        if c.is_whitespace() || "\"'<>`|{}\\^".contains(c) || open_round < 0 || open_square < 0 || foreign {
            end = at;
            break;
        }
        previous = c;
    }
    let address = text[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_', '~', '(', '[']);
    (!plain_address(address).is_empty() && address != "www").then_some(address.len())
}

/// Whether a name such as `example.com` stands here with a path, a query or a port after it.
fn is_host_with_path(text: &str) -> bool {
    let length = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')).count();
    let Some((_, last_label)) = text[..length].rsplit_once('.') else { return false };
    let is_name = last_label.len() >= 2 && last_label.bytes().all(|byte| byte.is_ascii_alphabetic());
    let mut after = text[length..].chars();
    is_name
        && match after.next() {
            Some('/' | '?' | '#') => after.next().is_some_and(|c| !c.is_whitespace()),
            Some(':') => after.next().is_some_and(|c| c.is_ascii_digit()),
            _ => false,
        }
}

fn plain_address(raw: &str) -> &str {
    let address = raw.strip_prefix("https://").or_else(|| raw.strip_prefix("http://")).unwrap_or(raw);
    address.trim_end_matches('/')
}

/// A Korean word without the particle at its end, if two syllables remain.
fn without_particle(word: &str) -> Option<&str> {
    const PARTICLES: [&str; 26] = [
        "에게서",
        "한테서",
        "으로부터",
        "에서",
        "에게",
        "한테",
        "으로",
        "까지",
        "부터",
        "께서",
        "이랑",
        "님께",
        "은",
        "는",
        "이",
        "가",
        "을",
        "를",
        "에",
        "의",
        "로",
        "와",
        "과",
        "도",
        "만",
        "께",
    ];
    let stem = PARTICLES.iter().find_map(|particle| word.strip_suffix(particle))?;
    (stem.chars().count() >= 2).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::{super::normalise::normalise, *};

    fn raws(text: &str) -> Vec<String> {
        words(&normalise(text)).iter().map(|word| word.raw.to_owned()).collect()
    }

    #[test]
    fn words_are_whole() {
        for (text, expected) in [
            ("Pay 98.70, please.", vec!["pay", "98.70", "please"]),
            ("'bill-december-2023.txt'", vec!["bill-december-2023.txt"]),
            ("<a@b.com>, (c+d@e.org).", vec!["a@b.com", "c+d@e.org"]),
            ("mailto:a@b.com", vec!["mailto", "a@b.com"]),
            ("$34,500 or 12% of €1.000,00", vec!["34,500", "or", "12", "of", "1.000,00"]),
            ("Emma's and Grandma\u{2019}s", vec!["emma", "and", "grandma"]),
            ("'at Grandma''s house'", vec!["at", "grandma", "house"]),
            ("I''m at O'Brien's", vec!["i''m", "at", "o'brien"]),
            ("and/or 24/7 docs/a.txt /etc/passwd", vec!["and", "or", "24/7", "docs/a.txt", "etc/passwd"]),
            ("C++ and C# and A+", vec!["c++", "and", "c#", "and", "a+"]),
            ("2024-05-19T12:00:00Z", vec!["2024-05-19", "12:00:00"]),
            ("John,5,Great", vec!["john", "5", "great"]),
            ("1,2,3 x", vec!["1", "2", "3", "x"]),
            ("_Ann_ **Bob**: x_y", vec!["ann", "bob", "x_y"]),
            ("-5 to 5-10 and 5–10", vec!["-5", "to", "5-10", "and", "5", "10"]),
            ("付给Ann共1000元", vec!["付", "给", "ann", "共", "1000", "元"]),
            ("アンナさん", vec!["アンナ", "さ", "ん"]),
            ("", vec![]),
            ("…!? 🎉", vec![]),
        ] {
            assert_eq!(raws(text), expected, "{text}");
        }
    }

    #[test]
    fn addresses_of_the_web_are_one_word() {
        for (text, expected) in [
            ("see https://x.com/a/?q=1&r=2, now", "x.com/a/?q=1&r=2"),
            ("(http://X.com/)", "x.com"),
            ("www.informations.com!", "www.informations.com"),
            ("**www.informations.com**: x", "www.informations.com"),
            ("[Reset](https://t.com/p?token=a_b)", "t.com/p?token=a_b"),
            ("www.company.com/alice!", "www.company.com/alice"),
            ("example.com/path?x=1.", "example.com/path?x=1"),
            ("https://en.wikipedia.org/wiki/A_(b)", "en.wikipedia.org/wiki/a_(b)"),
            ("访问https://x.com吧", "x.com"),
            ("https://x.com，请", "x.com"),
            ("https://zh.wikipedia.org/wiki/北京", "zh.wikipedia.org/wiki/北京"),
            ("{'url': 'https://x.com/a', 'n': 1}", "x.com/a"),
        ] {
            let normal = normalise(text);
            let found = words(&normal);
            assert!(found.iter().any(|word| word.readings == [format!("w{expected}")]), "{text}: {found:?}");
        }
    }

    #[test]
    fn one_word_may_have_two_readings() {
        let readings = |text: &str| words(&normalise(text)).remove(0).readings;
        assert_eq!(readings("1.125"), ["n1.125", "n1125"]);
        assert_eq!(readings("03/04/2024"), ["d2024-04-03", "d2024-03-04"]);
        assert_eq!(readings("USD34,500"), ["n34500"]);
        assert_eq!(readings("34500eur"), ["n34500", "c34500eur"]);
        assert_eq!(readings("6pm"), ["t18:00"]);
        assert_eq!(readings("007"), ["w007"]);
        assert_eq!(readings("1j1l-2k3j"), ["w1j1l-2k3j", "c1j1l2k3j"]);
        assert_eq!(readings("3万"), ["n30000"]);
        assert_eq!(readings("1.5億円"), ["n150000000"]);
        assert_eq!(readings("1億2000万"), ["w1億2000万"]);
        assert_eq!(readings("김철수에게"), ["w김철수에게", "w김철수"]);
    }
}
