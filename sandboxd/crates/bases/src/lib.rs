//! Bases: the files of a snapshot as an image that many sandboxes share read-only.
//!
//! A base is named by its source, the snapshot's tree, and not by its own bytes. So an existing base is found without
//! building it. The same tree always becomes the same image, because the image has no time and no random number of its
//! own.
//!
//! A tree comes from a sandbox and is hostile. It is only ever read as names, numbers and bytes: the image is written
//! from it directly, without a directory of files in between.

mod base;
mod build;

pub use base::BaseName;
pub use build::{Builder, Error};
