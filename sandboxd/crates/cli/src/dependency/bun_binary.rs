//! `bun.lockb`, the binary lock file of bun before version 1.2. Formats 2 and 3 are read, which differ in the numbers of a
//! version. The layout was read from files that bun 1.1.45 and 1.4.5 wrote. All numbers are little-endian.
//!
//! The table of packages has a column for each field: name, hash of the name, resolution, dependencies, and others. Then
//! there are arrays: trees, hoisted dependencies, resolutions, dependencies, external strings, and the bytes of all strings
//! that are longer than 8 bytes. The dependency at an index has the package in the resolutions at the same index.

use anyhow::Context;
use sandboxd_model::repository::PackageName;

use super::finding::Finding;
use super::range;
use super::wanted::Wanted;

const MAGIC: &[u8] = b"#!/usr/bin/env bun\nbun-lockfile-format-v0\n";

/// Where the table of packages is described: after the number of the format, a hash and the size of the file.
const TABLE_AT: usize = MAGIC.len() + 4 + 32 + 8;

const STRING_BYTES: usize = 8;
const HASH_BYTES: usize = 8;
/// Two numbers: where the slice begins in its array, and its length.
const SLICE_BYTES: usize = 8;
const ID_BYTES: usize = 4;
/// The name, its hash, two kinds, and the range.
const DEPENDENCY_BYTES: usize = 26;

/// Kind of a resolution, followed by 7 unused bytes.
const KIND_BYTES: usize = 8;
const KIND_NPM: u8 = 2;
const KIND_WORKSPACE: u8 = 72;

/// Where the slice of hoisted dependencies is in a tree, after three ids.
const TREE_SLICE_AT: usize = 12;

/// Set in a string that is stored elsewhere.
const IS_LONG: u32 = 1 << 31;

/// Finds the dependency of a workspace, or else the one in the `node_modules` of the root.
pub(super) fn find(content: &[u8], wanted: &Wanted) -> anyhow::Result<Option<Finding>> {
    let lock = Lock::read(content).context("it is not a lock file of bun that is known")?;
    let of_member = |member: &&str| lock.dependency_of(lock.workspace(member)?, wanted.name.as_str());
    let package = wanted.members.iter().find_map(of_member);
    let package = package.or_else(|| lock.hoisted(wanted.name.as_str()));
    Ok(package.and_then(|package| lock.finding(package, wanted.name)))
}

struct Lock<'a> {
    /// Number of packages.
    packages: usize,
    names: &'a [u8],
    package_resolutions: &'a [u8],
    package_dependencies: &'a [u8],
    trees: &'a [u8],
    hoisted: &'a [u8],
    resolutions: &'a [u8],
    dependencies: &'a [u8],
    strings: &'a [u8],
    /// Size of the three numbers of a version.
    number_bytes: usize,
}

impl<'a> Lock<'a> {
    fn read(content: &'a [u8]) -> Option<Self> {
        let number_bytes = match u32_at(content.strip_prefix(MAGIC)?, 0)? {
            2 => 4,
            3 => 8,
            _ => return None,
        };
        let packages = offset_at(content, TABLE_AT)?;
        let mut at = offset_at(content, TABLE_AT + 3 * 8)?;
        let mut column = |bytes: usize| {
            let column = content.get(at..at.checked_add(packages.checked_mul(bytes)?)?)?;
            at += column.len();
            Some(column)
        };
        let names = column(STRING_BYTES)?;
        column(HASH_BYTES)?;
        let package_resolutions = column(resolution_bytes(number_bytes))?;
        let package_dependencies = column(SLICE_BYTES)?;

        // Each array begins with its own range.
        let mut at = offset_at(content, TABLE_AT + 4 * 8)?;
        let mut array = || {
            let (start, end) = (offset_at(content, at)?, offset_at(content, at.checked_add(8)?)?);
            at = end;
            content.get(start..end)
        };
        let (trees, hoisted, resolutions, dependencies) = (array()?, array()?, array()?, array()?);
        array()?;
        let strings = array()?;
        Some(Self {
            packages,
            names,
            package_resolutions,
            package_dependencies,
            trees,
            hoisted,
            resolutions,
            dependencies,
            strings,
            number_bytes,
        })
    }

    /// The package that is the workspace in a directory.
    fn workspace(&self, member: &str) -> Option<usize> {
        (0..self.packages).find(|package| {
            let Some((KIND_WORKSPACE, value)) = self.resolution(*package) else { return false };
            !member.is_empty() && self.string(value, 0) == Some(member.as_bytes())
        })
    }

    /// The package that is a dependency of a package.
    fn dependency_of(&self, package: usize, name: &str) -> Option<usize> {
        let ids = slice_at(self.package_dependencies, package * SLICE_BYTES)?;
        let count = self.dependencies.len() / DEPENDENCY_BYTES;
        ids.take_while(|id| *id < count).find_map(|id| self.resolved(id, name))
    }

    /// The package in the first tree, which is the `node_modules` of the root.
    fn hoisted(&self, name: &str) -> Option<usize> {
        let places = slice_at(self.trees, TREE_SLICE_AT)?;
        let mut ids = places.map_while(|place| u32_at(self.hoisted, place.checked_mul(ID_BYTES)?));
        ids.find_map(|id| self.resolved(usize::try_from(id).ok()?, name))
    }

    /// The package of a dependency, if the dependency has this name.
    fn resolved(&self, dependency: usize, name: &str) -> Option<usize> {
        let found = self.string(self.dependencies, dependency.checked_mul(DEPENDENCY_BYTES)?)?;
        if found != name.as_bytes() {
            return None;
        }
        let package = u32_at(self.resolutions, dependency.checked_mul(ID_BYTES)?)?;
        usize::try_from(package).ok().filter(|package| *package < self.packages)
    }

    fn finding(&self, package: usize, name: &PackageName) -> Option<Finding> {
        let (kind, value) = self.resolution(package)?;
        if kind != KIND_NPM {
            return Some(Finding::Elsewhere("not from a registry".into()));
        }
        // The address of the archive precedes the version.
        let number = |index: usize| self.number(value, STRING_BYTES + index * self.number_bytes);
        let mut version = format!("{}.{}.{}", number(0)?, number(1)?, number(2)?);
        // Three numbers of 4 bytes are followed by 4 unused ones.
        let after = STRING_BYTES + (3 * self.number_bytes).next_multiple_of(8);
        for (mark, at) in [('-', after), ('+', after + STRING_BYTES + HASH_BYTES)] {
            let text = str::from_utf8(self.string(value, at)?).ok()?;
            if !text.is_empty() {
                version.push(mark);
                version.push_str(text);
            }
        }
        let own_name = str::from_utf8(self.string(self.names, package * STRING_BYTES)?).ok()?;
        let package = PackageName::parse(own_name).unwrap_or_else(|| name.clone());
        Some(Finding::Registry { package, version: range::exact(&version)? })
    }

    /// Kind and value of where a package comes from.
    fn resolution(&self, package: usize) -> Option<(u8, &'a [u8])> {
        let bytes = resolution_bytes(self.number_bytes);
        let entry = self.package_resolutions.get(package * bytes..)?.get(..bytes)?;
        Some((*entry.first()?, &entry[KIND_BYTES..]))
    }

    /// A string is at its place if it has at most 8 bytes, perhaps with zeros at its end.
    fn string(&self, data: &'a [u8], at: usize) -> Option<&'a [u8]> {
        let entry = data.get(at..)?.get(..STRING_BYTES)?;
        let length = u32_at(entry, 4)?;
        if length & IS_LONG == 0 {
            return entry.split(|byte| *byte == 0).next();
        }
        let (start, length) = (u32_at(entry, 0)?, length & !IS_LONG);
        self.strings.get(usize::try_from(start).ok()?..)?.get(..usize::try_from(length).ok()?)
    }

    fn number(&self, data: &[u8], at: usize) -> Option<u64> {
        match self.number_bytes {
            4 => u32_at(data, at).map(u64::from),
            _ => u64_at(data, at),
        }
    }
}

/// Kind, address, three numbers, and two strings with their hashes: the parts of a version after `-` and `+`.
fn resolution_bytes(number_bytes: usize) -> usize {
    KIND_BYTES + STRING_BYTES + (3 * number_bytes).next_multiple_of(8) + 2 * (STRING_BYTES + HASH_BYTES)
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..)?.get(..4)?.try_into().ok()?))
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(at..)?.get(..8)?.try_into().ok()?))
}

fn offset_at(data: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64_at(data, at)?).ok()
}

/// The indices of a slice. They may lie outside of its array, and be more than it has.
fn slice_at(data: &[u8], at: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(u32_at(data, at)?).ok()?;
    let length = usize::try_from(u32_at(data, at.checked_add(4)?)?).ok()?;
    Some(start..start.checked_add(length)?)
}
