//! YAML as values. All scalars are texts, so that a version such as `1.10` keeps its form. References are not followed, so
//! a small file is never a large value.

use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value};

/// Maximum depth of a value. Lock files have 5.
const MAX_DEPTH: usize = 32;

/// A map or a list whose end was not read yet.
enum Open {
    Map { entries: Map<String, Value>, key: Option<String> },
    List(Vec<Value>),
}

/// Reads all documents of a file.
pub(super) fn documents(content: &str) -> anyhow::Result<Vec<Value>> {
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(content) {
        let value = match event?.0 {
            Event::MappingStart(..) => {
                open.push(Open::Map { entries: Map::new(), key: None });
                anyhow::ensure!(open.len() <= MAX_DEPTH, "it is nested deeper than {MAX_DEPTH} levels");
                continue;
            }
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                anyhow::ensure!(open.len() <= MAX_DEPTH, "it is nested deeper than {MAX_DEPTH} levels");
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => match open.pop() {
                Some(Open::Map { entries, .. }) => Value::Object(entries),
                Some(Open::List(items)) => Value::Array(items),
                None => continue,
            },
            Event::Scalar(text, ..) => Value::String(text.into_owned()),
            Event::Alias(_) => Value::Null,
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => continue,
        };
        match open.last_mut() {
            Some(parent) => parent.add(value),
            None => documents.push(value),
        }
    }
    Ok(documents)
}

impl Open {
    /// Adds an item, or the key or the value of an entry. A key that is not a text gets an empty one.
    fn add(&mut self, value: Value) {
        match self {
            Self::List(items) => items.push(value),
            Self::Map { entries, key } => match key.take() {
                Some(key) => drop(entries.insert(key, value)),
                None => {
                    *key = Some(match value {
                        Value::String(text) => text,
                        _ => String::new(),
                    });
                }
            },
        }
    }
}
