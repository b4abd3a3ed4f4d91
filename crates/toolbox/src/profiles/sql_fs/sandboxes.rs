//! `sandbox_create`, `sandbox_list` and `sandbox_delete`.

use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, Network, Sandbox};
use serde::Serialize;

use super::fault::Fault;
use super::schema;
use crate::Error;
use crate::toolbox::{Call, Toolbox};

/// Maximum number of sandboxes in a list.
const MAX_LISTED: usize = 1000;

/// Sandboxes of one request of the list.
const PAGE: u32 = 1000;

/// Maximum number of these requests.
const MAX_PAGES: usize = 20;

/// Maximum length of a name in characters.
const MAX_NAME_CHARS: usize = 255;

/// Keys of the sandbox's metadata.
const NAME: &str = "name";
const PYTHON: &str = "python";
const JAVASCRIPT: &str = "javascript";

#[derive(Debug, Serialize)]
pub(super) struct Created {
    id: String,
    name: Option<String>,
    python: bool,
    javascript: bool,
    network: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Listed {
    sandboxes: Vec<ListedSandbox>,
    /// Whether there are more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedSandbox {
    id: String,
    name: Option<String>,
    owner: String,
    created_at: String,
    python: bool,
    javascript: bool,
    network: bool,
}

/// A success without a result.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    ok: bool,
}

impl Toolbox {
    pub(super) async fn sql_fs_create(&self, input: schema::Create) -> Result<Created, Fault> {
        let flag = |value: Option<bool>| value.unwrap_or(false);
        let (python, javascript, network) = (flag(input.python), flag(input.javascript), flag(input.network));
        if input.name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME_CHARS) {
            return Err(Fault::new(
                "INVALID_INPUT",
                format!("`name` must have at most {MAX_NAME_CHARS} characters"),
            ));
        }
        let name = input.name.clone().map(|name| (NAME.to_owned(), name));
        let flags = [(PYTHON, python), (JAVASCRIPT, javascript)].into_iter().filter(|(_, is_set)| *is_set);
        let flags = flags.map(|(key, _)| (key.to_owned(), "true".to_owned()));
        let mode = if network { "default" } else { "none" };
        let request = CreateSandbox {
            metadata: Some(name.into_iter().chain(flags).collect()),
            network: Some(Network { mode: Some(mode.into()), allow: None }),
            ..CreateSandbox::default()
        };
        let sandboxes = &self.memory.sandboxes;
        let opened = sandboxes.open_new(&self.client, &self.namespace, request).await?;
        Ok(Created { id: opened.sandbox.to_string(), name: input.name, python, javascript, network })
    }

    pub(super) async fn sql_fs_list(&self) -> Result<Listed, Fault> {
        let owner = self.namespace.owner();
        let mut listed = Listed { sandboxes: Vec::new(), truncated: false };
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let which = ListSandboxes { limit: Some(PAGE), cursor, ..ListSandboxes::default() };
            let page = self.client.list(&which).await.map_err(Error::from)?;
            let own = page.sandboxes.into_iter().filter(|found| self.namespace.contains(&found.session_key));
            listed.sandboxes.extend(own.map(|found| listed_sandbox(found, &owner)));
            cursor = page.next_cursor;
            if cursor.is_none() || listed.sandboxes.len() > MAX_LISTED {
                break;
            }
        }
        listed.truncated = cursor.is_some() || listed.sandboxes.len() > MAX_LISTED;
        listed.sandboxes.truncate(MAX_LISTED);
        Ok(listed)
    }

    pub(super) async fn sql_fs_delete(&self, input: schema::Delete, call: &Call<'_>) -> Result<Done, Fault> {
        let delete = |sandbox| async move {
            self.client.delete(&sandbox).await?;
            self.memory.sandboxes.forget(&sandbox);
            Ok(())
        };
        self.in_sandbox(Some(&input.id), call, delete).await?;
        Ok(Done { ok: true })
    }
}

fn listed_sandbox(found: Sandbox, owner: &str) -> ListedSandbox {
    let has = |key| found.metadata.get(key).is_some_and(|value| value == "true");
    ListedSandbox {
        id: found.sandbox_id.to_string(),
        python: has(PYTHON),
        javascript: has(JAVASCRIPT),
        network: found.network.mode.as_deref() != Some("none"),
        owner: owner.to_owned(),
        created_at: found.created_at.to_string(),
        name: found.metadata.get(NAME).cloned(),
    }
}
