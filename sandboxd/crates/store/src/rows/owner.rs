//! The columns `project` and `subject`, which say whom a row belongs to.
//!
//! Without a subject, its column is empty and not null: nulls are all distinct, and session keys are unique within an
//! owner.

use sandboxd_model::Owner;

use super::BadColumn;

pub(crate) fn project_column(owner: &Owner) -> String {
    owner.project.to_string()
}

pub(crate) fn subject_column(owner: &Owner) -> String {
    owner.subject.as_ref().map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn owner(project: &str, subject: &str) -> Result<Owner, BadColumn> {
    let subject = (!subject.is_empty()).then(|| subject.parse()).transpose();
    Ok(Owner {
        project: project.parse().map_err(|_| BadColumn("project"))?,
        subject: subject.map_err(|_| BadColumn("subject"))?,
    })
}
