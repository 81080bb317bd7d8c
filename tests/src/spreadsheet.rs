//! Tables as comma-separated values (RFC 4180): quoted fields may hold commas, line ends and, doubled, quotes.

use std::collections::BTreeMap;

/// The rows of a table whose first line names the columns.
pub fn rows(text: &str) -> Result<Vec<BTreeMap<String, String>>, String> {
    let mut lines = records(text.trim_start_matches('\u{feff}')).into_iter();
    let names = lines.next().unwrap_or_default();
    lines
        .map(|fields| {
            if fields.len() != names.len() {
                return Err(format!(
                    "a row has {} fields, and there are {} columns: {fields:?}",
                    fields.len(),
                    names.len()
                ));
            }
            Ok(names.iter().cloned().zip(fields).collect())
        })
        .collect()
}

fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => record.push(std::mem::take(&mut field)),
            '\r' if !is_quoted => {}
            '\n' if !is_quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            other => field.push(other),
        }
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        records.push(record);
    }
    records
}
