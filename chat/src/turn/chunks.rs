//! Chunks in their order, in as few as say the same.

use std::collections::VecDeque;
use std::mem::discriminant;

use serde_json::Value;

use super::Chunk;

/// Length to which a text is shortened, in bytes.
const SHORT: usize = 2 * 1024;

/// Where a text was shortened.
const CUT: &str = "[…]\n";

/// Chunks that a page has not read.
#[derive(Debug, Default, Clone)]
pub(super) struct Chunks {
    list: VecDeque<Chunk>,
    /// Bytes of their texts, inputs and outputs.
    bytes: usize,
}

impl Chunks {
    /// Adds a chunk. What it replaces or continues is not kept separately.
    pub(super) fn add(&mut self, chunk: Chunk) {
        let chunk = match chunk {
            Chunk::TextDelta { .. } | Chunk::ReasoningDelta { .. } | Chunk::ToolInputDelta { .. } => {
                match self.continued(chunk) {
                    None => return,
                    Some(chunk) => chunk,
                }
            }
            // The complete input is where its beginning was, so that the calls keep their order.
            Chunk::ToolInputAvailable { .. } | Chunk::ToolInputError { .. } => match self.completed(chunk) {
                None => return,
                Some(chunk) => chunk,
            },
            Chunk::ToolOutputAvailable { ref tool_call_id, .. } => {
                let id = tool_call_id.clone();
                self.remove(|known| {
                    matches!(known, Chunk::ToolOutputAvailable { tool_call_id, preliminary: true, .. } if *tool_call_id == id)
                });
                chunk
            }
            Chunk::Sandbox { .. } => {
                self.remove(|known| matches!(known, Chunk::Sandbox { .. }));
                chunk
            }
            other => other,
        };
        self.push(chunk);
    }

    /// Adds a chunk as it is.
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.bytes += size(&chunk);
        self.list.push_back(chunk);
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Takes the first chunk.
    pub(super) fn take(&mut self) -> Option<Chunk> {
        let first = self.list.pop_front()?;
        self.bytes -= size(&first);
        Some(first)
    }

    /// Shortens long texts and outputs, the oldest first, until all together have at most `max_bytes`.
    pub(super) fn shorten(&mut self, max_bytes: usize) {
        for chunk in &mut self.list {
            if self.bytes <= max_bytes {
                return;
            }
            self.bytes -= size(chunk);
            shorten(chunk);
            self.bytes += size(chunk);
        }
    }

    /// Appends a delta to the last one of the same text. Returns it if there is none.
    fn continued(&mut self, chunk: Chunk) -> Option<Chunk> {
        let (id, more) = delta_of(&chunk)?;
        let is_same = |known: &Chunk| {
            discriminant(known) == discriminant(&chunk)
                && delta_of(known).is_some_and(|(known, _)| known == id)
        };
        let known = self.list.iter_mut().rev().find(|known| is_same(known));
        let Some(text) = known.and_then(text_of) else { return Some(chunk) };
        text.push_str(more);
        self.bytes += more.len();
        None
    }

    /// Puts a complete input in the place of its beginning. Returns it if that was read already.
    fn completed(&mut self, chunk: Chunk) -> Option<Chunk> {
        let id = call_of(&chunk)?.to_owned();
        self.remove(
            |known| matches!(known, Chunk::ToolInputDelta { tool_call_id, .. } if *tool_call_id == id),
        );
        let is_begun = |known: &Chunk| matches!(known, Chunk::ToolInputStart { tool_call_id, .. } if *tool_call_id == id);
        let Some(known) = self.list.iter_mut().rev().find(|known| is_begun(known)) else {
            return Some(chunk);
        };
        self.bytes += size(&chunk);
        *known = chunk;
        None
    }

    /// Removes the chunks that meet a condition.
    fn remove(&mut self, is_meant: impl Fn(&Chunk) -> bool) {
        while let Some(at) = self.list.iter().rposition(&is_meant) {
            if let Some(removed) = self.list.remove(at) {
                self.bytes -= size(&removed);
            }
        }
    }
}

/// The id of the text or call that a delta continues, and its text.
fn delta_of(chunk: &Chunk) -> Option<(&str, &str)> {
    match chunk {
        Chunk::TextDelta { id, delta } | Chunk::ReasoningDelta { id, delta } => Some((id, delta)),
        Chunk::ToolInputDelta { tool_call_id, input_text_delta } => Some((tool_call_id, input_text_delta)),
        _ => None,
    }
}

fn text_of(chunk: &mut Chunk) -> Option<&mut String> {
    match chunk {
        Chunk::TextDelta { delta, .. } | Chunk::ReasoningDelta { delta, .. } => Some(delta),
        Chunk::ToolInputDelta { input_text_delta, .. } => Some(input_text_delta),
        _ => None,
    }
}

fn call_of(chunk: &Chunk) -> Option<&str> {
    match chunk {
        Chunk::ToolInputAvailable { tool_call_id, .. } | Chunk::ToolInputError { tool_call_id, .. } => {
            Some(tool_call_id)
        }
        _ => None,
    }
}

/// Bytes of the texts of a chunk.
fn size(chunk: &Chunk) -> usize {
    match chunk {
        Chunk::TextDelta { delta, .. } | Chunk::ReasoningDelta { delta, .. } => delta.len(),
        Chunk::ToolInputDelta { input_text_delta, .. } => input_text_delta.len(),
        Chunk::ToolInputAvailable { input, .. } | Chunk::ToolInputError { input, .. } => size_of_value(input),
        Chunk::ToolOutputAvailable { output, .. } => size_of_value(output),
        Chunk::ToolOutputError { error_text, .. } => error_text.len(),
        _ => 0,
    }
}

fn size_of_value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size_of_value).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + size_of_value(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn shorten(chunk: &mut Chunk) {
    match chunk {
        Chunk::TextDelta { delta, .. } | Chunk::ReasoningDelta { delta, .. } => shorten_text(delta),
        Chunk::ToolInputDelta { input_text_delta, .. } => shorten_text(input_text_delta),
        Chunk::ToolOutputError { error_text, .. } => shorten_text(error_text),
        Chunk::ToolInputAvailable { input, .. } | Chunk::ToolInputError { input, .. } => shorten_value(input),
        Chunk::ToolOutputAvailable { output, .. } => shorten_value(output),
        _ => {}
    }
}

fn shorten_value(value: &mut Value) {
    match value {
        Value::String(text) => shorten_text(text),
        Value::Array(items) => items.iter_mut().for_each(shorten_value),
        Value::Object(fields) => fields.values_mut().for_each(shorten_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Keeps the end of a text, which is where an answer or an output continues.
fn shorten_text(text: &mut String) {
    if text.len() > SHORT + CUT.len() {
        let from = text.ceil_char_boundary(text.len() - SHORT);
        *text = format!("{CUT}{}", &text[from..]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all(chunks: &[Chunk]) -> Vec<Chunk> {
        let mut kept = Chunks::default();
        chunks.iter().cloned().for_each(|chunk| kept.add(chunk));
        let mut taken = Vec::new();
        while let Some(chunk) = kept.take() {
            taken.push(chunk);
        }
        assert_eq!(kept.bytes, 0);
        taken
    }

    fn delta(id: &str, delta: &str) -> Chunk {
        Chunk::TextDelta { id: id.into(), delta: delta.into() }
    }

    fn begun(id: &str) -> Chunk {
        Chunk::ToolInputStart { tool_call_id: id.into(), tool_name: "bash".into() }
    }

    fn input_delta(id: &str) -> Chunk {
        Chunk::ToolInputDelta { tool_call_id: id.into(), input_text_delta: "{".into() }
    }

    fn input(id: &str) -> Chunk {
        Chunk::ToolInputAvailable {
            tool_call_id: id.into(),
            tool_name: "bash".into(),
            input: json!({ "command": "ls" }),
            provider_metadata: None,
        }
    }

    fn output(id: &str, text: &str, preliminary: bool) -> Chunk {
        Chunk::ToolOutputAvailable { tool_call_id: id.into(), output: json!({ "stdout": text }), preliminary }
    }

    #[test]
    fn deltas_are_joined_and_inputs_and_outputs_replace_what_preceded_them() {
        let said = [
            delta("1", "a"),
            delta("2", "x"),
            delta("1", "b"),
            begun("A"),
            input_delta("A"),
            begun("B"),
            input_delta("A"),
            input_delta("B"),
            input("B"),
            input("A"),
            output("A", "1", true),
            output("B", "1", true),
            output("A", "12", true),
            output("A", "123", false),
        ];
        let expected = [
            delta("1", "ab"),
            delta("2", "x"),
            input("A"),
            input("B"),
            output("B", "1", true),
            output("A", "123", false),
        ];
        assert_eq!(all(&said), expected);
        // What was read already is not replaced.
        assert_eq!(all(&[input("A"), output("A", "1", false)]), [input("A"), output("A", "1", false)]);
    }

    #[test]
    fn long_texts_and_outputs_are_shortened_at_their_beginning() {
        let mut chunks = Chunks::default();
        let long = "é".repeat(600 * 1024);
        for chunk in [delta("1", &long), output("A", &long, false), output("B", "short", false)] {
            chunks.add(chunk);
        }
        chunks.add(output("C", &long, false));
        chunks.shorten(2 * 1024 * 1024);
        assert!(chunks.bytes <= 2 * 1024 * 1024);
        let Some(Chunk::TextDelta { delta, .. }) = chunks.take() else { panic!("it was a text") };
        assert!(
            delta.starts_with("[…]\n") && delta.ends_with('é') && delta.len() <= SHORT + 8,
            "{}",
            delta.len()
        );
        let again = {
            let mut again = delta.clone();
            shorten_text(&mut again);
            again
        };
        assert_eq!(again, delta, "it is not shortened twice");
        for length in SHORT..SHORT + 10 {
            let mut text = "x".repeat(length);
            shorten_text(&mut text);
            assert!(text.len() <= length);
        }
        chunks.take();
        assert_eq!(chunks.take(), Some(output("B", "short", false)));
        assert_eq!(chunks.take(), Some(output("C", &long, false)), "the newest is whole");
    }
}
