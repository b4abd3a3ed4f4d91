//! The contract of the store: tests that hold for every database.
//!
//! A database takes part by implementing [`TestDatabase`] and calling [`contract!`] in a module of its own.

pub(crate) mod daemon;
pub(crate) mod history;
pub(crate) mod links;
pub(crate) mod records;
pub(crate) mod sandboxes;
pub(crate) mod speed;

use sandboxd_store::Store;

/// An empty database that a test can open several times. Dropping it removes it.
pub(crate) trait TestDatabase {
    fn create() -> Self;
    async fn open(&self) -> Store;
}

/// A new database and its store. The database must live as long as the store.
pub(crate) async fn new_store<D: TestDatabase>() -> (D, Store) {
    let database = D::create();
    let store = database.open().await;
    (database, store)
}

/// Runs the contract on one kind of database, given by its path from the root of the crate. A test that is missing here is dead code, which the compiler
/// reports.
macro_rules! contract {
    ($database:ty) => {
        contract! { #[tokio::test] $database, sandboxes:
            a_sandbox_is_inserted_changed_and_removed,
            ids_session_keys_and_slots_are_unique,
            putting_a_sandbox_keeps_its_history_and_removing_it_does_not,
            every_field_is_read_back,
        }
        contract! { #[tokio::test] $database, history:
            the_newest_come_first_and_an_end_is_visible_at_once,
            a_repeated_start_changes_nothing_and_a_reused_id_starts_again,
            entries_above_the_limit_are_dropped_and_counted,
            trimming_depends_on_number_and_age,
            commands_are_looked_up_by_their_ids,
            closing_writes_pending_entries,
        }
        contract! { #[tokio::test] $database, links:
            a_link_is_added_ended_once_and_deleted,
        }
        contract! { #[tokio::test] $database, daemon:
            identity_and_orphans_are_read_back,
            a_store_is_new_until_sandboxes_are_adopted,
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
