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

/// JSON that says the same, safe to show: what could act on a terminal is written as JSON's own escapes.
pub fn json(text: String) -> String {
    // Of the controls of ASCII, JSON leaves U+007F as it is, and is itself laid out with line feeds.
    let acts = |character: char| {
        (character.is_control() && !matches!(character, '\u{0}'..'\u{20}')) || is_invisible_order(character)
    };
    if !text.contains(acts) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        // Outside of strings JSON has nothing of the kind.
        if acts(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(character);
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
    fn json_says_the_same_and_does_nothing_else() {
        let text = "a\u{1b}b\u{9b}c\u{202e}d\u{7f}e\u{e0041}f\n\"é🙂";
        let safe = json(serde_json::json!({ "text": text }).to_string());
        assert_eq!(safe, r#"{"text":"a\u001bb\u009bc\u202ed\u007fe\udb40\udc41f\n\"é🙂"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap()["text"], text);
        assert_eq!(json("{\n  \"a\": 1\n}".to_owned()), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn a_clipped_text_has_its_columns() {
        assert_eq!(clipped("abcdef", 6), "abcdef");
        assert_eq!(clipped("abcdefg", 6), "abcde…");
        assert_eq!(clipped("日本語", 4), "日…");
        assert_eq!(clipped("", 0), "");
    }
}
