//! The tools of each profile are those of the published files in `profiles/`, so that a change is seen.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use toolbox::{Definition, Profile};

const UPDATE: &str = "PUBLISH=1 cargo test -p toolbox --test profiles";

fn json_of(definition: Definition) -> Value {
    let Definition { name, title, description, input_schema, output_schema, hints } = definition;
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": input_schema,
        "outputSchema": output_schema,
        "readOnly": hints.read_only,
        "destructive": hints.destructive,
        "idempotent": hints.idempotent,
        "openWorld": hints.open_world,
    })
}

#[test]
fn every_profile_is_as_published() {
    for profile in Profile::ALL {
        let tools: Vec<_> = profile.definitions().into_iter().map(json_of).collect();
        let mut tools = Value::from(tools);
        // The order of fields depends on what else is built.
        tools.sort_all_objects();
        let tools = format!("{tools:#}\n");
        let file = format!("{}/tests/profiles/{}.json", env!("CARGO_MANIFEST_DIR"), profile.name());
        if std::env::var_os("PUBLISH").is_some() {
            fs::write(&file, &tools).unwrap();
        }
        let published = fs::read_to_string(Path::new(&file)).unwrap_or_default();
        assert!(tools == published, "{file} is not current; to publish it: {UPDATE}");
    }
}

/// The names and arguments of the other systems, in their own order. They are not ours to change.
#[test]
fn profiles_have_the_names_and_arguments_of_their_systems() {
    let boxsh = [
        ("bash", "command timeout"),
        ("read", "path offset limit"),
        ("write", "path content encoding"),
        ("edit", "path edits"),
        ("run_in_terminal", "command explanation goal"),
        ("send_to_terminal", "id command"),
        ("get_terminal_output", "id"),
        ("kill_terminal", "id"),
        ("list_terminals", ""),
    ];
    let sql_fs = [
        ("sandbox_create", "name python javascript network"),
        ("sandbox_list", ""),
        ("sandbox_delete", "id"),
        ("bash_exec", "id script timeout debug readOnly"),
        ("bash_exec_batch", "id scripts timeout readOnly"),
        ("file_read", "id path offset limit byteOffset"),
        ("file_write", "id path content"),
        ("file_edit", "id path oldString newString replaceAll"),
        ("fs_ingest", "id basePath files paths"),
        ("fs_export", "id basePath"),
    ];
    let chat = [
        ("readFile", "path offset limit"),
        ("writeFile", "path content"),
        ("bash", "command"),
        ("sandboxUrl", "port"),
    ];
    for (profile, expected) in
        [(Profile::Boxsh, &boxsh[..]), (Profile::SqlFs, &sql_fs), (Profile::Chat, &chat)]
    {
        let definitions = profile.definitions();
        assert_eq!(definitions.len(), expected.len());
        for (definition, (name, arguments)) in definitions.iter().zip(expected) {
            let properties = definition.input_schema.get("properties").and_then(Value::as_object);
            let mut found: Vec<_> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            let mut arguments: Vec<_> = arguments.split_whitespace().collect();
            found.sort_unstable();
            arguments.sort_unstable();
            assert_eq!((definition.name, found), (*name, arguments));
        }
    }
}
