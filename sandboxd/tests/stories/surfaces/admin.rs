//! The admin page over HTTP.
