//! One spelling for all texts before they are compared: the same rules for a value and for what it is looked for in.
//!
//! - Unicode NFKC, so that fullwidth and composed forms are equal, and no difference of case (full case folding).
//! - Characters that nobody sees (soft hyphens, joiners, direction marks, variation selectors) are dropped.
//! - Decimal digits of other scripts are those of ASCII; a no-break or thin space before three digits groups.
//! - Quotes and hyphens have one form. An en or em dash separates, a hyphen and a minus sign join.
//! - Escapes that a tool left in its output are undone: `\n`, `\"`, `\u00e9`, `\xe9`, and a YAML line that ends in `\`.
//!   A backslash before anything else is a slash, as in the path of a file.

use unicode_normalization::UnicodeNormalization;

/// The text in its one spelling.
pub fn normalise(text: &str) -> String {
    let plain = if text.contains('\\') { unescape(text) } else { text.to_owned() };
    if plain.is_ascii() {
        return plain.to_ascii_lowercase();
    }
    let mut joined = String::with_capacity(plain.len());
    let mut previous = ' ';
    for (at, c) in plain.char_indices() {
        match c {
            '\u{a0}' | '\u{202f}' | '\u{2009}' | '\u{2007}'
                if previous.is_ascii_digit() && are_three_digits(&plain[at + c.len_utf8()..]) =>
            {
                joined.push('\'');
            }
            // A dash separates; NFKC would leave it as it is, and a minus sign too.
            '\u{2013}'..='\u{2015}' => joined.push_str(" \u{2013} "),
            '\u{2010}' | '\u{2011}' | '\u{2012}' | '\u{2212}' | '\u{fe63}' | '\u{ff0d}' => joined.push('-'),
            '\u{200b}' => joined.push(' '),
            _ if is_invisible(c) => continue,
            _ => joined.push(c),
        }
        previous = c;
    }
    joined.nfkc().flat_map(fold).nfkc().map(plain_form).collect()
}

/// Whether a group of exactly three digits stands here.
fn are_three_digits(text: &str) -> bool {
    text.bytes().take_while(u8::is_ascii_digit).count() == 3
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e01ef}'
    )
}

/// Full case folding, near enough: `ß` is `ss`, and both sigmas are one.
fn fold(c: char) -> impl Iterator<Item = char> {
    c.to_uppercase().flat_map(char::to_lowercase)
}

fn plain_form(c: char) -> char {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2032}' | '\u{2bc}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{2033}' => '"',
        '\u{66b}' => '.',
        '\u{66c}' => '\'',
        '\u{2044}' | '\u{2215}' => '/',
        _ => ascii_digit(c).unwrap_or(c),
    }
}

fn ascii_digit(c: char) -> Option<char> {
    /// The zeros of scripts that have their own digits and that NFKC leaves alone.
    const ZEROS: [u32; 17] = [
        0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0, 0xf20,
        0x1040, 0x17e0,
    ];
    let value = ZEROS.iter().find_map(|zero| u32::from(c).checked_sub(*zero).filter(|digit| *digit < 10))?;
    char::from_digit(value, 10)
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        // Text that was escaped twice has several backslashes for one.
        let escape = rest[at..].trim_start_matches('\\');
        let mut characters = escape.chars();
        let (replacement, length) = match characters.next() {
            Some('n' | 'r' | 't') => (Some(' '), 1),
            Some('u') => hexadecimal(escape, 4),
            Some('x') => hexadecimal(escape, 2),
            None | Some('"' | '\'' | '/') => (None, 0),
            Some(c) if c.is_whitespace() => (None, 0),
            Some(_) => (Some('/'), 0),
        };
        plain.extend(replacement);
        rest = &escape[length..];
    }
    plain.push_str(rest);
    plain
}

/// The character of `uXXXX` or `xXX`, of two halves too, and how many bytes of the escape it takes.
fn hexadecimal(escape: &str, digits: usize) -> (Option<char>, usize) {
    let unit = |from: usize| {
        let hexadecimal = escape.get(from..from + digits)?;
        hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(hexadecimal, 16).ok())?
    };
    let Some(first) = unit(1) else { return (Some('/'), 0) };
    if let Some(c) = char::from_u32(first) {
        return (Some(c), 1 + digits);
    }
    let second_at = 1 + digits + 2;
    let is_pair = digits == 4 && escape.get(1 + digits..second_at) == Some("\\u");
    match unit(second_at).filter(|second| is_pair && first < 0xdc00 && (0xdc00..0xe000).contains(second)) {
        Some(second) => {
            let c = char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            (c, second_at + digits)
        }
        None => (Some('\u{fffd}'), 1 + digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_text_are_one() {
        for (one, other) in [
            ("Café", "Cafe\u{301}"),
            ("ＡＢＣ１２３", "abc123"),
            ("STRASSE", "straße"),
            ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
            ("١٢٣", "123"),
            ("re\u{ad}cant", "recant"),
            ("a\u{202e}b", "ab"),
            ("O\u{2019}Brien", "o'brien"),
            ("１\u{a0}000", "1 000"),
            ("1\u{202f}000", "1'000"),
            ("well\u{2011}known", "well-known"),
            (r"Caf\u00e9", "café"),
            (r"\ud83d\ude00 Caf\xe9", "😀 café"),
            (r#"say \"hi\""#, r#"say "hi""#),
            (r"Chez L\'Ami", "chez l'ami"),
            (r"docs\plan.md", "docs/plan.md"),
        ] {
            assert_eq!(normalise(one), normalise(other), "{one} {other}");
        }
    }

    #[test]
    fn broken_escapes_do_no_harm() {
        for text in [r"\", r"\u12", r"\ud800", r"\ud800\u0041", r"\x", r"a\\", r"\u00e", "\\ué"] {
            normalise(text);
        }
        assert_eq!(normalise("end\\n\\nBest"), "end best".replace(' ', "  "));
    }
}
