//! Text from sources is an attacker's: control and bidirectional characters are shown as escapes, never sent to a terminal.

/// A text on one line, safe to show.
pub fn line(text: &str) -> String {
    escape(text, false)
}

/// A text that may have several lines, safe to show.
pub fn block(text: &str) -> String {
    escape(text, true)
}

/// A text on one line of at most so many columns.
pub fn clipped(text: &str, columns_max: usize) -> String {
    let safe = line(text);
    let mut columns = 0;
    for (at, character) in safe.char_indices() {
        columns += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        if columns > columns_max {
            let end = safe[..at].char_indices().next_back().map_or(0, |(at, _)| at);
            return format!("{}…", &safe[..end]);
        }
    }
    safe
}

fn escape(text: &str, keep_line_feeds: bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' if keep_line_feeds => safe.push('\n'),
            '\n' => safe.push_str("\\n"),
            '\t' => safe.push_str("\\t"),
            '\r' => safe.push_str("\\r"),
            _ if character.is_control() || is_invisible_order(character) => {
                safe.push_str(&format!("\\u{{{:x}}}", character as u32));
            }
            _ => safe.push(character),
        }
    }
    safe
}

/// Characters that change the order or the look of what stands around them, and are not seen themselves: bidirectional
/// controls, line and paragraph separators, zero width characters, tags.
fn is_invisible_order(character: char) -> bool {
    matches!(character,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        assert_eq!(line("a\u{1b}[31mb\u{202e}c\nd"), "a\\u{1b}[31mb\\u{202e}c\\nd");
        assert_eq!(block("a\nb\u{9b}"), "a\nb\\u{9b}");
        assert_eq!(line("日本語 🙂 é"), "日本語 🙂 é");
    }

    #[test]
    fn a_clipped_text_has_its_columns() {
        assert_eq!(clipped("abcdef", 6), "abcdef");
        assert_eq!(clipped("abcdefg", 6), "abcde…");
        assert_eq!(clipped("日本語", 4), "日…");
        assert_eq!(clipped("", 0), "");
    }
}
