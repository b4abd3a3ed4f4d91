//! The cgroups above those of the sandboxes.

use sandboxd_model::ProjectName;

/// The cgroup of all sandboxes.
///
/// Each project has a cgroup of its own in it, so the kernel first divides the processors among the projects that are busy,
/// and then among the sandboxes of each. However many sandboxes a project has, it takes no larger share from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupParent {
    /// The engine writes to the cgroup file system.
    Directory,
    /// systemd manages the cgroups. A `-` in a slice's name separates it from its parent (systemd.slice(5)).
    Slice,
}

impl CgroupParent {
    /// Its name for the engine.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "/sandboxd",
            Self::Slice => "sandboxd.slice",
        }
    }

    /// The cgroup of one project.
    pub fn of_project(self, project: &ProjectName) -> String {
        match self {
            Self::Directory => format!("/sandboxd/{project}"),
            // No project has a `_` in its name, so two projects do not get the same slice.
            Self::Slice => format!("sandboxd-{}.slice", project.to_string().replace('-', "_")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_project_has_a_cgroup_below_that_of_all_sandboxes() {
        let project: ProjectName = "my-lab".parse().unwrap();
        for (parent, all, own) in [
            (CgroupParent::Directory, "/sandboxd", "/sandboxd/my-lab"),
            (CgroupParent::Slice, "sandboxd.slice", "sandboxd-my_lab.slice"),
        ] {
            assert_eq!((parent.name(), parent.of_project(&project)), (all, own.to_owned()));
        }
    }
}
