//! How much of a long output a call keeps.

use output_text::Keep;
use schemars::JsonSchema;
use serde::Deserialize;

/// Characters that count as a token of a language model.
const CHARS_PER_TOKEN: usize = 4;

/// The part of a long output that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "with docs of its variants, the schema is no longer a plain list of names")]
pub enum KeptPart {
    Head,
    Tail,
    Both,
}

impl From<KeptPart> for Keep {
    fn from(part: KeptPart) -> Self {
        match part {
            KeptPart::Head => Self::Head,
            KeptPart::Tail => Self::Tail,
            KeptPart::Both => Self::Both,
        }
    }
}

/// A field of `output` that is out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidOutput {
    /// Name of the field.
    pub field: &'static str,
    /// Rest of the sentence after the name.
    pub problem: String,
}

/// Returns the number of characters that a call requests, by default `max`.
pub(crate) fn requested_chars(
    max_chars: Option<u64>,
    max_tokens: Option<u64>,
    max: usize,
) -> Result<usize, InvalidOutput> {
    let (field, value, chars_each) = match (max_chars, max_tokens) {
        (Some(_), Some(_)) => {
            let problem = "has both maxChars and maxTokens".into();
            return Err(InvalidOutput { field: "output", problem });
        }
        (None, None) => return Ok(max),
        (Some(chars), None) => ("output.maxChars", chars, 1),
        (None, Some(tokens)) => ("output.maxTokens", tokens, CHARS_PER_TOKEN),
    };
    let max = max / chars_each;
    match usize::try_from(value) {
        Ok(value) if (1..=max).contains(&value) => Ok(value * chars_each),
        _ => Err(InvalidOutput { field, problem: format!("must be from 1 to {max}") }),
    }
}
