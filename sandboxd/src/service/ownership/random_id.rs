//! Ids of markers and of owners.

use super::Error;

/// Length of a random id in bytes.
const ID_BYTES: usize = 16;

/// Returns a unique id.
pub(super) fn random_id() -> Result<String, Error> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|source| Error::Randomness { source })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
