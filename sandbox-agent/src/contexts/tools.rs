//! The tools of a context: their names, for the interpreter, and their ranking for a search.

use std::collections::HashMap;
use std::time::Duration;

use agent_protocol::v1::Tool;
use serde_json::{Value, json};

/// Constants of BM25: how soon repeated words count less, and how much a long text is discounted.
const SATURATION: f64 = 1.2;
/// See [`SATURATION`].
const LENGTH_WEIGHT: f64 = 0.75;

/// Maximum length of a query in bytes. The rest of a longer one is not used, because a search keeps the agent busy.
const MAX_QUERY_BYTES: usize = 1024;

/// How many times each word of a name counts.
const NAME_WEIGHT: usize = 3;

/// A tool is found only if its score is at least this part of the best one.
const MIN_SCORE_RATIO: f64 = 0.15;

/// The tools of a context.
#[derive(Debug, Default)]
pub(super) struct Tools {
    tools: Vec<Tool>,
    /// Words of each tool, with their number.
    words: Vec<HashMap<String, usize>>,
}

impl Tools {
    pub(super) fn new(tools: Vec<Tool>) -> Self {
        let words = tools.iter().map(words_of_tool).collect();
        Self { tools, words }
    }

    pub(super) fn all(&self) -> &[Tool] {
        &self.tools
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.tools.iter().map(|tool| tool.name.clone()).collect()
    }

    /// Time for a call of a tool. `None` if there is no such tool.
    pub(super) fn timeout(&self, name: &str) -> Option<Duration> {
        let tool = self.tools.iter().find(|tool| tool.name == name)?;
        Some(Duration::from_millis(tool.timeout_ms))
    }

    /// The tools that match a query, the best first, as JSON. An empty query matches all in their order.
    pub(super) fn search(&self, query: &str, limit: usize) -> Value {
        let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES)];
        let mut found: Vec<(f64, &Tool)> = self.scores(query).into_iter().zip(&self.tools).collect();
        if !query.trim().is_empty() {
            let best = found.iter().map(|(score, _)| *score).fold(0.0, f64::max);
            found.retain(|(score, _)| *score > 0.0 && *score >= best * MIN_SCORE_RATIO);
            // Stable, so that equal ones keep their order.
            found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        }
        found.iter().take(limit).map(|(_, tool)| description_of(tool)).collect()
    }

    /// Relevance of each tool by Okapi BM25.
    fn scores(&self, query: &str) -> Vec<f64> {
        let count = self.words.len() as f64;
        let lengths: Vec<f64> = self.words.iter().map(|words| words.values().sum::<usize>() as f64).collect();
        let average = (lengths.iter().sum::<f64>() / count.max(1.0)).max(1.0);
        let mut scores = vec![0.0; self.words.len()];
        let mut asked = words_of(query);
        asked.sort_unstable();
        asked.dedup();
        for word in asked {
            let having = self.words.iter().filter(|words| words.contains_key(&word)).count() as f64;
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            for ((score, words), length) in scores.iter_mut().zip(&self.words).zip(&lengths) {
                let times = words.get(&word).copied().unwrap_or_default() as f64;
                let discount = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / average;
                *score += rarity * times * (SATURATION + 1.0) / (times + SATURATION * discount);
            }
        }
        scores
    }
}

fn description_of(tool: &Tool) -> Value {
    let schema = |text: &str| serde_json::from_str::<Value>(text).ok();
    let mut described = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": schema(&tool.input_schema),
    });
    if let Some(output) = schema(&tool.output_schema) {
        described["outputSchema"] = output;
    }
    described
}

/// Words of the name, the description and the names of the arguments.
fn words_of_tool(tool: &Tool) -> HashMap<String, usize> {
    let mut words = HashMap::new();
    let mut add = |text: &str, weight: usize| {
        for word in words_of(text) {
            *words.entry(word).or_default() += weight;
        }
    };
    add(&tool.name, NAME_WEIGHT);
    add(&tool.description, 1);
    let schema: Option<Value> = serde_json::from_str(&tool.input_schema).ok();
    let properties = schema.as_ref().and_then(|schema| schema["properties"].as_object());
    for (name, property) in properties.into_iter().flatten() {
        add(name, 1);
        add(property["description"].as_str().unwrap_or_default(), 1);
    }
    words
}

/// The words of a text in lower case: `getUserName` and `get_user_name` have three.
fn words_of(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lowercase = false;
    for character in text.chars() {
        if !character.is_alphanumeric() || (character.is_uppercase() && was_lowercase) {
            words.push(String::new());
        }
        was_lowercase = character.is_lowercase();
        if character.is_alphanumeric() {
            words.last_mut().expect("it has at least one word").extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    // The plural is found by the singular, and the other way round.
    words
        .into_iter()
        .map(|word| match word.strip_suffix('s') {
            Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
            _ => word,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str) -> Tool {
        let input_schema = r#"{"type":"object","properties":{"city":{"description":"a place"}}}"#.into();
        Tool { name: name.into(), description: description.into(), input_schema, ..Tool::default() }
    }

    fn found(tools: &Tools, query: &str) -> Vec<String> {
        let found = tools.search(query, 10);
        found.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn words_are_split_at_case_and_punctuation() {
        assert_eq!(words_of("getUserNames, HTTP_get-2"), ["get", "user", "name", "http", "get", "2"]);
        assert_eq!(words_of("class bus ÉTÉ"), ["class", "bus", "été"]);
    }

    #[test]
    fn the_most_relevant_tool_is_first() {
        let tools = Tools::new(vec![
            tool("send_mail", "Sends a message to a person."),
            tool("get_weather", "Returns the forecast for a place."),
            tool("convert", "Converts a message, such as a mail, to text."),
        ]);
        assert_eq!(found(&tools, "mails"), ["send_mail", "convert"]);
        assert_eq!(found(&tools, "weather forecast")[0], "get_weather");
        assert_eq!(found(&tools, "city").len(), 3);
        assert_eq!(found(&tools, "nothing of this"), Vec::<String>::new());
        assert_eq!(found(&tools, " "), ["send_mail", "get_weather", "convert"]);
        let long = format!("mail {}", "weather ".repeat(100_000));
        assert_eq!(found(&tools, &long).len(), 3);
        assert_eq!(tools.search("", 1).as_array().unwrap().len(), 1);
    }
}
