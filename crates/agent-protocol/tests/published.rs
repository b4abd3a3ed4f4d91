//! The protocol only grows. Items in `proto/published.txt` are never changed or removed, because a daemon meets
//! agents of earlier versions. To add new items to the file, run `PUBLISH=1 cargo test -p agent-protocol --test
//! published`.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use protox::prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};

/// The folder of the protocol.
fn protocol() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("proto")
}

/// The files of a protocol in a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|name| name == "proto")).collect()
}

/// One line for each field, enum value and call of the protocol in a folder.
fn items(dir: &Path) -> BTreeSet<String> {
    let files = files(dir);
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

/// The published lines that no longer apply.
fn gone<'a>(published: &'a BTreeSet<String>, now: &'a BTreeSet<String>) -> Vec<&'a String> {
    published.difference(now).collect()
}

#[test]
fn no_published_item_is_changed_or_removed() {
    let file = protocol().join("published.txt");
    let published = read(&file);
    let now = items(&protocol());
    let gone = gone(&published, &now);
    assert!(gone.is_empty(), "agents of earlier versions use these; add new ones beside them:\n{gone:#?}");
    let new: Vec<_> = now.difference(&published).cloned().collect();
    if std::env::var_os("PUBLISH").is_some() {
        let text: String = now.iter().map(|item| format!("{item}\n")).collect();
        std::fs::write(&file, text).unwrap();
        return;
    }
    assert!(new.is_empty(), "not in proto/published.txt yet (PUBLISH=1 adds them):\n{new:#?}");
}

/// The items of the protocol in which a text of `agent.proto` is replaced.
fn items_with(text: &str, replacement: &str) -> BTreeSet<String> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("changed-protocol");
    std::fs::create_dir_all(&dir).unwrap();
    for file in files(&protocol()) {
        std::fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
    }
    let original = std::fs::read_to_string(protocol().join("agent.proto")).unwrap();
    assert_eq!(original.matches(text).count(), 1, "{text}");
    std::fs::write(dir.join("agent.proto"), original.replace(text, replacement)).unwrap();
    items(&dir)
}

#[test]
fn a_changed_or_removed_item_is_found() {
    let version = "field sandbox.agent.v1.InfoReply 2 version: Optional string";
    let timeout = "enum sandbox.agent.v1.EndReason 2 END_REASON_TIMEOUT";
    let left = "call sandbox.agent.v1.Agent.ReaderLeft (sandbox.agent.v1.ReaderLeftRequest) -> \
        sandbox.agent.v1.ReaderLeftReply";
    let cases = [
        ("  string version = 2;\n", "", version),
        ("  string version = 2;\n", "  string version = 99;\n", version),
        ("  string version = 2;\n", "  bytes version = 2;\n", version),
        ("  string version = 2;\n", "  string release = 2;\n", version),
        ("  END_REASON_TIMEOUT = 2;\n", "", timeout),
        ("  END_REASON_TIMEOUT = 2;\n", "  END_REASON_TIMEOUT = 99;\n", timeout),
        ("  rpc ReaderLeft(ReaderLeftRequest) returns (ReaderLeftReply);\n", "", left),
    ];
    let published = read(&protocol().join("published.txt"));
    for (text, replacement, item) in cases {
        assert_eq!(gone(&published, &items_with(text, replacement)), [item], "{text} -> {replacement}");
    }
}

#[test]
#[should_panic(expected = "no-such-list.txt")]
fn a_missing_list_is_an_error() {
    read(Path::new("no-such-list.txt"));
}
