//! Sets of tools with the interface of another system, for clients that were made for it.
//!
//! A profile has its own names, arguments and results. Its calls are executed by the same functions as those of the
//! default tools. A profile copies the interface of its system, not the defects.

mod boxsh;
mod chat;
mod page;
mod sql_fs;

use crate::{Definition, Profile, Tool};

impl Profile {
    /// Describes the tools, in their order.
    pub fn definitions(self) -> Vec<Definition> {
        match self {
            Self::Default => Tool::ALL.into_iter().map(Tool::definition).collect(),
            Self::Boxsh => boxsh::definitions(),
            Self::SqlFs => sql_fs::definitions(),
            Self::Chat => chat::definitions(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_profile_has_its_number_of_tools() {
        let counts = Profile::ALL.map(|profile| profile.definitions().len());
        assert_eq!(counts, [Tool::ALL.len(), 9, 10, 4]);
        for profile in Profile::ALL {
            assert_eq!(Profile::of_name(profile.name()), Some(profile));
            let definitions = profile.definitions();
            let names: HashSet<_> = definitions.iter().map(|definition| definition.name).collect();
            assert_eq!(names.len(), definitions.len());
            for Definition { name, description, input_schema, .. } in definitions {
                assert!(description.chars().count() <= Definition::MAX_DESCRIPTION_CHARS, "{name}");
                assert_eq!(input_schema["type"], "object", "{name}");
            }
        }
        assert_eq!(Profile::of_name("Boxsh"), None);
    }
}
