//! The ten tools of sql-fs, a server of sandboxes with a file system in a database.
//!
//! Every result is JSON in a text block. A failure that the interface knows is a result too: `{"ok":false,"error":…}`.
//! Differences from sql-fs: sandboxes are containers, whose programs are those of the image and whose files are below the
//! workspace; a command that exceeds its time limit keeps its output; host files are read only below the directory that
//! the operator has chosen.

mod bulk;
mod commands;
mod fault;
mod files;
mod sandboxes;
mod schema;

use serde_json::{Map, Value};

pub(super) use schema::definitions;

use crate::toolbox::{Arguments, Call, Toolbox};
use crate::{Error, Reply};

impl Toolbox {
    /// Executes a call. `None` if there is no such tool.
    pub(crate) async fn sql_fs(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: &Call<'_>,
    ) -> Option<Result<Reply, Error>> {
        let name = schema::NAMES.into_iter().find(|known| *known == name)?;
        let arguments = Arguments::new(name, arguments);
        let result = self.sql_fs_result(name, &arguments, call).await;
        Some(result.map(|result| Reply::text(result.to_string())))
    }

    /// The result as JSON. Only arguments that do not match the schema are an error.
    async fn sql_fs_result(
        &self,
        name: &str,
        arguments: &Arguments,
        call: &Call<'_>,
    ) -> Result<Value, Error> {
        Ok(match name {
            "sandbox_create" => fault::or_fault(self.sql_fs_create(arguments.parse()?).await),
            "sandbox_list" => {
                let schema::NoArguments {} = arguments.parse()?;
                fault::or_fault(self.sql_fs_list().await)
            }
            "sandbox_delete" => fault::or_fault(self.sql_fs_delete(arguments.parse()?, call).await),
            "bash_exec" => match self.sql_fs_exec(arguments.parse()?, call).await {
                Ok(ran) => fault::json(&ran),
                Err(error) => fault::json(&commands::not_run(&error)),
            },
            "bash_exec_batch" => fault::or_fault(self.sql_fs_exec_batch(arguments.parse()?, call).await),
            "file_read" => fault::or_fault(self.sql_fs_read(arguments.parse()?, call).await),
            "file_write" => fault::or_fault(self.sql_fs_write(arguments.parse()?, call).await),
            "file_edit" => fault::or_fault(self.sql_fs_edit(arguments.parse()?, call).await),
            "fs_ingest" => fault::or_fault(self.sql_fs_ingest(arguments.parse()?, call).await),
            _ => fault::or_fault(self.sql_fs_export(arguments.parse()?, call).await),
        })
    }
}
