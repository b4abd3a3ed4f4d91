//! The contract of the store: tests that hold for every backend.
//!
//! A backend takes part by implementing [`TestDatabase`] and calling [`contract!`] in a module of its own.

pub(crate) mod daemon;
pub(crate) mod history;
pub(crate) mod links;
pub(crate) mod mcp_servers;
pub(crate) mod outages;
pub(crate) mod projects;
pub(crate) mod quotas;
pub(crate) mod records;
pub(crate) mod repositories;
pub(crate) mod sandboxes;
pub(crate) mod snapshots;
pub(crate) mod speed;
pub(crate) mod values;

use sandboxd_store::Store;

/// An empty database that a test can open several times. Dropping it removes it.
pub(crate) trait TestDatabase: Sized {
    /// Another program that has locked the database.
    type Lock;

    async fn create() -> Self;
    async fn open(&self) -> Store;
    /// Makes writes wait and then fail, until [`Self::unlock`]. Reads still work.
    async fn lock(&self) -> Self::Lock;
    async fn unlock(&self, lock: Self::Lock);
}

/// A new database and its store. The database must live as long as the store.
pub(crate) async fn new_store<D: TestDatabase>() -> (D, Store) {
    let database = D::create().await;
    let store = database.open().await;
    (database, store)
}

/// Runs the contract on one backend, given by the path of its [`TestDatabase`] from the root of the crate. A test that
/// is missing here is dead code, which the compiler reports.
macro_rules! contract {
    ($database:ty) => {
        contract! { #[tokio::test] $database, sandboxes:
            a_sandbox_is_inserted_changed_and_removed,
            ids_session_keys_and_slots_are_unique,
            owners_have_the_same_session_keys,
            putting_a_sandbox_keeps_its_history_and_removing_it_does_not,
            a_put_replaces_only_the_sandbox_itself,
            tentative_sandboxes_are_confirmed_together_and_by_nothing_else,
            every_field_is_read_back,
        }
        contract! { #[tokio::test] $database, history:
            the_newest_come_first_and_an_end_is_visible_at_once,
            a_repeated_start_changes_nothing_and_a_reused_id_starts_again,
            entries_above_the_limit_are_dropped_and_counted,
            trimming_depends_on_number_and_age,
            trimming_keeps_twice_the_number_of_commands_without_an_end,
            commands_are_looked_up_by_their_ids,
            closing_writes_pending_entries,
            ended_commands_stay_in_pages_when_commands_are_trimmed,
            ended_commands_have_a_bound,
            runs_and_calls_of_contexts_are_between_the_commands,
        }
        contract! { #[tokio::test] $database, links:
            a_link_is_added_ended_once_and_deleted,
        }
        contract! { #[tokio::test] $database, mcp_servers:
            a_server_is_written_replaced_and_deleted,
        }
        contract! { #[tokio::test] $database, projects:
            a_project_is_added_once,
            a_revoked_subject_is_replaced,
            a_token_is_added_touched_and_removed,
        }
        contract! { #[tokio::test] $database, quotas:
            quotas_are_replaced,
            usage_never_becomes_smaller,
        }
        contract! { #[tokio::test] $database, values:
            values_are_replaced_listed_and_deleted,
            values_are_counted_and_removed_with_their_sandbox,
            all_values_are_replaced_at_once,
        }
        contract! { #[tokio::test] $database, repositories:
            a_repository_is_written_replaced_and_deleted,
        }
        contract! { #[tokio::test] $database, snapshots:
            a_snapshot_is_added_read_back_and_deleted,
            snapshots_of_a_sandbox_are_listed_newest_first_in_pages,
            all_snapshots_are_listed_newest_first_in_pages,
            snapshots_are_listed_for_those_who_own_them,
            expired_snapshots_are_found,
            only_surplus_checkpoints_are_found,
            a_restore_is_remembered_until_it_ends,
            a_restore_ends_together_with_the_change_of_the_values,
        }
        contract! { #[tokio::test] $database, daemon:
            identity_and_orphans_are_read_back,
            a_store_is_new_until_sandboxes_are_adopted,
        }
        contract! { #[tokio::test] $database, outages:
            a_locked_database_fails_in_time_and_works_again,
            history_waits_for_a_locked_database_and_readers_do_not,
            a_closed_store_is_not_unavailable,
        }
        contract! { #[tokio::test(flavor = "multi_thread", worker_threads = 2)] $database, speed:
            many_callers_can_write_concurrently,
            a_create_writes_twice_and_quickly,
            ten_thousand_commands_are_written_quickly,
        }
    };
    (#[$test:meta] $database:ty, $module:ident: $($name:ident,)*) => {
        mod $module {
            $(
                #[$test]
                async fn $name() {
                    $crate::contract::$module::$name::<$database>().await;
                }
            )*
        }
    };
}
