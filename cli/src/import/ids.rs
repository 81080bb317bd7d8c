//! Ids that are the same at every import, and readable.
//!
//! A run's id is what the line itself calls it: `run_id`, `run` or `id`, in the line or its `metadata`; for AgentDojo's
//! logs `suite/user_task/injection_task/index`; else `run-` and a hash of the line, whatever its spaces and the order of
//! its keys. What is made from a run begins with the run's id. An id has at most 256 bytes: a longer one keeps its
//! beginning and ends in `~` and 32 hexadecimal digits of a hash of the whole, so that no two become one.

use recant_proto::id::ID_BYTES_MAX;

use super::json::Json;

const HASH_DIGITS: usize = 32;

/// The id, shortened by the rule above if it is too long.
pub fn shortened(id: String) -> String {
    if id.len() <= ID_BYTES_MAX {
        return id;
    }
    let hash = hash(&id, HASH_DIGITS);
    let kept = id.floor_char_boundary(ID_BYTES_MAX - HASH_DIGITS - 1);
    format!("{}~{hash}", &id[..kept])
}

/// The first digits of a text's hash (BLAKE3).
pub fn hash(text: &str, digits: usize) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(digits).collect()
}

/// The id of the run that a line holds.
pub fn run_id(line: &Json) -> String {
    let metadata = line.get("metadata").unwrap_or(&Json::Null);
    let own = ["run_id", "run", "id"].iter().find_map(|key| name(line, key).or_else(|| name(metadata, key)));
    own.or_else(|| agentdojo_id(line, metadata))
        .unwrap_or_else(|| format!("run-{}", hash(&line.canonical(), HASH_DIGITS)))
}

/// A member that can be a name: a text that is not empty, or a number.
pub fn name(value: &Json, key: &str) -> Option<String> {
    match value.get(key)? {
        Json::Text(text) if !text.is_empty() => Some(text.clone()),
        Json::Number(number) => Some(number.clone()),
        _ => None,
    }
}

fn agentdojo_id(line: &Json, metadata: &Json) -> Option<String> {
    let mut id = format!("{}/{}", name(metadata, "suite_name")?, name(metadata, "user_task_id")?);
    for part in [name(metadata, "injection_task_id"), name(line, "index")].into_iter().flatten() {
        id.push('/');
        id.push_str(&part);
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_called_what_its_line_calls_it() {
        for (line, id) in [
            (r#"{"id": "chatcmpl-1", "messages": []}"#, "chatcmpl-1"),
            (r#"{"id": 7, "run_id": "r"}"#, "r"),
            (r#"{"id": 7}"#, "7"),
            (r#"{"metadata": {"run_id": "m"}, "index": 3}"#, "m"),
            (r#"{"metadata": {"suite_name": "banking", "user_task_id": "u0"}, "index": 1}"#, "banking/u0/1"),
            (
                r#"{"metadata": {"suite_name": "s", "user_task_id": "u0", "injection_task_id": "i3"}, "index": 9}"#,
                "s/u0/i3/9",
            ),
        ] {
            assert_eq!(run_id(&Json::parse(line).unwrap()), id, "{line}");
        }
        let anonymous = |text: &str| run_id(&Json::parse(text).unwrap());
        let one = anonymous(r#"{"messages": [{"role": "user", "content": "x"}], "index": 3}"#);
        assert_eq!(one, anonymous(r#"{"index":3,"messages":[{"content":"x","role":"user"}]}"#));
        assert_ne!(one, anonymous(r#"{"index":3,"messages":[{"content":"y","role":"user"}]}"#));
        assert!(one.starts_with("run-"));
    }

    /// Ids that differ only beyond the limit must stay apart, and characters whole.
    #[test]
    fn long_ids_are_shortened_and_stay_apart() {
        let exact = "x".repeat(ID_BYTES_MAX);
        assert_eq!(shortened(exact.clone()), exact);
        let (one, other) = (shortened("é".repeat(300) + "1"), shortened("é".repeat(300) + "2"));
        assert_ne!(one, other);
        assert!(one.len() <= ID_BYTES_MAX && one.starts_with("éé") && one.contains('~'));
    }
}
