//! Lines of acts on what belongs to an owner.

use crate::audit::Entry;
use crate::model::Owner;
use crate::model::audit::Act;

/// A line of an act that concerns what belongs to an owner.
pub(super) fn of_owner(act: Act, owner: Option<&Owner>) -> Entry {
    Entry {
        project: owner.map(|owner| owner.project.to_string()),
        subject: owner.and_then(|owner| owner.subject.as_ref()).map(ToString::to_string),
        ..Entry::new(act.as_str())
    }
}
