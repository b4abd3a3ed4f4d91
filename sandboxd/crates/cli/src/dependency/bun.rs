//! `bun.lock`: JSON with comments and trailing commas.

use anyhow::Context;
use jsonc_parser::ParseOptions;
use serde_json::Value;

use super::finding::Finding;
use super::specifier::locked;
use super::wanted::Wanted;

/// Finds the package of a workspace, or else the one that all workspaces share.
pub(super) fn find(content: &[u8], wanted: &Wanted) -> anyhow::Result<Option<Finding>> {
    let content = std::str::from_utf8(content)?;
    let lock: Option<Value> = jsonc_parser::parse_to_serde_value(content, &options())?;
    let lock = lock.context("the file is empty")?;
    Ok(in_packages(&lock, wanted))
}

fn in_packages(lock: &Value, wanted: &Wanted) -> Option<Finding> {
    let packages = lock.get("packages")?;
    let of_member = |member: &&str| {
        let workspace = lock.get("workspaces")?.get(*member)?.get("name")?.as_str()?;
        packages.get(format!("{workspace}/{}", wanted.name))
    };
    let package = wanted.members.iter().find_map(of_member).or_else(|| packages.get(wanted.name.as_str()))?;
    // `name@version`, or something else after the `@`.
    Some(locked(wanted.name, package.get(0)?.as_str()?))
}

/// What bun writes and accepts.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}
