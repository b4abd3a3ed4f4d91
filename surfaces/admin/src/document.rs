//! The HTML document around every page, its stylesheet and its icon.

use std::sync::LazyLock;

use axum::response::{Html, IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use maud::{DOCTYPE, Markup, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

/// Address of the stylesheet. It changes with its content, so that browsers can keep it.
static STYLE_ADDRESS: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha256::digest(STYLE);
    let name: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("/admin/style.css?{name}")
});

/// A page without a session.
pub(crate) fn bare(title: &str, content: &Markup) -> Html<String> {
    let body = html! {
        header.top { a.brand href="/admin" { (mark()) "sandboxd" } }
        main.narrow #content { (content) }
    };
    document(title, &body)
}

/// The daemon's mark.
pub(crate) fn mark() -> Markup {
    html! { img src="/admin/icon.svg" alt="" width="20" height="20"; }
}

/// A page with this body. The title is plain text.
pub(crate) fn document(title: &str, body: &Markup) -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · sandboxd" }
                link rel="icon" href="/admin/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href=(*STYLE_ADDRESS);
            }
            body { (body) }
        }
    };
    Html(page.into_string())
}

/// The stylesheet.
pub(crate) async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "max-age=86400")], STYLE).into_response()
}

/// The icon.
pub(crate) async fn icon() -> Response {
    ([(CONTENT_TYPE, "image/svg+xml"), (CACHE_CONTROL, "max-age=86400")], ICON).into_response()
}
