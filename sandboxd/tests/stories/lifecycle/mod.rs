//! Sandboxes from their creation to their deletion: parking, waking, races and load.

mod making_room;
mod parking;
mod pool;
mod pressure;
mod promises;
mod races;
mod sandboxes;
mod user_ids;
