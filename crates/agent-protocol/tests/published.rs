//! The protocol only grows. Items in `proto/published.txt` are never changed or removed, because a daemon meets
//! agents of earlier versions. To add new items to the file, run `PUBLISH=1 cargo test -p agent-protocol --test
//! published`.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeSet;
use std::path::Path;

use protox::prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};

/// One line for each field, enum value and call.
fn items() -> BTreeSet<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|file| file.extension().is_some_and(|name| name == "proto")).collect();
    let pool = DescriptorPool::from_file_descriptor_set(protox::compile(files, [dir]).unwrap()).unwrap();
    let fields = pool.all_messages().flat_map(|message| fields_of(&message));
    let values = pool.all_enums().flat_map(|one| {
        let name = one.full_name().to_owned();
        let values: Vec<_> = one.values().map(|value| (value.number(), value.name().to_owned())).collect();
        values.into_iter().map(move |(number, value)| format!("enum {name} {number} {value}"))
    });
    let calls = pool.services().flat_map(|service| {
        let calls: Vec<_> = service.methods().collect();
        calls.into_iter().map(|call| {
            let stream = |streams| if streams { "stream " } else { "" };
            let (input, output) = (call.input(), call.output());
            format!(
                "call {} ({}{}) -> {}{}",
                call.full_name(),
                stream(call.is_client_streaming()),
                input.full_name(),
                stream(call.is_server_streaming()),
                output.full_name()
            )
        })
    });
    fields.chain(values).chain(calls).collect()
}

fn fields_of(message: &MessageDescriptor) -> Vec<String> {
    message
        .fields()
        .map(|field| format!("field {} {}", message.full_name(), description_of(&field)))
        .collect()
}

fn description_of(field: &FieldDescriptor) -> String {
    let choice = field.containing_oneof().map(|one| format!(" of {}", one.name())).unwrap_or_default();
    format!("{} {}: {:?} {:?}{choice}", field.number(), field.name(), field.cardinality(), field.kind())
}

/// Reads the published lines. A missing file is an error, because an empty list would permit every change.
fn read(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file)
        .unwrap_or_else(|error| panic!("{}: {error}; restore the published list", file.display()));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn no_published_item_is_changed_or_removed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/published.txt");
    let published = read(&file);
    let now = items();
    let gone: Vec<_> = published.difference(&now).collect();
    assert!(gone.is_empty(), "agents of earlier versions use these; add new ones beside them:\n{gone:#?}");
    let new: Vec<_> = now.difference(&published).cloned().collect();
    if std::env::var_os("PUBLISH").is_some() {
        let text: String = now.iter().map(|item| format!("{item}\n")).collect();
        std::fs::write(&file, text).unwrap();
        return;
    }
    assert!(new.is_empty(), "not in proto/published.txt yet (PUBLISH=1 adds them):\n{new:#?}");
}

#[test]
#[should_panic(expected = "no-such-list.txt")]
fn a_missing_list_is_an_error() {
    read(Path::new("no-such-list.txt"));
}
