//! The branches and tags of a repository, and which commit a name means.

use super::{CommitHash, GitRef};
use crate::limits;

const BRANCHES: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";
/// Fewer digits are more likely a name than a shortened hash. Git's own minimum is 4.
const MIN_SHORT_HASH: usize = 7;

/// The refs that a server advertises. For an annotated tag, the commit that it names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advertisement {
    /// Full names with their commits.
    pub refs: Vec<(String, CommitHash)>,
    /// The commit of `HEAD`.
    pub head: Option<CommitHash>,
    /// Full name of the branch that `HEAD` names.
    pub head_ref: Option<String>,
}

/// A commit that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The commit.
    pub commit: CommitHash,
    /// The branch that the request named, or the default one.
    pub branch: Option<String>,
    /// Tags of the commit, at most [`limits::MAX_TAGS_SHOWN`].
    pub tags: Vec<String>,
}

/// Why no commit was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCommit {
    /// The repository is empty.
    Empty,
    /// No branch, tag or advertised commit has the name.
    Unknown,
    /// Several advertised commits begin with these digits.
    Ambiguous,
}

impl Advertisement {
    /// The commit of a name, or without one that of the default branch. A tag precedes a branch of the same name, as in
    /// gitrevisions(7). A shortened hash is found if a branch or tag has the commit.
    pub fn find(&self, name: Option<&GitRef>) -> Result<Found, NoCommit> {
        let Some(name) = name.map(GitRef::as_str).filter(|name| *name != "HEAD") else {
            let commit = self.head.clone().ok_or(NoCommit::Empty)?;
            let branch = self.head_ref.as_deref().and_then(|name| name.strip_prefix(BRANCHES));
            return Ok(self.found(commit, branch));
        };
        let tag = format!("{TAGS}{name}");
        let branch = format!("{BRANCHES}{name}");
        for full in [name, &tag, &branch] {
            if let Some(commit) = self.commit_of(full) {
                return Ok(self.found(commit, full.strip_prefix(BRANCHES)));
            }
        }
        self.by_short_hash(name)
    }

    /// The commit of the first tag that exists.
    pub fn find_tag(&self, tags: &[String]) -> Option<Found> {
        let commit = tags.iter().find_map(|tag| self.commit_of(&format!("{TAGS}{tag}")))?;
        Some(self.found(commit, None))
    }

    fn by_short_hash(&self, digits: &str) -> Result<Found, NoCommit> {
        let is_hash = digits.len() >= MIN_SHORT_HASH && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hash {
            return Err(NoCommit::Unknown);
        }
        let digits = digits.to_ascii_lowercase();
        let all = self.refs.iter().map(|(_, commit)| commit).chain(&self.head);
        let mut matching = all.filter(|commit| commit.as_str().starts_with(&digits));
        let first = matching.next().ok_or(NoCommit::Unknown)?;
        match matching.any(|other| other != first) {
            true => Err(NoCommit::Ambiguous),
            false => Ok(self.found(first.clone(), None)),
        }
    }

    fn commit_of(&self, full: &str) -> Option<CommitHash> {
        self.refs.iter().find(|(name, _)| name == full).map(|(_, commit)| commit.clone())
    }

    fn found(&self, commit: CommitHash, branch: Option<&str>) -> Found {
        let of_commit = self.refs.iter().filter(|(_, other)| *other == commit);
        let tags = of_commit.filter_map(|(name, _)| name.strip_prefix(TAGS));
        let tags = tags.take(limits::MAX_TAGS_SHOWN).map(str::to_owned).collect();
        Found { branch: branch.map(str::to_owned), tags, commit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(digit: char) -> CommitHash {
        digit.to_string().repeat(40).parse().unwrap()
    }

    fn advertisement() -> Advertisement {
        let named = |name: &str, digit| (name.to_owned(), hash(digit));
        Advertisement {
            refs: vec![
                named("refs/heads/main", 'a'),
                named("refs/heads/both", 'b'),
                named("refs/tags/both", 'c'),
                named("refs/tags/v1.0.0", 'c'),
                ("refs/tags/near".to_owned(), format!("{}1", "c".repeat(39)).parse().unwrap()),
            ],
            head: Some(hash('a')),
            head_ref: Some("refs/heads/main".into()),
        }
    }

    fn find(name: &str) -> Result<(char, Option<String>), NoCommit> {
        let found = advertisement().find(Some(&GitRef::parse("ref", name).unwrap()))?;
        Ok((found.commit.as_str().chars().next().unwrap(), found.branch))
    }

    #[test]
    fn without_a_name_the_default_branch_is_meant() {
        let found = advertisement().find(None).unwrap();
        assert_eq!((found.commit, found.branch.as_deref()), (hash('a'), Some("main")));
        assert_eq!(Advertisement::default().find(None), Err(NoCommit::Empty));
    }

    #[test]
    fn a_tag_precedes_a_branch() {
        assert_eq!(find("both"), Ok(('c', None)));
        assert_eq!(find("refs/heads/both"), Ok(('b', Some("both".into()))));
        assert_eq!(find("main"), Ok(('a', Some("main".into()))));
        assert_eq!(find("nothing"), Err(NoCommit::Unknown));
    }

    #[test]
    fn a_short_hash_must_name_one_advertised_commit() {
        assert_eq!(find("aaaaaaa"), Ok(('a', None)));
        assert_eq!(find("AAAAAAA"), Ok(('a', None)));
        assert_eq!(find("aaaaaa"), Err(NoCommit::Unknown), "too short");
        assert_eq!(find("ccccccc"), Err(NoCommit::Ambiguous));
        assert_eq!(find("ddddddd"), Err(NoCommit::Unknown));
    }

    #[test]
    fn the_first_tag_that_exists_counts() {
        let found = advertisement().find_tag(&["v1.0.0".into(), "both".into()]).unwrap();
        assert_eq!((found.commit, found.tags), (hash('c'), vec!["both".to_owned(), "v1.0.0".to_owned()]));
        assert_eq!(advertisement().find_tag(&["v2".into()]), None);
    }
}
