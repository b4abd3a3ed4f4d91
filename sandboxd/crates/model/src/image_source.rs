//! What the sandbox image is built from.

use std::path::PathBuf;

/// Sources of an image.
#[derive(Debug, Clone)]
pub struct ImageSource {
    /// The folder `sandbox-images`, with one folder per image and `make-base`.
    pub folder: PathBuf,
    /// Additional certificates that the build trusts. They do not stay in the image.
    pub build_ca: Option<PathBuf>,
}
