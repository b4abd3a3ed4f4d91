//! The kinds of records, states, reasons and error codes only grow, because clients compare them as texts.
//! `published.txt` lists those that were published. New ones are added to the file with
//! `PUBLISH=1 cargo test -p sandbox-api --test published`.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::collections::BTreeSet;
use std::path::Path;

use syn::{Attribute, Item, ItemEnum, Meta, Token, punctuated::Punctuated};

/// One line for each kind, as it is written in JSON: `Record.stream stdout`.
fn kinds() -> BTreeSet<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|file| std::fs::read_to_string(file).unwrap());
    texts.flat_map(|text| kinds_of(&text)).collect()
}

fn kinds_of(source: &str) -> Vec<String> {
    let items = syn::parse_file(source).unwrap().items.into_iter();
    let enums = items.filter_map(|item| if let Item::Enum(item) = item { Some(item) } else { None });
    enums.filter(is_serialized).flat_map(|item| kinds_of_enum(&item)).collect()
}

fn is_serialized(item: &ItemEnum) -> bool {
    let is_derive = |attribute: &&Attribute| attribute.path().is_ident("derive");
    let mut derives = item.attrs.iter().filter(is_derive);
    derives.any(|attribute| {
        let traits = attribute.parse_args_with(Punctuated::<syn::Path, Token![,]>::parse_terminated).unwrap();
        traits.iter().any(|path| path.segments.last().unwrap().ident == "Serialize")
    })
}

fn kinds_of_enum(item: &ItemEnum) -> Vec<String> {
    // The kinds of an untagged enum differ by their fields, which the OpenAPI document lists.
    if option(&item.attrs, "untagged").is_some() {
        return Vec::new();
    }
    let tag = option(&item.attrs, "tag").map(|tag| format!(".{tag}")).unwrap_or_default();
    let style = option(&item.attrs, "rename_all").unwrap_or_default();
    let name = |variant: &syn::Variant| {
        option(&variant.attrs, "rename").unwrap_or_else(|| renamed(&variant.ident.to_string(), &style))
    };
    item.variants.iter().map(|variant| format!("{}{tag} {}", item.ident, name(variant))).collect()
}

/// The value of a serde option; empty if the option has none.
fn option(attributes: &[Attribute], name: &str) -> Option<String> {
    let serde = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    let options = serde.flat_map(|attribute| {
        attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap()
    });
    options.into_iter().find(|option| option.path().is_ident(name)).map(|option| match option {
        Meta::NameValue(pair) => match pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => text.value(),
            _ => panic!("a text is expected for {name}"),
        },
        _ => String::new(),
    })
}

/// A variant's name as serde writes it.
fn renamed(variant: &str, style: &str) -> String {
    match style {
        "" => variant.to_owned(),
        "lowercase" => variant.to_lowercase(),
        "camelCase" => variant[..1].to_lowercase() + &variant[1..],
        "snake_case" => {
            let parts = variant.char_indices().map(|(at, char)| match char.is_uppercase() && at > 0 {
                true => format!("_{}", char.to_lowercase()),
                false => char.to_lowercase().to_string(),
            });
            parts.collect()
        }
        other => panic!("this test does not know the style {other}"),
    }
}

/// Reads the published lines. A missing file is an error, because an empty list would permit every change.
fn read(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file)
        .unwrap_or_else(|error| panic!("{}: {error}; restore the published list", file.display()));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn no_published_kind_is_changed_or_removed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("published.txt");
    let published = read(&file);
    let now = kinds();
    let gone: Vec<_> = published.difference(&now).collect();
    assert!(gone.is_empty(), "clients compare these; add new ones beside them:\n{gone:#?}");
    if std::env::var_os("PUBLISH").is_some() {
        let text: String = now.iter().map(|kind| format!("{kind}\n")).collect();
        std::fs::write(&file, text).unwrap();
        return;
    }
    let new: Vec<_> = now.difference(&published).collect();
    assert!(new.is_empty(), "not in published.txt yet (PUBLISH=1 adds them):\n{new:#?}");
}

#[test]
fn kinds_are_named_as_in_json() {
    use sandbox_api::command::{EndReason, Record};
    let kinds = kinds();
    let json = serde_json::to_value(Record::Heartbeat).unwrap();
    assert!(kinds.contains(&format!("Record.stream {}", json["stream"].as_str().unwrap())));
    let json = serde_json::to_value(EndReason::Timeout).unwrap();
    assert!(kinds.contains(&format!("EndReason {}", json.as_str().unwrap())));
    let json = serde_json::to_value(sandbox_api::ErrorCode::NotFound).unwrap();
    assert!(kinds.contains(&format!("ErrorCode {}", json.as_str().unwrap())));
    assert_eq!(renamed("NameTooLong", "snake_case"), "name_too_long");
}

#[test]
#[should_panic(expected = "no-such-list.txt")]
fn a_missing_list_is_an_error() {
    read(Path::new("no-such-list.txt"));
}
