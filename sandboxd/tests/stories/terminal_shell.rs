//! `sandboxd shell`, at a real terminal.
