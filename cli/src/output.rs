//! How answers are written: for people with colours where they are welcome (NO_COLOR, no terminal: none), or as JSON.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::escape;

/// Where answers go: standard output.
pub struct Output {
    json: bool,
    stream: io::BufWriter<Box<dyn Write>>,
}

impl Output {
    /// In JSON, or for people.
    pub fn new(json: bool) -> Output {
        // What takes colours out also takes out what is no colour, such as U+007F; JSON goes as it is.
        let stream: Box<dyn Write> = if json { Box::new(io::stdout()) } else { Box::new(anstream::stdout()) };
        Output::to(json, stream)
    }

    /// The same to another place, colours and all.
    pub fn to(json: bool, stream: Box<dyn Write>) -> Output {
        Output { json, stream: io::BufWriter::new(stream) }
    }

    /// Whether answers are JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// One JSON document.
    pub fn document<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let text = escape::json(serde_json::to_string_pretty(value)?);
        writeln!(self.stream, "{text}")?;
        self.stream.flush()
    }

    /// One line of JSON lines.
    pub fn json_line<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let text = escape::json(serde_json::to_string(value)?);
        writeln!(self.stream, "{text}")
    }

    /// One line for people.
    pub fn line(&mut self, text: impl std::fmt::Display) -> io::Result<()> {
        writeln!(self.stream, "{text}")
    }

    /// Sends what was written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A text in a style.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The style of what is believed.
pub const IN: Style = AnsiColor::Green.on_default();
/// The style of what is not.
pub const OUT: Style = AnsiColor::Red.on_default();
/// The style of what matters most.
pub const BOLD: Style = Style::new().bold();
/// The style of what matters least.
pub const DIM: Style = Style::new().dimmed();

/// A status, with the reason for an OUT.
pub fn status(status: &str, why: Option<&str>) -> String {
    match why {
        _ if status == "IN" => styled(IN, "IN"),
        Some(why) => styled(OUT, format!("OUT ({why})")),
        None => styled(OUT, "OUT"),
    }
}

/// So many of something, in words.
pub fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {}", plural(one)) }
}

fn plural(one: &str) -> String {
    format!("{one}s")
}

/// So many bytes, in words.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64;
    let mut unit = "bytes";
    for larger in UNITS {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = larger;
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{amount:.1} {unit}") }
}
